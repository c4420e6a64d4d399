package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardway/proxy/metrics"
)

// observeEnd records in m the duration of a request that has ended.
func (exchange *exchange) observeEnd(m *metrics.Metrics, duration time.Duration) {
	exchange.observeWait(m)
	if exchange.eventStream != nil {
		m.ResumableStreams.Add(-1)
	}
	m.ObserveDuration(exchange.routeKind(), exchange.account.Status, duration)
}

// observeWait records a request's total waiting time in m. For an event stream, this is the wait for the current
// upstream response.
func (exchange *exchange) observeWait(m *metrics.Metrics) {
	if exchange.hasWaited {
		m.QueueWaits[exchange.firstWaitReason].Observe(exchange.waitTime)
	}
}

// Describe sends the descriptions of all metrics; see prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) { s.metrics.Describe(ch) }

// Collect sends the current values; see prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	queued := s.options.Queue.Stats()
	values := metrics.Values{
		AppBytes: s.load.Bytes(), QueuedRequests: queued.Waiting, QueuedBytes: queued.Bytes,
		HeaderBytes: s.headerMemory.Size(), BodyBytes: s.bodies.Memory.Size(),
		Conns: s.conns.Count(), ParkedConns: s.conns.CountParked(),
		ParkedDirections: s.webSockets.parkedDirections.Load(),
		FirstMessages:    s.firstMessages.Len(),
		ReplayBytes:      s.webSockets.replays.Size(), ReplaysRefused: s.webSockets.replays.Refused.Load(),
	}
	for _, clientCount := range s.loops.ClientCounts() {
		values.EventLoopConns += clientCount
	}
	for _, counts := range s.WebSocketCounts() {
		values.AttachedWebSockets += counts.Attached
		values.DetachedWebSockets += counts.Detached
	}
	values.UpstreamConns, values.HasApp = s.upstreams.OpenConns()
	values.Instances = s.upstreams.InstanceValues()
	s.metrics.Collect(ch, &values)
}
