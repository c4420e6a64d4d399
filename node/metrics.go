package node

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"shardway/node/gossip"
)

// metrics counts what happens between nodes. Gauges are read from the node when
// asked for, so they cannot differ from /status.
type metrics struct {
	reshards  prometheus.Counter
	rounds    *prometheus.CounterVec
	drops     *prometheus.CounterVec
	taken     *prometheus.CounterVec
	lapses    prometheus.Counter
	elections prometheus.Counter
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "shardway_" + name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shardway_" + name, Help: help}, []string{label})
	}
	return &metrics{
		reshards:  counter("maps_committed_total", "Shard maps this node has applied as committed."),
		rounds:    vec("reshards_total", "Map changes this node proposed as leader, by reason.", "reason"),
		drops:     vec("drops_total", "Nodes this node dropped from the map as leader, by cause.", "cause"),
		taken:     vec("takings_total", "Owners whose shards were taken, by the rule that allowed it.", "by"),
		lapses:    counter("lease_lapses_total", "Times this node's lease ended without being renewed."),
		elections: counter("elections_won_total", "Times this node became leader."),
	}
}

// register adds the counters and the gauges of n.
func (m *metrics) register(r prometheus.Registerer, n *Node) error {
	gauge := func(name, help string, f func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shardway_" + name, Help: help}, f)
	}
	state := n.router.state.Load
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	all := []prometheus.Collector{
		m.reshards, m.rounds, m.drops, m.taken, m.lapses, m.elections,
		gauge("epoch", "Epoch of the committed map.", func() float64 { return float64(state().Committed().Epoch()) }),
		gauge("proposed_epoch", "Epoch of the last proposal in the log.", func() float64 { return float64(state().Last().Epoch()) }),
		gauge("shards_owned", "Shards this node owns in the committed map.", func() float64 { return float64(state().Committed().Count(n.self)) }),
		gauge("shards_moving", "Shards held because an open proposal moves them.", func() float64 { return float64(moving(state())) }),
		gauge("shards_orphaned", "Shards without an owner.", func() float64 { return float64(orphaned(state())) }),
		gauge("leader", "1 if this node leads.", func() float64 { return flag(n.leadership() != nil) }),
		gauge("lease_held", "1 if this node holds a lease.", func() float64 { return flag(n.router.leased()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "shardway_lease_absent_seconds_total", Help: "Time this node has been without a lease since its start, exactly; a gateway always is.",
		}, func() float64 { return n.router.leaseAbsent().Seconds() }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "shardway_peer_evicted_total", Help: "Connections to the peer port closed before they had said who they are, to make room for others from their address or for strangers.",
		}, func() float64 { return float64(n.port.Stats().Evicted) }),
		gauge("ignored_entries", "Proposals and commits in the log that came too late to count.", func() float64 { return float64(state().Ignored()) }),
	}
	all = append(all, gauge("gossip_streams_open", "Gossip streams open that others opened.", func() float64 { return float64(n.gossip.Streams().Open) }))
	for _, reason := range gossip.StreamReasons() {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "shardway_gossip_streams_closed_total", ConstLabels: prometheus.Labels{"reason": reason},
			Help: "Gossip streams of others that were closed before their time, by the bound they went beyond.",
		}, func() float64 { return float64(n.gossip.Streams().Closed[reason]) }))
	}
	for _, c := range append(all, n.proxy) {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("node: metrics: %w", err)
		}
	}
	return nil
}
