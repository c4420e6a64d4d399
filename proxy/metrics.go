package proxy

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardway/internal/problem"
)

// Codes that metrics tell apart: 100 to 599.
const firstCode, codes = 100, 500

// retryWhy says why a request was sent again.
type retryWhy uint8

const (
	retryUnsent  retryWhy = iota // no byte of it had been sent
	retryRefused                 // the owner refused it
	retryBroken                  // it may have run, and its method allows it
	retryWhys
)

var retryNames = [retryWhys]string{"unsent", "refused", "broken"}

// metrics counts by atomic adds into arrays: a prometheus.CounterVec would look
// its labels up for each request. They become metrics when they are asked for.
type metrics struct {
	requests    [int(Remote) + 1][codes]atomic.Uint64
	held        [reasons]atomic.Uint64
	heldNanos   [reasons]atomic.Int64
	refused     [int(RefusedBusy) + 1]atomic.Uint64 // by this node
	refusals    [int(RefusedBusy) + 1]atomic.Uint64 // met at other nodes
	retries     [retryWhys]atomic.Uint64
	errors      [errorCodes]atomic.Uint64
	answersCut  atomic.Uint64
	panics      atomic.Uint64
	clientsGone atomic.Uint64
	shedIdle    atomic.Uint64
	shedHeads   atomic.Uint64
	shedBodies  atomic.Uint64
	tunnels     atomic.Int64

	mu   sync.Mutex
	cuts map[string]uint64 // by reason; rare
}

func newMetrics() *metrics { return &metrics{cuts: make(map[string]uint64)} }

// request counts an answer by the way its request went; zero kind means that it
// never got as far as a route.
func (m *metrics) request(kind Kind, code int) {
	if i := code - firstCode; i >= 0 && i < codes {
		m.requests[kind][i].Add(1)
	}
}

// problem counts an answer that the proxy made itself.
func (m *metrics) problem(code problem.Code) {
	for i, known := range problemCodes() {
		if code == known {
			m.errors[i].Add(1)
			return
		}
	}
}

// problemCodes lists the codes of this package's answers.
func problemCodes() [errorCodes]problem.Code {
	return [errorCodes]problem.Code{
		problem.NoKey, problem.NoLeader, problem.QueueFull, problem.QueueTimeout, problem.UpstreamRefused,
		problem.UpstreamTimeout, problem.UpstreamBroken, problem.UpstreamBusy, problem.PeerUnreachable,
		problem.Misrouted, problem.BadRequest, problem.TooLarge, problem.URITooLong, problem.HeadTooLarge,
		problem.RequestTimeout, problem.Draining, problem.ConnectTimeout, problem.AppFailed, problem.ShardBusy, problem.Quarantined,
	}
}

const errorCodes = 20

// cut counts requests cut for a reason.
func (m *metrics) cut(reason string, n int) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cuts[reason] += uint64(n)
}

var (
	descRequests = prometheus.NewDesc("shardway_requests_total",
		"Requests answered, by the way they went and status code.", []string{"route", "code"}, nil)
	descHeld = prometheus.NewDesc("shardway_held_requests_total",
		"Requests that had to wait, by the first reason.", []string{"reason"}, nil)
	descHeldSeconds = prometheus.NewDesc("shardway_held_seconds_total",
		"Time requests spent waiting, by reason.", []string{"reason"}, nil)
	descQueueWaiting = prometheus.NewDesc("shardway_queue_requests",
		"Requests waiting now.", nil, nil)
	descQueueBytes = prometheus.NewDesc("shardway_queue_bytes",
		"Bytes held by requests waiting now.", nil, nil)
	descRefused = prometheus.NewDesc("shardway_refused_total",
		"Forwarded requests this node refused, by reason.", []string{"reason"}, nil)
	descRefusals = prometheus.NewDesc("shardway_refused_by_owner_total",
		"Requests this node forwarded and the owner refused, by reason.", []string{"reason"}, nil)
	descRetries = prometheus.NewDesc("shardway_retries_total",
		"Requests sent again, by why that was allowed.", []string{"why"}, nil)
	descErrors = prometheus.NewDesc("shardway_errors_total",
		"Answers the proxy made itself, by Shardway-Error.", []string{"error"}, nil)
	descCut = prometheus.NewDesc("shardway_cut_requests_total",
		"Running requests that were cut, by reason.", []string{"reason"}, nil)
	descPanics = prometheus.NewDesc("shardway_panics_total",
		"Requests that met a bug of the proxy and were cut.", nil, nil)
	descAnswersCut = prometheus.NewDesc("shardway_broken_answers_total",
		"Answers of apps that broke off after their head had gone to the client.", nil, nil)
	descGone = prometheus.NewDesc("shardway_clients_gone_total",
		"Requests given up because their client left.", nil, nil)
	descShed = prometheus.NewDesc("shardway_shed_connections_total",
		"Connections of clients closed for others: the longest idle at --max-conns, the slowest heads at --max-head-total, the slowest bodies at --max-body-total.", []string{"what"}, nil)
	descHeads = prometheus.NewDesc("shardway_head_bytes",
		"Bytes that partly read heads of clients keep.", nil, nil)
	descBodies = prometheus.NewDesc("shardway_body_bytes",
		"Bytes that requests keep whose bodies are awaited before they go on.", nil, nil)
	descConns = prometheus.NewDesc("shardway_connections",
		"Open connections from clients and, for forwarding, from nodes.", nil, nil)
	descTunnels = prometheus.NewDesc("shardway_tunnels",
		"Upgraded connections open now.", nil, nil)
	descUpstream = prometheus.NewDesc("shardway_upstream_connections",
		"Open connections to the app.", nil, nil)
)

// Describe sends the descriptions of all metrics; see prometheus.Collector.
func (s *Server) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descRequests, descHeld, descHeldSeconds, descQueueWaiting, descQueueBytes, descRefused, descRefusals,
		descRetries, descErrors, descCut, descAnswersCut, descPanics, descGone, descShed, descHeads, descBodies, descConns, descTunnels, descUpstream,
	} {
		ch <- d
	}
}

// Collect sends the present values; see prometheus.Collector.
func (s *Server) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	s.metrics.collect(count)
	stats := s.o.Room.Stats()
	gauge(descQueueWaiting, float64(stats.Waiting))
	gauge(descQueueBytes, float64(stats.Bytes))
	gauge(descHeads, float64(s.heads.size()))
	gauge(descBodies, float64(s.awaited.size()))
	gauge(descConns, float64(s.conns.count()))
	gauge(descTunnels, float64(s.metrics.tunnels.Load()))
	if s.upstream != nil {
		gauge(descUpstream, float64(s.upstream.size()))
	}
}

// collect gives each counter to count: those without labels and those with few
// values always, status codes once they occurred.
func (m *metrics) collect(count func(d *prometheus.Desc, v float64, labels ...string)) {
	for kind := range m.requests {
		route := "none"
		if kind > 0 {
			route = Kind(kind).String()
		}
		for i := range m.requests[kind] {
			if n := m.requests[kind][i].Load(); n > 0 {
				count(descRequests, float64(n), route, strconv.Itoa(firstCode+i))
			}
		}
	}
	for r := ReasonMoving; int(r) < reasons; r++ {
		count(descHeld, float64(m.held[r].Load()), r.String())
		count(descHeldSeconds, time.Duration(m.heldNanos[r].Load()).Seconds(), r.String())
	}
	for r := RefusedNotOwner; r <= RefusedBusy; r++ {
		count(descRefused, float64(m.refused[r].Load()), r.String())
		count(descRefusals, float64(m.refusals[r].Load()), r.String())
	}
	for i := range m.retries {
		count(descRetries, float64(m.retries[i].Load()), retryNames[i])
	}
	for i, code := range problemCodes() {
		count(descErrors, float64(m.errors[i].Load()), string(code))
	}
	count(descAnswersCut, float64(m.answersCut.Load()))
	count(descPanics, float64(m.panics.Load()))
	count(descGone, float64(m.clientsGone.Load()))
	count(descShed, float64(m.shedIdle.Load()), "idle")
	count(descShed, float64(m.shedHeads.Load()), "head")
	count(descShed, float64(m.shedBodies.Load()), "body")
	m.mu.Lock()
	defer m.mu.Unlock()
	for reason, n := range m.cuts {
		count(descCut, float64(n), reason)
	}
}
