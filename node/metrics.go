package node

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"shardway/ack"
	"shardway/event"
	"shardway/node/gossip"
)

// metrics counts what happens between nodes. Gauges are read from the node when
// asked for, so they cannot differ from /status.
type metrics struct {
	reshards   prometheus.Counter
	rounds     *prometheus.CounterVec
	drops      *prometheus.CounterVec
	taken      *prometheus.CounterVec
	moved      *prometheus.CounterVec
	lapses     prometheus.Counter
	elections  prometheus.Counter
	campaigns  *prometheus.CounterVec
	unacquired prometheus.Counter
	releases   *prometheus.CounterVec
	phases     *prometheus.HistogramVec
	beats      prometheus.Histogram
	commits    prometheus.Histogram
	writes     prometheus.Histogram
}

// timing are the options of a histogram of durations, native and classic: each classic
// bound is twice the one before.
func timing(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: "shardway_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(1.0/4096, 2, 18),
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

// label is one word for a label, and for who reads events: what the log tells in several
// is spelled like those that are one, such as missed-ack.
func label(words string) string { return strings.ReplaceAll(words, " ", "-") }

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "shardway_" + name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shardway_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		reshards:   counter("maps_committed_total", "Shard maps this node has applied as committed."),
		rounds:     vec("reshards_total", "Map changes this node proposed as leader, by reason.", "reason"),
		drops:      vec("drops_total", "Nodes this node dropped from the map as leader, by cause.", "cause"),
		taken:      vec("takings_total", "Owners whose shards were taken, by the rule that allowed it.", "by"),
		moved:      vec("moved_shards_total", "Number of shards this node gave up to another owner, by what ran for them: idle, finished or aborted requests.", "stage"),
		lapses:     counter("lease_lapses_total", "Times this node's lease ended without being renewed."),
		elections:  counter("elections_won_total", "Times this node became leader."),
		campaigns:  vec("campaigns_total", "Times this node stood for election before Raft's own timeout, by cause.", "cause"),
		unacquired: counter("acquire_failures_total", "Calls that told the app of shards to acquire and failed, for all of them or some."),
		releases:   vec("releases_total", "Total number of shards that the app was to release because they moved, by result: ok, failed, or late for no response in time.", "result"),
		phases:     prometheus.NewHistogramVec(timing("map_phase_duration_seconds", "Time that each phase of a change of the map took here; docs/reference/events.md says from when to when."), []string{"phase"}),
		beats:      prometheus.NewHistogram(timing("heartbeat_round_trip_seconds", "Time from a heartbeat to the leader's answer.")),
		commits:    prometheus.NewHistogram(timing("raft_commit_duration_seconds", "Time from when this node put an entry into the log as leader until it was committed and applied here.")),
		writes:     prometheus.NewHistogram(timing("raft_write_duration_seconds", "Time that Raft waited for a write to the disk to be synced: entries, terms and votes.")),
	}
	for _, cause := range []string{causeEvidence, causeMissed} {
		m.campaigns.WithLabelValues(cause)
	}
	for _, result := range []ack.ReleaseResult{ack.ReleaseOK, ack.ReleaseFailed, ack.ReleaseLate} {
		m.releases.WithLabelValues(result.String())
	}
	for _, stage := range []string{stageIdle, stageFinished, stageAborted} {
		m.moved.WithLabelValues(stage)
	}
	for _, phase := range event.Phases() {
		m.phases.WithLabelValues(phase) // there from the start, so that rates are right
	}
	return m
}

// register adds the counters and the gauges of n.
func (m *metrics) register(r prometheus.Registerer, n *Node) error {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shardway_" + name, Help: help}, f)
	}
	state := n.router.state.Load
	all := []prometheus.Collector{
		m.reshards, m.rounds, m.drops, m.taken, m.moved, m.lapses, m.elections, m.campaigns, m.unacquired, m.releases, m.phases, m.beats, m.commits, m.writes,
		gauges{n},
		gauge("epoch", "Epoch of the committed map.", func() float64 { return float64(state().Committed().Epoch()) }),
		gauge("proposed_epoch", "Epoch of the last proposal in the log.", func() float64 { return float64(state().Last().Epoch()) }),
		gauge("shards_owned", "Shards this node owns in the committed map.", func() float64 { return float64(state().Committed().Count(n.self)) }),
		gauge("shards_moving", "Shards held because an open proposal moves them.", func() float64 { return float64(moving(state())) }),
		gauge("shards_orphaned", "Shards without an owner.", func() float64 { return float64(orphaned(state())) }),
		gauge("leader", "1 if this node leads.", func() float64 { return truth(n.leadership() != nil) }),
		gauge("lease_held", "1 if this node holds a lease.", func() float64 { return truth(n.router.leased()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "shardway_lease_absent_seconds_total", Help: "Time this node has been without a lease since its start, exactly; a gateway always is.",
		}, func() float64 { return n.router.leaseAbsent().Seconds() }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "shardway_peer_evicted_total", Help: "Connections to the peer port closed before they had said who they are, to make room for others from their address or for strangers.",
		}, func() float64 { return float64(n.port.Stats().Evicted) }),
		gauge("socket_window_bytes", "Bytes that lanes of WebSockets may have here for what their readers have not taken, beyond 4 KiB each, of 64 MiB.", func() float64 { return float64(n.router.legs.bytes.InUse()) }),
		gauge("ignored_entries", "Proposals and commits in the log that came too late to count.", func() float64 { return float64(state().Ignored()) }),
	}
	all = append(all, gauge("gossip_streams_open", "Gossip streams open that others opened.", func() float64 { return float64(n.gossip.Streams().Open) }))
	for _, reason := range gossip.StreamReasons() {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "shardway_gossip_streams_closed_total", ConstLabels: prometheus.Labels{"reason": reason},
			Help: "Gossip streams of others that were closed before their time, by the bound they went beyond.",
		}, func() float64 { return float64(n.gossip.Streams().Closed[reason]) }))
	}
	for what, l := range map[string]*lanes{"requests": n.router.lanes, "sockets": n.router.legs} {
		for end, count := range map[string]func() int{"dialed": l.set.Len, "accepted": l.open} {
			all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "shardway_trunks", ConstLabels: prometheus.Labels{"end": end, "what": what},
				Help: "Connections open that carry small requests, or WebSockets, to and from other nodes side by side, by which end this node is.",
			}, func() float64 { return float64(count()) }))
		}
	}
	for _, c := range append(all, n.proxy, newFindingGauge(n)) {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("node: metrics: %w", err)
		}
	}
	return nil
}
