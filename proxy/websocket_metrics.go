package proxy

import (
	"github.com/prometheus/client_golang/prometheus"

	"shardway/proxy/wsession"
)

var (
	descWebSockets = prometheus.NewDesc("shardway_resumable_websockets",
		"Number of resumable WebSockets whose clients are connected to this node, by whether they have an upstream connection.", []string{"state"}, nil)
	descRelayStarts = prometheus.NewDesc("shardway_websocket_upstream_connections_total",
		"Total number of upstream connections of resumable WebSockets that began, by reason.", []string{"reason"}, nil)
	descRelayEnds = prometheus.NewDesc("shardway_websocket_upstream_closes_total",
		"Total number of upstream connections of resumable WebSockets that ended, by result for the WebSocket.", []string{"result"}, nil)
	descHandover = prometheus.NewDesc("shardway_websocket_handover_duration_seconds",
		"Time from the request to hand over, or the loss of an upstream connection, to the next upstream connection.", []string{"reason"}, nil)
	descResumptionResults = prometheus.NewDesc("shardway_websocket_resumptions_total",
		"Total number of resumable WebSockets that lost their upstream connection, by result.", []string{"result"}, nil)
)

func webSocketDescs() []*prometheus.Desc {
	return []*prometheus.Desc{descWebSockets, descRelayStarts, descRelayEnds, descHandover, descResumptionResults}
}

// collectWebSockets sends the metrics of resumable WebSockets.
func (s *Server) collectWebSockets(ch chan<- prometheus.Metric, count func(desc *prometheus.Desc, value float64, labels ...string)) {
	attached, detached := 0, 0
	for _, counts := range s.WebSocketCounts() {
		attached += counts.Attached
		detached += counts.Detached
	}
	for i, n := range []int{attached, detached} {
		state := wsession.State(i + 1)
		ch <- prometheus.MustNewConstMetric(descWebSockets, prometheus.GaugeValue, float64(n), state.String())
	}
	m := s.metrics
	for i := range m.relayStarts {
		count(descRelayStarts, float64(m.relayStarts[i].Load()), wsession.RelayStart(i).String())
		if metric := m.handovers[i].Metric(descHandover, m.createdAt, wsession.RelayStart(i).String()); metric != nil {
			ch <- metric
		}
	}
	for i := range m.relayEnds {
		count(descRelayEnds, float64(m.relayEnds[i].Load()), wsession.RelayEnd(i).String())
	}
	for i := range m.sessionEnds {
		count(descResumptionResults, float64(m.sessionEnds[i].Load()), wsession.SessionEnd(i).String())
	}
}
