package node

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"shardway/node/findings"
	"shardway/node/gossip"
	"shardway/node/leaderloop"
	"shardway/node/muxpool"
	"shardway/node/registrystore"
	"shardway/node/router"
	"shardway/peer"
	"shardway/registry"
)

// Register registers the metrics of this node with r.
func (n *Node) Register(r prometheus.Registerer) error {
	nodeGauges := gauges{
		self: n.self, clock: n.options.Clock, view: n.view, router: n.router, health: n.health, agent: n.agent,
		idleTracker: n.idleTracker, leaderClient: n.leaderClient, api: n.api, services: n.options.Proxy.ServiceInstances,
	}
	all := []prometheus.Collector{
		nodeGauges,
		n.proxy, findings.NewCollector(n.monitor),
	}
	all = append(all, n.metrics.Collectors()...)
	all = append(all, n.webhook.Collectors()...)
	all = append(all, shardGauges{self: n.self, shards: n.options.Shards, state: n.router.State, hasServices: n.options.Proxy.ServiceInstances != nil})
	all = append(all, stateGauges(n.router, n.leaderClient)...)
	all = append(all, connectionMetrics(n.port, n.router)...)
	all = append(all, registryGauges(n.fsm.registry)...)
	all = append(all, gossipMetrics(n.gossip)...)
	all = append(all, muxSessionGauges(n.router)...)
	all = append(all, processMetrics(n.options.Processes)...)
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("node: metrics: %w", err)
		}
	}
	return nil
}

// gaugeFunc returns a gauge whose value is the result of f at each scrape.
func gaugeFunc(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "shardway_" + name, Help: help}, f)
}

// counterFunc returns a counter whose value is the result of f at each scrape.
func counterFunc(name, help string, f func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "shardway_" + name, Help: help}, f)
}

// stateGauges returns the metrics of the map, the leadership and the lease.
func stateGauges(router *router.Router, leaderClient *leaderloop.Client) []prometheus.Collector {
	state := router.State
	return []prometheus.Collector{
		gaugeFunc("epoch", "Number of the epoch of the committed map.", func() float64 { return float64(state().Committed().Epoch()) }),
		gaugeFunc("proposed_epoch", "Number of the epoch of the last proposal in the log.", func() float64 { return float64(state().Proposed().Epoch()) }),
		gaugeFunc("map_change_in_progress", "1 if a proposed map is not in force yet, 0 if there is none.", func() float64 { return boolGauge(state().HasOpenProposal()) }),
		gaugeFunc("ignored_entries", "Number of proposals and commits in the log that were ignored because they came too late.", func() float64 { return float64(state().IgnoredEntries()) }),
		gaugeFunc("leader", "1 if this node leads.", func() float64 { return boolGauge(leaderClient.Leadership() != nil) }),
		gaugeFunc("lease_held", "1 if this node holds a lease.", func() float64 { return boolGauge(router.HasLease()) }),
		counterFunc("lease_absent_seconds_total", "Time since the start of this node during which it had no lease; a gateway never has one.", func() float64 { return router.TimeWithoutLease().Seconds() }),
	}
}

// connectionMetrics returns the metrics of the connections between nodes.
func connectionMetrics(port *peer.Port, router *router.Router) []prometheus.Collector {
	return []prometheus.Collector{
		counterFunc("peer_evicted_total", "Total number of connections to the peer port closed before authentication, to make room for others.", func() float64 { return float64(port.Stats().Evicted) }),
		gaugeFunc("mux_window_bytes", "Bytes of additional receive window in use by streams that carry WebSockets, beyond 4 KiB each; at most 64 MiB.", func() float64 { return float64(router.WebSocketStreams.BufferBytes()) }),
	}
}

// gossipMetrics returns the metrics of the gossip streams that other nodes open.
func gossipMetrics(gossiper *gossip.Gossip) []prometheus.Collector {
	all := []prometheus.Collector{
		gaugeFunc("gossip_streams_open", "Number of open gossip streams that other nodes opened.", func() float64 { return float64(gossiper.StreamStatistics().Open) }),
	}
	for _, reason := range gossip.StreamCloseReasons() {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "shardway_gossip_streams_closed_total", ConstLabels: prometheus.Labels{"reason": reason},
			Help: "Total number of gossip streams of other nodes closed early, by the bound that they exceeded.",
		}, func() float64 { return float64(gossiper.StreamStatistics().Closed[reason]) }))
	}
	return all
}

// muxSessionGauges returns the numbers of open multiplexed sessions with other nodes.
func muxSessionGauges(router *router.Router) []prometheus.Collector {
	var all []prometheus.Collector
	for kind, pool := range map[string]*muxpool.Pool{"requests": router.RequestStreams, "websockets": router.WebSocketStreams} {
		for direction, count := range map[string]func() int{"dialed": pool.Outgoing.Len, "accepted": pool.Sessions} {
			all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "shardway_mux_sessions", ConstLabels: prometheus.Labels{"direction": direction, "type": kind},
				Help: "Number of open multiplexed sessions with other nodes, by direction and by what they carry.",
			}, func() float64 { return float64(count()) }))
		}
	}
	return all
}

// registryGauges returns the gauges of the registry.
func registryGauges(store *registrystore.Store) []prometheus.Collector {
	counts := func() (locks, waiters int) {
		store.Read(func(s *registry.State) { locks, waiters = s.Counts() })
		return locks, waiters
	}
	return []prometheus.Collector{
		gaugeFunc("registry_locks", "Number of locks of the registry that are held.", func() float64 { locks, _ := counts(); return float64(locks) }),
		gaugeFunc("registry_lock_waiters", "Number of holders that wait for a lock of the registry.", func() float64 { _, waiters := counts(); return float64(waiters) }),
	}
}
