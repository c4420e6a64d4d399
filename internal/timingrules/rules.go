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
)

// Rule is a condition that relates several settings.
type Rule struct {
	Text    string // the condition, such as "heartbeat ≤ lease / 4"
	Figures string // the condition with values, such as "100ms ≤ 125ms"
	Holds   bool
	Why     string
	Keys    []string // the settings involved; the first one should be changed
	Remedy  string
}

// Check returns all rules for the given values, with Holds set for those that hold.
// Following a remedy never violates another rule that holds.
func Check(heartbeat, lease, deadAfter time.Duration) []Rule {
	twoLeases, silent, cutAfter := 2*LatestExpiry(lease), 5*heartbeat, CutAfter(lease, deadAfter)
	return []Rule{
		{
			Text: "heartbeat ≤ lease / 4", Figures: Short(heartbeat) + " ≤ " + Short(lease/4), Holds: 4*heartbeat <= lease,
			Why:  "a lease outlives three lost heartbeats, and a pause of a quarter lease is noticed",
			Keys: []string{"heartbeat", "lease"}, Remedy: "lower heartbeat to " + Short(lease/4) + ", or raise lease to " + longerLease(4*heartbeat, deadAfter),
		},
		{
			Text: "2 × lease + 10 % < dead-after", Figures: Short(twoLeases) + " < " + Short(deadAfter), Holds: twoLeases < deadAfter,
			Why:  "a node is refused leases once its last echo is dead-after / 2 old; that is later than the end of the lease it has, though clocks differ by 10 %",
			Keys: []string{"dead-after", "lease"}, Remedy: "raise dead-after above " + Short(twoLeases) + shorterLease(heartbeat, (deadAfter*10/22).Truncate(time.Millisecond)),
		},
		{
			Text: "0.85 × dead-after − lease > 0", Figures: Short(cutAfter) + " > 0s", Holds: cutAfter > 0,
			Why:  "running requests are cut that long after the lease ended, before their shards may be taken",
			Keys: []string{"dead-after", "lease"}, Remedy: "raise dead-after above " + Short(twoLeases) + shorterLease(heartbeat, (deadAfter*10/22).Truncate(time.Millisecond)),
		},
		{
			Text: "5 × heartbeat ≤ dead-after / 2", Figures: Short(silent) + " ≤ " + Short(deadAfter/2), Holds: silent <= deadAfter/2,
			Why:  "a round without a silent node begins before that node is refused leases",
			Keys: []string{"heartbeat", "dead-after"}, Remedy: "lower heartbeat to " + Short(deadAfter/10) + ", or raise dead-after to " + Short(2*silent),
		},
	}
}

// longerLease returns the lease, together with the dead-after that it needs.
func longerLease(lease, deadAfter time.Duration) string {
	if 2*LatestExpiry(lease) < deadAfter {
		return Short(lease)
	}
	return Short(lease) + " and dead-after above " + Short(2*LatestExpiry(lease))
}

// shorterLease suggests a lease below limit, or returns "" if the heartbeat requires a
// longer one.
func shorterLease(heartbeat, limit time.Duration) string {
	if limit <= max(4*heartbeat, MinLease) {
		return ""
	}
	return ", or lower lease below " + Short(limit)
}

// LatestExpiry returns the time after which a lease has expired on every clock: the rates
// of two clocks may differ by 10 %.
func LatestExpiry(lease time.Duration) time.Duration { return lease + lease/10 }

// CutAfter returns how long running requests may continue after the end of a lease. A node
// whose clock is 10 % slow still cancels them before dead-after.
func CutAfter(lease, deadAfter time.Duration) time.Duration { return deadAfter*85/100 - lease }

// Short formats a duration without trailing zero units.
func Short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
