package config

import (
	"slices"
	"time"

	"shardway/internal/timingrules"
)

// Timings that cannot be configured.
const (
	// ackTime is the time for an acknowledgement after drain-timeout.
	ackTime = time.Second
	// missedHeartbeatLimit is the number of missed heartbeats after which a node is unresponsive.
	missedHeartbeatLimit = 5
	// leaveTime is the time for the leadership transfer and for leaving.
	leaveTime = time.Second
)

// Bound is a condition between timings.
type Bound struct {
	Rule    string `json:"rule"`    // "heartbeat ≤ lease / 4"
	Figures string `json:"figures"` // "100ms ≤ 125ms"
	Holds   bool   `json:"holds"`
	Advice  bool   `json:"advice"` // the condition is only recommended: the node starts even if it does not hold
	Why     string `json:"why"`

	settings []string // settings that the condition compares; the operator should change the first one
	remedy   string
}

// dependsOnAny reports whether the bound depends on one of the given settings.
func (b Bound) dependsOnAny(names map[string]bool) bool {
	return slices.ContainsFunc(b.settings, func(k string) bool { return names[k] })
}

// Figure is a duration or a number that follows from the settings.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Why   string `json:"why"`
}

// Explanation contains the conditions between the timings and the derived figures.
type Explanation struct {
	Bounds  []Bound  `json:"bounds"`
	Figures []Figure `json:"figures"`
}

// Explain returns the conditions between the timings and the derived figures.
func (c *Config) Explain() Explanation {
	return Explanation{Bounds: c.Bounds(), Figures: c.Figures()}
}

// SilenceLimit returns the time without a heartbeat after which the leader acts.
func (c *Config) SilenceLimit() time.Duration { return missedHeartbeatLimit * c.Heartbeat }

// ElectionTime returns the usual duration of an election: a voter waits for one to two Raft timeouts.
func (c *Config) ElectionTime() time.Duration { return 2 * c.RaftTimeout }

// LatestLeaseExpiry returns the time after which the last lease of a crashed node has certainly expired. The
// rates of two clocks may differ by 10 %.
func (c *Config) LatestLeaseExpiry() time.Duration { return timingrules.LatestExpiry(c.Lease) }

// AbortDelay returns how long running requests continue after the end of a lease. A node whose clock is
// 10 % slow still ends them before dead-after.
func (c *Config) AbortDelay() time.Duration { return timingrules.AbortDelay(c.Lease, c.DeadAfter) }

// MaxTimeToUnhealthy returns the maximum time until a failing app is unhealthy. A check starts one interval (±10 %)
// after the start of the previous check, or when that check ends if this is later.
func (c *Config) MaxTimeToUnhealthy() time.Duration {
	longestInterval := c.HealthInterval * 11 / 10
	timePerFailure := max(longestInterval, c.HealthTimeout)
	return longestInterval + time.Duration(c.HealthFall-1)*timePerFailure + c.HealthTimeout
}

// AckDeadline returns how long the leader waits for the acknowledgement of a node.
func (c *Config) AckDeadline() time.Duration { return c.DrainTimeout + c.releaseTime() + ackTime }

// releaseTime returns the time that the hooks of the app add to a map change; zero without hooks.
func (c *Config) releaseTime() time.Duration {
	if !c.HasHooks() {
		return 0
	}
	return c.ReleaseTimeout
}

// Bounds returns all conditions between the timings, satisfied or not.
func (c *Config) Bounds() []Bound { return append(c.requiredBounds(), c.recommendedBounds()...) }

// requiredBounds returns the conditions that must hold. The node does not start with settings that violate one
// of them.
func (c *Config) requiredBounds() []Bound {
	var bounds []Bound
	for _, rule := range timingrules.Check(c.Heartbeat, c.Lease, c.DeadAfter) {
		bounds = append(bounds, Bound{
			Rule:     rule.Text,
			Figures:  rule.Values,
			Holds:    rule.Satisfied,
			Why:      rule.Reason,
			settings: rule.Settings,
			remedy:   rule.Remedy,
		})
	}
	bounds = append(bounds, []Bound{
		{
			Rule: "stream-grace ≤ drain-timeout", Figures: formatDuration(c.StreamGrace) + " ≤ " + formatDuration(c.DrainTimeout), Holds: c.StreamGrace <= c.DrainTimeout,
			Why:      "what still runs at drain-timeout is cut, tunnels and event streams too",
			settings: []string{"stream-grace", "drain-timeout"}, remedy: "lower stream-grace to " + formatDuration(c.DrainTimeout) + ", or raise drain-timeout",
		},
		{
			Rule: "shutdown-timeout ≥ " + c.handoverTimeouts() + " + 2s", Figures: formatDuration(c.ShutdownTimeout) + " ≥ " + formatDuration(c.AckDeadline()+leaveTime), Holds: c.ShutdownTimeout >= c.AckDeadline()+leaveTime,
			Why:      "a node that stops hands its shards over (" + c.handoverTimeouts() + " + 1s) and leaves (1s)",
			settings: []string{"shutdown-timeout", "drain-timeout", "release-timeout"}, remedy: "raise shutdown-timeout to " + formatDuration(c.AckDeadline()+leaveTime) + ", or lower drain-timeout",
		},
		{
			Rule: "lame-duck < shutdown-timeout", Figures: formatDuration(c.LameDuck) + " < " + formatDuration(c.ShutdownTimeout), Holds: c.LameDuck < c.ShutdownTimeout,
			Why:      "shutdown-timeout limits the whole shutdown, including the lame-duck phase",
			settings: []string{"lame-duck", "shutdown-timeout"}, remedy: "lower lame-duck, or raise shutdown-timeout above " + formatDuration(c.LameDuck),
		},
		{
			Rule: "restart-grace < queue-wait", Figures: formatDuration(c.RestartGrace) + " < " + formatDuration(c.QueueWait), Holds: c.RestartGrace < c.QueueWait,
			Why:      "requests for the shards of a crashed node wait in the queue for the whole restart-grace",
			settings: []string{"restart-grace", "queue-wait"}, remedy: "lower restart-grace below " + formatDuration(c.QueueWait) + ", or raise queue-wait",
		},
	}...)
	if c.HasHooks() {
		bounds = append(bounds, Bound{
			Rule: "queue-wait > drain-timeout + release-timeout + 1s", Figures: formatDuration(c.QueueWait) + " > " + formatDuration(c.AckDeadline()), Holds: c.QueueWait > c.AckDeadline(),
			Why:      "requests for a shard that moves wait until its app has released it",
			settings: []string{"queue-wait", "drain-timeout", "release-timeout"}, remedy: "raise queue-wait above " + formatDuration(c.AckDeadline()) + ", or lower release-timeout or drain-timeout",
		})
	}
	if c.OnShutdown == OnShutdownHold {
		bounds = append(bounds, Bound{
			Rule: "hold-grace < queue-wait - 1s", Figures: formatDuration(c.HoldGrace) + " < " + formatDuration(c.QueueWait-ackTime), Holds: c.HoldGrace < c.QueueWait-ackTime,
			Why:      "requests for the shards of a node that restarts wait for the node, and after hold-grace for the new owners",
			settings: []string{"hold-grace", "queue-wait"}, remedy: "lower hold-grace below " + formatDuration(c.QueueWait-ackTime) + ", or raise queue-wait",
		})
	}
	if c.RaftTimeout > timingrules.DefaultRaftTimeout {
		bounds = append(bounds, Bound{
			Rule: "2 × raft-timeout ≤ dead-after", Figures: formatDuration(c.ElectionTime()) + " ≤ " + formatDuration(c.DeadAfter), Holds: c.ElectionTime() <= c.DeadAfter,
			Why:      "without a leader, running requests are aborted at 0.85 × dead-after, and an election takes up to 2 × raft-timeout",
			settings: []string{"raft-timeout", "dead-after"}, remedy: "lower raft-timeout to " + formatDuration(c.DeadAfter/2) + ", or raise dead-after to " + formatDuration(c.ElectionTime()),
		})
	}
	if c.RemoveDeadAfter == 0 {
		return bounds
	}
	return append(bounds, Bound{
		Rule: "remove-dead-after ≥ 2 × dead-after", Figures: formatDuration(c.RemoveDeadAfter) + " ≥ " + formatDuration(2*c.DeadAfter), Holds: c.RemoveDeadAfter >= 2*c.DeadAfter,
		Why:      "a voter must not be removed before other nodes own its shards",
		settings: []string{"remove-dead-after", "dead-after"}, remedy: "raise remove-dead-after to " + formatDuration(2*c.DeadAfter) + ", or write off",
	})
}

// handoverTimeouts returns the names of the settings whose sum limits the handover of a shard. The limit
// also includes ackTime, which is not a setting.
func (c *Config) handoverTimeouts() string {
	if c.HasHooks() {
		return "drain-timeout + release-timeout"
	}
	return "drain-timeout"
}

// recommendedBounds returns the conditions that should hold. The node starts anyway, and check gives an advice.
func (c *Config) recommendedBounds() []Bound {
	return append(c.raftTimeoutAdvice(), []Bound{
		{
			Rule: "0.85 × dead-after − lease ≥ " + formatDuration(c.ElectionTime()), Figures: formatDuration(c.AbortDelay()) + " ≥ " + formatDuration(c.ElectionTime()), Holds: c.AbortDelay() >= c.ElectionTime(), Advice: true,
			Why:      "otherwise an election of usual duration aborts running requests",
			settings: []string{"dead-after", "lease", "raft-timeout"}, remedy: "raise dead-after",
		},
		{
			Rule: "queue-wait ≥ dead-after + " + formatDuration(c.ElectionTime()), Figures: formatDuration(c.QueueWait) + " ≥ " + formatDuration(c.DeadAfter+c.ElectionTime()), Holds: c.QueueWait >= c.DeadAfter+c.ElectionTime(), Advice: true,
			Why:      "otherwise requests get 503 before other nodes own the shards of a lost node",
			settings: []string{"queue-wait", "dead-after", "raft-timeout"}, remedy: "raise queue-wait",
		},
		{
			Rule: "queue-wait ≥ drain-timeout + 1s", Figures: formatDuration(c.QueueWait) + " ≥ " + formatDuration(c.DrainTimeout+ackTime), Holds: c.QueueWait >= c.DrainTimeout+ackTime, Advice: true,
			Why:      "otherwise requests get 503 while a slow request still runs at the previous owner of its shard",
			settings: []string{"queue-wait", "drain-timeout"}, remedy: "raise queue-wait",
		},
	}...)
}

// raftTimeoutAdvice returns the conditions that should hold if raft-timeout is not the default.
func (c *Config) raftTimeoutAdvice() []Bound {
	if c.RaftTimeout == timingrules.DefaultRaftTimeout {
		return nil
	}
	return []Bound{
		{
			Rule: "raft-timeout ≥ 3 × heartbeat", Figures: formatDuration(c.RaftTimeout) + " ≥ " + formatDuration(3*c.Heartbeat), Holds: c.RaftTimeout >= 3*c.Heartbeat, Advice: true,
			Why:      "otherwise an election can begin before the voters have compared whether they reach the leader, which takes three heartbeats",
			settings: []string{"raft-timeout", "heartbeat"}, remedy: "raise raft-timeout to " + formatDuration(3*c.Heartbeat) + ", or lower heartbeat",
		},
		{
			Rule: "raft-timeout ≤ lease", Figures: formatDuration(c.RaftTimeout) + " ≤ " + formatDuration(c.Lease), Holds: c.RaftTimeout <= c.Lease, Advice: true,
			Why:      "otherwise the leases of all nodes end before an election begins, and requests wait for longer than the election takes",
			settings: []string{"raft-timeout", "lease"}, remedy: "lower raft-timeout to " + formatDuration(c.Lease) + ", or raise lease",
		},
	}
}

// Figures returns the durations and maximum numbers that follow from the settings.
func (c *Config) Figures() []Figure {
	takeoverDelay := c.LatestLeaseExpiry()
	switch c.Takeover {
	case TakeoverTimeout:
		takeoverDelay = c.DeadAfter
	case TakeoverImmediate:
		takeoverDelay = 0
	case TakeoverLease:
	}
	return append([]Figure{
		{"silent after", formatDuration(c.SilenceLimit()), "five heartbeats; the leader then begins a round without the node"},
		{"crashed node's shards after", formatDuration(takeoverDelay), "with evidence of the crash and takeover " + string(c.Takeover)},
		{"silent node's shards after", formatDuration(c.DeadAfter), "without evidence (dead-after)"},
		{"election begins after", formatDuration(c.RaftTimeout) + " to " + formatDuration(c.ElectionTime()), "without messages of the leader (raft-timeout); earlier with evidence that its process has ended"},
		{"running requests cut after", formatDuration(c.AbortDelay()), "measured from the end of the lease (0.85 × dead-after − lease)"},
		{"acknowledgement due after", formatDuration(c.AckDeadline()), c.handoverTimeouts() + " + 1s; a node that misses it is dropped"},
		{"app unhealthy after", formatDuration(c.MaxTimeToUnhealthy()), "health-fall failed checks, each of up to health-timeout; earlier if the app refuses connections"},
		{"these timings count for", "a new cluster", "the founding node sets lease, dead-after, takeover and rebalance-mode; an existing cluster keeps its own (`shardway settings`)"},
	}, c.capacityFigures()...)
}
