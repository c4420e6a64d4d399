package config

import (
	"slices"
	"time"

	"shardway/internal/timingrules"
)

// Timings that cannot be configured.
const (
	// ackSlack is the time for an acknowledgement after drain-timeout.
	ackSlack = time.Second
	// silentHeartbeats is the number of missed heartbeats after which a node is unresponsive.
	silentHeartbeats = 5
	// leaveSlack is the time for the leadership transfer and for leaving.
	leaveSlack = time.Second
	// election is the usual duration of an election.
	election = time.Second
)

// Bound is a condition between timings.
type Bound struct {
	Rule    string `json:"rule"`    // "heartbeat ≤ lease / 4"
	Figures string `json:"figures"` // "100ms ≤ 125ms"
	Holds   bool   `json:"holds"`
	Advice  bool   `json:"advice"` // recommended only: a node starts without it
	Why     string `json:"why"`

	keys   []string // the settings in it; the first is the one to change
	remedy string
}

// concerns reports whether the bound depends on one of the given settings.
func (b Bound) concerns(names map[string]bool) bool {
	return slices.ContainsFunc(b.keys, func(k string) bool { return names[k] })
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
func (c *Config) SilenceLimit() time.Duration { return silentHeartbeats * c.Heartbeat }

// LatestLeaseExpiry returns the time after which the last lease of a crashed node has certainly expired. The
// rates of two clocks may differ by 10 %.
func (c *Config) LatestLeaseExpiry() time.Duration { return timingrules.LatestExpiry(c.Lease) }

// AbortDelay returns how long running requests continue after the end of a lease. A node whose clock is
// 10 % slow still ends them before dead-after.
func (c *Config) AbortDelay() time.Duration { return timingrules.AbortDelay(c.Lease, c.DeadAfter) }

// MaxTimeToUnhealthy returns the maximum time until a failing app is unhealthy. A check starts one interval (±10 %)
// after the start of the previous check, or when that check ends if this is later.
func (c *Config) MaxTimeToUnhealthy() time.Duration {
	return c.HealthInterval*11/10 + time.Duration(c.HealthFall-1)*max(c.HealthInterval*11/10, c.HealthTimeout) + c.HealthTimeout
}

// AckDeadline returns how long the leader waits for the acknowledgement of a node.
func (c *Config) AckDeadline() time.Duration { return c.DrainTimeout + c.releaseTime() + ackSlack }

// releaseTime returns the time that the hooks of the app add to a map change; zero without hooks.
func (c *Config) releaseTime() time.Duration {
	if !c.HasHooks() {
		return 0
	}
	return c.ReleaseTimeout
}

// Bounds returns all conditions between the timings, whether they hold or not.
func (c *Config) Bounds() []Bound { return append(c.requiredBounds(), c.recommendedBounds()...) }

func (c *Config) requiredBounds() []Bound {
	var bounds []Bound
	for _, b := range timingrules.Check(c.Heartbeat, c.Lease, c.DeadAfter) {
		bounds = append(bounds, Bound{Rule: b.Text, Figures: b.Values, Holds: b.Satisfied, Why: b.Reason, keys: b.Settings, remedy: b.Remedy})
	}
	bounds = append(bounds, []Bound{
		{
			Rule: "stream-grace ≤ drain-timeout", Figures: short(c.StreamGrace) + " ≤ " + short(c.DrainTimeout), Holds: c.StreamGrace <= c.DrainTimeout,
			Why:  "what still runs at drain-timeout is cut, tunnels and event streams too",
			keys: []string{"stream-grace", "drain-timeout"}, remedy: "lower stream-grace to " + short(c.DrainTimeout) + ", or raise drain-timeout",
		},
		{
			Rule: "shutdown-timeout ≥ " + c.handsOver() + " + 2s", Figures: short(c.ShutdownTimeout) + " ≥ " + short(c.AckDeadline()+leaveSlack), Holds: c.ShutdownTimeout >= c.AckDeadline()+leaveSlack,
			Why:  "a node that stops hands its shards over (" + c.handsOver() + " + 1s) and leaves (1s)",
			keys: []string{"shutdown-timeout", "drain-timeout", "release-timeout"}, remedy: "raise shutdown-timeout to " + short(c.AckDeadline()+leaveSlack) + ", or lower drain-timeout",
		},
		{
			Rule: "lame-duck < shutdown-timeout", Figures: short(c.LameDuck) + " < " + short(c.ShutdownTimeout), Holds: c.LameDuck < c.ShutdownTimeout,
			Why:  "stopping takes no longer than shutdown-timeout, the time as a lame duck included",
			keys: []string{"lame-duck", "shutdown-timeout"}, remedy: "lower lame-duck, or raise shutdown-timeout above " + short(c.LameDuck),
		},
		{
			Rule: "restart-grace < queue-wait", Figures: short(c.RestartGrace) + " < " + short(c.QueueWait), Holds: c.RestartGrace < c.QueueWait,
			Why:  "requests for the shards of a crashed node wait as long as its return is waited for",
			keys: []string{"restart-grace", "queue-wait"}, remedy: "lower restart-grace below " + short(c.QueueWait) + ", or raise queue-wait",
		},
	}...)
	if c.HasHooks() {
		bounds = append(bounds, Bound{
			Rule: "queue-wait > drain-timeout + release-timeout + 1s", Figures: short(c.QueueWait) + " > " + short(c.AckDeadline()), Holds: c.QueueWait > c.AckDeadline(),
			Why:  "requests for a shard that moves wait until its app has released it",
			keys: []string{"queue-wait", "drain-timeout", "release-timeout"}, remedy: "raise queue-wait above " + short(c.AckDeadline()) + ", or lower release-timeout or drain-timeout",
		})
	}
	if c.OnShutdown == OnShutdownHold {
		bounds = append(bounds, Bound{
			Rule: "hold-grace < queue-wait - 1s", Figures: short(c.HoldGrace) + " < " + short(c.QueueWait-ackSlack), Holds: c.HoldGrace < c.QueueWait-ackSlack,
			Why:  "requests for the shards of a node that restarts in place wait for it, and then for those who get them",
			keys: []string{"hold-grace", "queue-wait"}, remedy: "lower hold-grace below " + short(c.QueueWait-ackSlack) + ", or raise queue-wait",
		})
	}
	if c.RemoveDeadAfter == 0 {
		return bounds
	}
	return append(bounds, Bound{
		Rule: "remove-dead-after ≥ 2 × dead-after", Figures: short(c.RemoveDeadAfter) + " ≥ " + short(2*c.DeadAfter), Holds: c.RemoveDeadAfter >= 2*c.DeadAfter,
		Why:  "a voter is removed only when its shards have long been taken",
		keys: []string{"remove-dead-after", "dead-after"}, remedy: "raise remove-dead-after to " + short(2*c.DeadAfter) + ", or write off",
	})
}

// handsOver names the settings that limit the handover of a shard, except ackSlack.
func (c *Config) handsOver() string {
	if c.HasHooks() {
		return "drain-timeout + release-timeout"
	}
	return "drain-timeout"
}

func (c *Config) recommendedBounds() []Bound {
	return []Bound{
		{
			Rule: "0.85 × dead-after − lease ≥ 1s", Figures: short(c.AbortDelay()) + " ≥ " + short(election), Holds: c.AbortDelay() >= election, Advice: true,
			Why:  "else a usual election cuts running requests",
			keys: []string{"dead-after", "lease"}, remedy: "raise dead-after",
		},
		{
			Rule: "queue-wait ≥ dead-after + 1s", Figures: short(c.QueueWait) + " ≥ " + short(c.DeadAfter+election), Holds: c.QueueWait >= c.DeadAfter+election, Advice: true,
			Why:  "else requests get 503 before the shards of a lost node are taken",
			keys: []string{"queue-wait", "dead-after"}, remedy: "raise queue-wait",
		},
		{
			Rule: "queue-wait ≥ drain-timeout + 1s", Figures: short(c.QueueWait) + " ≥ " + short(c.DrainTimeout+ackSlack), Holds: c.QueueWait >= c.DrainTimeout+ackSlack, Advice: true,
			Why:  "else requests get 503 while a slow one finishes where its shard was",
			keys: []string{"queue-wait", "drain-timeout"}, remedy: "raise queue-wait",
		},
	}
}

// Figures returns the durations and maximum numbers that follow from the settings.
func (c *Config) Figures() []Figure {
	taken := c.LatestLeaseExpiry()
	switch c.Takeover {
	case TakeoverTimeout:
		taken = c.DeadAfter
	case TakeoverImmediate:
		taken = 0
	case TakeoverLease:
	}
	return append([]Figure{
		{"silent after", short(c.SilenceLimit()), "five heartbeats: the leader begins a round without the node"},
		{"crashed node's shards after", short(taken), "with evidence of the crash and takeover " + string(c.Takeover)},
		{"silent node's shards after", short(c.DeadAfter), "without evidence (dead-after)"},
		{"running requests cut after", short(c.AbortDelay()), "counted from the end of the lease (0.85 × dead-after − lease)"},
		{"acknowledgement due after", short(c.AckDeadline()), c.handsOver() + " + 1s; a node that misses it is dropped"},
		{"app unhealthy after", short(c.MaxTimeToUnhealthy()), "health-fall failed checks, each of which takes health-timeout at most; sooner where requests are refused a connection"},
		{"these timings count for", "a new cluster", "lease, dead-after, takeover and rebalance-mode are the founder's; a cluster that is there keeps its own (`shardway settings`)"},
	}, c.socketFigures()...)
}
