package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ackagent "shardway/ack/agent"
	"shardway/event"
	"shardway/node/campaign"
	"shardway/node/consensus"
	"shardway/node/idleshards"
)

// Metrics contains the counters and histograms of a node. Gauges are computed from the node at each scrape,
// so they agree with /status.
type Metrics struct {
	MapsCommitted       prometheus.Counter
	MapChanges          *prometheus.CounterVec   // map changes that this node has proposed as leader
	Exclusions          *prometheus.CounterVec   // nodes that this node has excluded from the map as leader
	Takeovers           *prometheus.CounterVec   // owners whose shards other nodes have taken over
	MapChangesFailed    *prometheus.CounterVec   // map changes that another proposal of this leader has replaced
	ShardsMoved         prometheus.Counter       // shards that changed their owner in maps that this node has committed as leader
	HandedOverShards    *prometheus.CounterVec   // shards that this node has handed over
	LeaseLapses         prometheus.Counter       // leases that were not renewed in time
	Elections           prometheus.Counter       // elections that this node has won
	Campaigns           *prometheus.CounterVec   // campaigns before Raft's election timeout
	AcquireFailures     prometheus.Counter       // failed acquire calls to the app
	Releases            *prometheus.CounterVec   // shards that the app had to release
	MapPhases           *prometheus.HistogramVec // phases of map changes
	HeartbeatRoundTrips prometheus.Histogram     // round trips of heartbeats
	Commits             prometheus.Histogram     // time until a log entry is committed
	DiskWrites          prometheus.Histogram     // disk writes of Raft
	Joins               prometheus.Histogram     // time from the start until the first lease
	FirstRequests       prometheus.Histogram     // time from owning a shard until its first request has ended
	SnapshotTransfers   *prometheus.HistogramVec // time of transfers of snapshots
	SnapshotBytes       *prometheus.CounterVec   // size of transferred snapshots
	LockAcquires        *prometheus.CounterVec   // requests for locks at this node
	Hooks               *Hooks
}

// durationOpts returns the options of a histogram of durations. It has native buckets, and classic buckets whose
// bounds double from each bucket to the next.
func durationOpts(name, help string) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: "shardway_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(1.0/4096, 2, 18),
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

// New creates the metrics. Labels with a known set of values are exported as 0 from the start. services are the
// services of the configuration.
func New(services ...string) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "shardway_" + name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "shardway_" + name, Help: help}, []string{label})
	}
	m := &Metrics{
		MapsCommitted:       counter("maps_committed_total", "Total number of shard maps that this node has applied as committed."),
		MapChanges:          vec("map_changes_total", "Total number of map changes that this node proposed as leader, by reason.", "reason"),
		Exclusions:          vec("nodes_excluded_total", "Total number of nodes that this node excluded from the map as leader, by reason.", "reason"),
		Takeovers:           vec("takeovers_total", "Total number of owners whose shards were taken over, by the rule that allowed it.", "reason"),
		MapChangesFailed:    vec("map_changes_failed_total", "Total number of map changes that this node replaced as leader before they were in force, by the reason of the next change.", "reason"),
		ShardsMoved:         counter("shards_moved_total", "Total number of shards that got another owner in the maps that this node committed as leader, takeovers and first owners included."),
		HandedOverShards:    vec("handed_over_shards_total", "Total number of shards that this node gave up to another owner, by stage: idle, finished or aborted requests.", "stage"),
		LeaseLapses:         counter("lease_lapses_total", "Total number of leases of this node that ended without being renewed."),
		Elections:           counter("elections_won_total", "Total number of times that this node became leader."),
		Campaigns:           vec("campaigns_total", "Total number of times that this node stood for election before Raft's own timeout, by reason.", "reason"),
		AcquireFailures:     counter("acquire_failures_total", "Total number of acquire calls to the app that failed for some or all shards."),
		Releases:            vec("releases_total", "Total number of shards that moved and that the app had to release, by result: ok, failed, or late without a response in time.", "result"),
		MapPhases:           prometheus.NewHistogramVec(durationOpts("map_phase_duration_seconds", "Time that each phase of a map change took on this node; docs/reference/events.md defines the phases."), []string{"phase"}),
		HeartbeatRoundTrips: prometheus.NewHistogram(durationOpts("heartbeat_round_trip_seconds", "Time from a heartbeat to the leader's response.")),
		Commits:             prometheus.NewHistogram(durationOpts("raft_commit_duration_seconds", "Time from appending an entry to the log as leader until it is committed and applied on this node.")),
		DiskWrites:          prometheus.NewHistogram(durationOpts("raft_write_duration_seconds", "Time that Raft waited for a disk write to be synced: entries, terms and votes.")),
		Joins:               prometheus.NewHistogram(durationOpts("join_duration_seconds", "Time from the start of this node until its first lease; a gateway has none.")),
		FirstRequests:       prometheus.NewHistogram(durationOpts("first_request_duration_seconds", "Time from the map that gave this node a shard until the first request for the shard ended, the wait for the client included.")),
		SnapshotTransfers:   prometheus.NewHistogramVec(durationOpts("snapshot_transfer_duration_seconds", "Time that the transfer of a snapshot of the replicated state took, the installation included, by direction."), []string{"direction"}),
		SnapshotBytes:       vec("snapshot_transfer_bytes_total", "Bytes of snapshots of the replicated state that were transferred and installed, by direction.", "direction"),
		LockAcquires:        vec("lock_acquires_total", "Total number of requests for locks at this node, by result: granted at once, waited for the lock, or held by another holder.", "result"),
		Hooks:               NewHooks(services...),
	}
	for _, cause := range []string{campaign.CauseEvidence, campaign.CauseMissed} {
		m.Campaigns.WithLabelValues(cause)
	}
	for _, result := range []ackagent.ReleaseResult{ackagent.ReleaseOK, ackagent.ReleaseFailed, ackagent.ReleaseLate} {
		m.Releases.WithLabelValues(result.String())
	}
	for _, stage := range []string{idleshards.StageIdle, idleshards.StageFinished, idleshards.StageAborted} {
		m.HandedOverShards.WithLabelValues(stage)
	}
	for _, direction := range []string{consensus.SnapshotSent, consensus.SnapshotReceived} {
		m.SnapshotTransfers.WithLabelValues(direction)
		m.SnapshotBytes.WithLabelValues(direction)
	}
	for _, result := range []string{"granted", "waited", "held"} {
		m.LockAcquires.WithLabelValues(result)
	}
	for _, phase := range event.Phases() {
		m.MapPhases.WithLabelValues(phase) // exported from the start, otherwise rate() would miss the first value
	}
	return m
}

// Collectors returns all metrics.
func (m *Metrics) Collectors() []prometheus.Collector {
	return append([]prometheus.Collector{
		m.MapsCommitted, m.MapChanges, m.Exclusions, m.Takeovers, m.MapChangesFailed, m.ShardsMoved, m.HandedOverShards, m.LeaseLapses, m.Elections, m.Campaigns, m.AcquireFailures, m.Releases, m.MapPhases, m.HeartbeatRoundTrips, m.Commits, m.DiskWrites, m.Joins, m.FirstRequests, m.SnapshotTransfers, m.SnapshotBytes, m.LockAcquires,
	}, m.Hooks.collectors()...)
}

// RecordSnapshot records that a snapshot of this size was transferred in time d, including its installation.
func (m *Metrics) RecordSnapshot(direction string, size int64, d time.Duration) {
	m.SnapshotTransfers.WithLabelValues(direction).Observe(d.Seconds())
	m.SnapshotBytes.WithLabelValues(direction).Add(float64(size))
}
