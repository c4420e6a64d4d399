//go:build linux

package chaos

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"shardway/e2e/kit/cluster"
)

// Options say what to run.
type Options struct {
	Binaries cluster.Binaries
	// Nodes is the size of the cluster; 0 is 3. A further one stands by, to join.
	Nodes int
	// Shards is the cluster's number of shards; 0 is 64: few, so that load covers
	// each of them every second.
	Shards int
	// For is the time after which no round begins; 0 is a minute. Rounds bounds
	// their number; 0 does not.
	For    time.Duration
	Rounds int
	// Seed decides on the schedule.
	Seed uint64
	// Dealt is how many faults of the schedule others had before: runs of one seed
	// that follow each other share it out.
	Dealt int
	// Faults chooses faults by name; nil: all.
	Faults *regexp.Regexp
	// Backwards takes the first faults from the other end: two runs with one seed,
	// one of them backwards, soon have had all.
	Backwards bool
	// Pairs has two faults at once in some rounds, after each fault had its own.
	Pairs bool
	// Takeover is the cluster's --takeover; empty: lease.
	Takeover string
	// QueueWait is the cluster's --queue-wait; 0 is 10 s, and with Hooks, which a map change
	// waits for, the 15 s that nodes have by default.
	QueueWait time.Duration
	// Patience is how much longer than that a client waits; 0 is 20 s.
	Patience time.Duration
	// Secret gives the nodes one, so that they talk TLS.
	Secret bool
	// Embedded has each app in the process of its node.
	Embedded bool
	// Hooks has the apps keep counters from acquire to release, in a directory that they
	// share, and writes them with each POST. Not with Embedded.
	Hooks bool
	// Caches has the apps cache counters of a directory that they share, without hooks. Not with
	// Embedded or Hooks.
	Caches bool
	// Hold has every other node restart in place when it is told to stop: its shards wait
	// for holdGrace.
	Hold bool
	// Followers is how many clients follow event streams.
	Followers int
	// Rate is how many requests a second all clients send together; 0 is 120.
	Rate int
	// Flags are given to every node.
	Flags []string
	// Network tells the networks of runs side by side apart.
	Network int
	// Quiet prints nothing: violations are expected.
	Quiet bool
}

func (o Options) normal() Options {
	o.Nodes = cmp.Or(o.Nodes, 3)
	o.Shards = cmp.Or(o.Shards, 64)
	o.For = cmp.Or(o.For, time.Minute)
	o.Takeover = cmp.Or(o.Takeover, "lease")
	if o.Hooks {
		o.QueueWait = cmp.Or(o.QueueWait, 15*time.Second)
	}
	o.QueueWait = cmp.Or(o.QueueWait, 10*time.Second)
	o.Patience = cmp.Or(o.Patience, 20*time.Second)
	o.Rate = cmp.Or(o.Rate, 120)
	if o.Faults == nil {
		o.Faults = regexp.MustCompile("")
	}
	return o
}

// flags are those of every node.
func (o *Options) flags() []string {
	flags := []string{"--takeover", o.Takeover, "--queue-wait", o.QueueWait.String()}
	if o.Hooks {
		flags = append(flags, "--hooks", "/_state", "--release-timeout", "2s", "--acquire-timeout", "2s")
	}
	if o.Caches {
		flags = append(flags, "--health", "/health", "--health-interval", "200ms")
		if !slices.Contains(o.Flags, "--returns") {
			flags = append(flags, "--returns", "after-restart")
		}
	}
	return append(flags, o.Flags...)
}

// holdGrace is longer than a restart takes on a busy machine, and shorter than requests
// wait.
const holdGrace = 5 * time.Second

// own are the flags of the n-th node alone. Which of them hold changes with the seed.
func (o *Options) own(n int) []string {
	if !o.Hold || (o.Seed+uint64(n))%2 == 0 {
		return nil
	}
	return []string{"--on-shutdown", "hold", "--hold-grace", holdGrace.String()}
}

// appFlags are those of every app.
func (o *Options) appFlags(store, dir string) []string {
	flags := []string{"--store", store}
	if o.Hooks {
		flags = append(flags, "--state", filepath.Join(dir, "state"), "--through")
	}
	if o.Caches {
		flags = append(flags, "--cache", filepath.Join(dir, "state"))
	}
	return flags
}
