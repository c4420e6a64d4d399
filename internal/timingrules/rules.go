// Package timingrules defines the relations between heartbeat, lease and dead-after on
// which guarantee G1 depends (docs/internals/protocol.md). Package config checks the flags of a node
// against them, and package node checks a change of the cluster-wide settings, so both
// report the same text. It is pure.
package timingrules

import (
	"strings"
	"time"
)

// Limits of the individual settings.
const (
	MinLease     = 100 * time.Millisecond
	MaxLease     = 4 * time.Minute
	MinDeadAfter = 250 * time.Millisecond
	MaxDeadAfter = time.Hour

	// MinRaftTimeout is three intervals of the leader's Raft heartbeats.
	MinRaftTimeout     = 300 * time.Millisecond
	DefaultRaftTimeout = 500 * time.Millisecond
	MaxRaftTimeout     = 30 * time.Second
)

// Rule is a condition that relates several settings.
type Rule struct {
	Text      string // the condition, such as "heartbeat ≤ lease / 4"
	Values    string // the condition with values, such as "100ms ≤ 125ms"
	Satisfied bool
	Reason    string
	Settings  []string // the settings involved; the first one should be changed
	Remedy    string
}

// Check returns all rules for the given values, and sets Satisfied for those that the values satisfy.
// Applying a remedy never breaks a rule that is currently satisfied.
func Check(heartbeat, lease, deadAfter time.Duration) []Rule {
	twiceLatestExpiry, silenceLimit, abortDelay := 2*LatestExpiry(lease), 5*heartbeat, AbortDelay(lease, deadAfter)
	return []Rule{
		{
			Text: "heartbeat ≤ lease / 4", Values: Short(heartbeat) + " ≤ " + Short(lease/4), Satisfied: 4*heartbeat <= lease,
			Reason:   "a lease survives three lost heartbeats, and a node notices when it was paused for a quarter of a lease",
			Settings: []string{"heartbeat", "lease"}, Remedy: "lower heartbeat to " + Short(lease/4) + ", or raise lease to " + raiseLeaseRemedy(4*heartbeat, deadAfter),
		},
		{
			Text: "2 × lease + 10 % < dead-after", Values: Short(twiceLatestExpiry) + " < " + Short(deadAfter), Satisfied: twiceLatestExpiry < deadAfter,
			Reason:   "the leader stops granting leases to a node whose last reply is older than dead-after / 2; by then the lease of the node has expired, even if the clocks run 10 % apart",
			Settings: []string{"dead-after", "lease"}, Remedy: "raise dead-after above " + Short(twiceLatestExpiry) + lowerLeaseRemedy(heartbeat, leaseLimit(deadAfter)),
		},
		{
			Text: "0.85 × dead-after − lease > 0", Values: Short(abortDelay) + " > 0s", Satisfied: abortDelay > 0,
			Reason:   "requests that still run this long after the lease expired are aborted, before another node may take over their shards",
			Settings: []string{"dead-after", "lease"}, Remedy: "raise dead-after above " + Short(twiceLatestExpiry) + lowerLeaseRemedy(heartbeat, leaseLimit(deadAfter)),
		},
		{
			Text: "5 × heartbeat ≤ dead-after / 2", Values: Short(silenceLimit) + " ≤ " + Short(deadAfter/2), Satisfied: silenceLimit <= deadAfter/2,
			Reason:   "the leader starts a round that excludes an unresponsive node before it stops granting leases to that node",
			Settings: []string{"heartbeat", "dead-after"}, Remedy: "lower heartbeat to " + Short(deadAfter/10) + ", or raise dead-after to " + Short(2*silenceLimit),
		},
	}
}

// raiseLeaseRemedy returns the lease, together with the dead-after that it needs.
func raiseLeaseRemedy(lease, deadAfter time.Duration) string {
	if 2*LatestExpiry(lease) < deadAfter {
		return Short(lease)
	}
	return Short(lease) + " and dead-after above " + Short(2*LatestExpiry(lease))
}

// lowerLeaseRemedy suggests a lease below limit, or returns "" if the heartbeat requires a
// longer one.
func lowerLeaseRemedy(heartbeat, limit time.Duration) string {
	if limit <= max(4*heartbeat, MinLease) {
		return ""
	}
	return ", or lower lease below " + Short(limit)
}

// leaseLimit returns the lease at which twice LatestExpiry would equal deadAfter, in whole
// milliseconds. The lease must be below it.
func leaseLimit(deadAfter time.Duration) time.Duration {
	return (deadAfter * 10 / 22).Truncate(time.Millisecond)
}

// LatestExpiry returns the time after which a lease has expired on every clock: the rates
// of two clocks may differ by 10 %.
func LatestExpiry(lease time.Duration) time.Duration { return lease + lease/10 }

// AbortDelay returns how long running requests may continue after the end of a lease. A node
// whose clock is 10 % slow still cancels them before dead-after.
func AbortDelay(lease, deadAfter time.Duration) time.Duration { return deadAfter*85/100 - lease }

// Short formats a duration without trailing zero units.
func Short(duration time.Duration) string {
	text := duration.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
