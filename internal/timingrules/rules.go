// Package timingrules holds the conditions between the timings that guard G1 and the
// heartbeat that carries leases. Package config asks for a node's flags, package
// node for a timing that an operator wants for the whole cluster: one rule, one
// sentence for both.
package timingrules

import (
	"strings"
	"time"
)

// What a lease and a dead-after may be by themselves.
const (
	LeastLease     = 100 * time.Millisecond
	MostLease      = 4 * time.Minute
	LeastDeadAfter = 250 * time.Millisecond
	MostDeadAfter  = time.Hour
)

// Bound is a condition between timings.
type Bound struct {
	Rule    string // "heartbeat ≤ lease / 4"
	Figures string // "100ms ≤ 125ms"
	Holds   bool
	Why     string
	Keys    []string // the settings in it; the first is the one to change
	Remedy  string
}

// Between returns every condition between the three, held or not. A remedy breaks
// none of the others that holds.
func Between(heartbeat, lease, deadAfter time.Duration) []Bound {
	twoLeases, silent, cutAfter := 2*RunOut(lease), 5*heartbeat, CutAfter(lease, deadAfter)
	return []Bound{
		{
			Rule: "heartbeat ≤ lease / 4", Figures: Short(heartbeat) + " ≤ " + Short(lease/4), Holds: 4*heartbeat <= lease,
			Why:  "a lease outlives three lost heartbeats, and a pause of a quarter lease is noticed",
			Keys: []string{"heartbeat", "lease"}, Remedy: "lower heartbeat to " + Short(lease/4) + ", or raise lease to " + longerLease(4*heartbeat, deadAfter),
		},
		{
			Rule: "2 × lease + 10 % < dead-after", Figures: Short(twoLeases) + " < " + Short(deadAfter), Holds: twoLeases < deadAfter,
			Why:  "a node is refused leases once its last echo is dead-after / 2 old; that is later than the end of the lease it has, though clocks differ by 10 %",
			Keys: []string{"dead-after", "lease"}, Remedy: "raise dead-after above " + Short(twoLeases) + shorterLease(heartbeat, (deadAfter*10/22).Truncate(time.Millisecond)),
		},
		{
			Rule: "0.85 × dead-after − lease > 0", Figures: Short(cutAfter) + " > 0s", Holds: cutAfter > 0,
			Why:  "running requests are cut that long after the lease ended, before their shards may be taken",
			Keys: []string{"dead-after", "lease"}, Remedy: "raise dead-after above " + Short(twoLeases) + shorterLease(heartbeat, (deadAfter*10/22).Truncate(time.Millisecond)),
		},
		{
			Rule: "5 × heartbeat ≤ dead-after / 2", Figures: Short(silent) + " ≤ " + Short(deadAfter/2), Holds: silent <= deadAfter/2,
			Why:  "a round without a silent node begins before that node is refused leases",
			Keys: []string{"heartbeat", "dead-after"}, Remedy: "lower heartbeat to " + Short(deadAfter/10) + ", or raise dead-after to " + Short(2*silent),
		},
	}
}

// longerLease is a lease with the dead-after that it needs.
func longerLease(lease, deadAfter time.Duration) string {
	if 2*RunOut(lease) < deadAfter {
		return Short(lease)
	}
	return Short(lease) + " and dead-after above " + Short(2*RunOut(lease))
}

// shorterLease offers a lease below limit, if the heartbeat allows one.
func shorterLease(heartbeat, limit time.Duration) string {
	if limit <= max(4*heartbeat, LeastLease) {
		return ""
	}
	return ", or lower lease below " + Short(limit)
}

// RunOut is when a lease has certainly run out: the rates of two clocks may differ
// by 10 %.
func RunOut(lease time.Duration) time.Duration { return lease + lease/10 }

// CutAfter is how long running requests go on after the end of a lease. A node
// whose clock runs 10 % slow still ends them before dead-after.
func CutAfter(lease, deadAfter time.Duration) time.Duration { return deadAfter*85/100 - lease }

// Short writes a duration without parts that are zero.
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
