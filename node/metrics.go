package node

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ackagent "shardway/ack/agent"
	"shardway/event"
	"shardway/node/adminapi"
	"shardway/node/campaign"
	"shardway/node/consensus"
	"shardway/node/findings"
	"shardway/node/gossip"
	"shardway/node/idleshards"
	"shardway/node/leaderloop"
	"shardway/node/muxpool"
	"shardway/node/router"
	"shardway/peer"
	"shardway/shardmap"
)

// metrics contains the counters and histograms of a node. Gauges are computed from the node at each scrape,
// so they agree with /status.
type metrics struct {
	mapsCommitted       prometheus.Counter
	mapChanges          *prometheus.CounterVec   // map changes that this node has proposed as leader
	exclusions          *prometheus.CounterVec   // nodes that this node has excluded from the map as leader
	takeovers           *prometheus.CounterVec   // owners whose shards other nodes have taken over
	mapChangesFailed    *prometheus.CounterVec   // map changes that another proposal of this leader has replaced
	shardsMoved         prometheus.Counter       // shards that changed their owner in maps that this node has committed as leader
	handedOverShards    *prometheus.CounterVec   // shards that this node has handed over
	leaseLapses         prometheus.Counter       // leases that were not renewed in time
	elections           prometheus.Counter       // elections that this node has won
	campaigns           *prometheus.CounterVec   // campaigns before Raft's election timeout
	acquireFailures     prometheus.Counter       // failed acquire calls to the app
	releases            *prometheus.CounterVec   // shards that the app had to release
	mapPhases           *prometheus.HistogramVec // phases of map changes
	heartbeatRoundTrips prometheus.Histogram     // round trips of heartbeats
	commits             prometheus.Histogram     // time until a log entry is committed
	diskWrites          prometheus.Histogram     // disk writes of Raft
	joins               prometheus.Histogram     // time from the start until the first lease
	firstRequests       prometheus.Histogram     // time from owning a shard until its first request has ended
	snapshotTransfers   *prometheus.HistogramVec // time of transfers of snapshots
	snapshotBytes       *prometheus.CounterVec   // size of transferred snapshots
	hooks               *hookMetrics
}

// durationOpts returns the options of a histogram of durations. It has native buckets, and classic buckets whose
// bounds double from each bucket to the next.
func durationOpts(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: "shardway_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(1.0/4096, 2, 18),
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

// newMetrics creates the metrics. Labels with a known set of values are exported as 0 from the start.
func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "shardway_" + name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shardway_" + name, Help: help}, []string{label})
	}
	m := &metrics{
		mapsCommitted:       counter("maps_committed_total", "Total number of shard maps that this node has applied as committed."),
		mapChanges:          vec("map_changes_total", "Total number of map changes that this node proposed as leader, by reason.", "reason"),
		exclusions:          vec("nodes_excluded_total", "Total number of nodes that this node excluded from the map as leader, by reason.", "reason"),
		takeovers:           vec("takeovers_total", "Total number of owners whose shards were taken over, by the rule that allowed it.", "reason"),
		mapChangesFailed:    vec("map_changes_failed_total", "Total number of map changes that this node replaced as leader before they were in force, by the reason of the next change.", "reason"),
		shardsMoved:         counter("shards_moved_total", "Total number of shards that got another owner in the maps that this node committed as leader, takeovers and first owners included."),
		handedOverShards:    vec("handed_over_shards_total", "Total number of shards that this node gave up to another owner, by stage: idle, finished or aborted requests.", "stage"),
		leaseLapses:         counter("lease_lapses_total", "Total number of leases of this node that ended without being renewed."),
		elections:           counter("elections_won_total", "Total number of times that this node became leader."),
		campaigns:           vec("campaigns_total", "Total number of times that this node stood for election before Raft's own timeout, by reason.", "reason"),
		acquireFailures:     counter("acquire_failures_total", "Total number of acquire calls to the app that failed for some or all shards."),
		releases:            vec("releases_total", "Total number of shards that moved and that the app had to release, by result: ok, failed, or late without a response in time.", "result"),
		mapPhases:           prometheus.NewHistogramVec(durationOpts("map_phase_duration_seconds", "Time that each phase of a map change took on this node; docs/reference/events.md defines the phases."), []string{"phase"}),
		heartbeatRoundTrips: prometheus.NewHistogram(durationOpts("heartbeat_round_trip_seconds", "Time from a heartbeat to the leader's response.")),
		commits:             prometheus.NewHistogram(durationOpts("raft_commit_duration_seconds", "Time from appending an entry to the log as leader until it is committed and applied on this node.")),
		diskWrites:          prometheus.NewHistogram(durationOpts("raft_write_duration_seconds", "Time that Raft waited for a disk write to be synced: entries, terms and votes.")),
		joins:               prometheus.NewHistogram(durationOpts("join_duration_seconds", "Time from the start of this node until its first lease; a gateway has none.")),
		firstRequests:       prometheus.NewHistogram(durationOpts("first_request_duration_seconds", "Time from the map that gave this node a shard until the first request for the shard ended, the wait for the client included.")),
		snapshotTransfers:   prometheus.NewHistogramVec(durationOpts("snapshot_transfer_duration_seconds", "Time that the transfer of a snapshot of the replicated state took, the installation included, by direction."), []string{"direction"}),
		snapshotBytes:       vec("snapshot_transfer_bytes_total", "Bytes of snapshots of the replicated state that were transferred and installed, by direction.", "direction"),
		hooks:               newHookMetrics(),
	}
	for _, cause := range []string{campaign.CauseEvidence, campaign.CauseMissed} {
		m.campaigns.WithLabelValues(cause)
	}
	for _, result := range []ackagent.ReleaseResult{ackagent.ReleaseOK, ackagent.ReleaseFailed, ackagent.ReleaseLate} {
		m.releases.WithLabelValues(result.String())
	}
	for _, stage := range []string{idleshards.StageIdle, idleshards.StageFinished, idleshards.StageAborted} {
		m.handedOverShards.WithLabelValues(stage)
	}
	for _, direction := range []string{consensus.SnapshotSent, consensus.SnapshotReceived} {
		m.snapshotTransfers.WithLabelValues(direction)
		m.snapshotBytes.WithLabelValues(direction)
	}
	for _, phase := range event.Phases() {
		m.mapPhases.WithLabelValues(phase) // exported from the start, otherwise rate() would miss the first value
	}
	return m
}

// register registers the metrics of n with r.
func (m *metrics) register(r prometheus.Registerer, n *Node) error {
	nodeGauges := gauges{
		self: n.self, clock: n.options.Clock, view: n.view, router: n.router, health: n.health, agent: n.agent,
		idleTracker: n.idleTracker, leaderClient: n.leaderClient, api: n.api,
	}
	all := []prometheus.Collector{
		m.mapsCommitted, m.mapChanges, m.exclusions, m.takeovers, m.mapChangesFailed, m.shardsMoved, m.handedOverShards, m.leaseLapses, m.elections, m.campaigns, m.acquireFailures, m.releases, m.mapPhases, m.heartbeatRoundTrips, m.commits, m.diskWrites, m.joins, m.firstRequests, m.snapshotTransfers, m.snapshotBytes,
		nodeGauges,
		n.proxy, findings.NewCollector(n.monitor),
	}
	all = append(all, m.hooks.collectors()...)
	all = append(all, n.webhook.Collectors()...)
	all = append(all, gaugeFunc("shards", "Number of shards of the cluster.", func() float64 { return float64(n.options.Shards) }))
	all = append(all, stateGauges(n.self, n.router, n.leaderClient)...)
	all = append(all, connectionMetrics(n.port, n.router)...)
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

// recordSnapshot records that a snapshot of this size was transferred in time d, including its installation.
func (m *metrics) recordSnapshot(direction string, size int64, d time.Duration) {
	m.snapshotTransfers.WithLabelValues(direction).Observe(d.Seconds())
	m.snapshotBytes.WithLabelValues(direction).Add(float64(size))
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
func stateGauges(self shardmap.NodeID, router *router.Router, leaderClient *leaderloop.Client) []prometheus.Collector {
	state := router.State
	return []prometheus.Collector{
		gaugeFunc("epoch", "Number of the epoch of the committed map.", func() float64 { return float64(state().Committed().Epoch()) }),
		gaugeFunc("proposed_epoch", "Number of the epoch of the last proposal in the log.", func() float64 { return float64(state().Proposed().Epoch()) }),
		gaugeFunc("shards_owned", "Number of shards that this node owns in the committed map.", func() float64 { return float64(state().Committed().ShardCount(self)) }),
		gaugeFunc("shards_moving", "Number of shards that an open proposal moves.", func() float64 { return float64(adminapi.MovingShards(state())) }),
		gaugeFunc("map_change_in_progress", "1 if a proposed map is not in force yet, 0 if there is none.", func() float64 { return boolGauge(state().HasOpenProposal()) }),
		gaugeFunc("shards_orphaned", "Number of shards without an owner.", func() float64 { return float64(state().Committed().OrphanCount()) }),
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
