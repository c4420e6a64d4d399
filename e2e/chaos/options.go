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

// Options are the parameters of a run.
type Options struct {
	Binaries cluster.Binaries
	// Nodes is the number of nodes that form the cluster; 0 means 3. There is one more node,
	// the spare node, which can join later.
	Nodes int
	// Shards is the number of shards of the cluster. 0 means 64: so few that load reaches
	// each of them every second.
	Shards int
	// Duration is the time after which no round begins. Zero means one minute. Rounds is the maximum
	// number of rounds. Zero means no limit.
	Duration time.Duration
	Rounds   int
	// Seed determines the schedule.
	Seed uint64
	// Skip is the number of faults at the start of the schedule that are skipped. With it,
	// successive runs with one seed can continue one schedule.
	Skip int
	// Faults selects faults by name; nil means all.
	Faults *regexp.Regexp
	// Reverse reverses the schedule. Two runs with one seed, one of them reversed, cover
	// all faults sooner.
	Reverse bool
	// AllowPairs permits two simultaneous faults in one round, after each fault has had a round
	// of its own.
	AllowPairs bool
	// Takeover is the --takeover of the cluster; empty means lease.
	Takeover string
	// QueueWait is the --queue-wait of the cluster. 0 means 10 s, or with Hooks 15 s, the
	// default of nodes, since a map change waits for the hooks.
	QueueWait time.Duration
	// ExtraWait is how much longer than QueueWait a client waits; 0 means 20 s.
	ExtraWait time.Duration
	// Secret gives the nodes a secret, so that they use TLS.
	Secret bool
	// Embedded runs each app in the process of its node.
	Embedded bool
	// Hooks makes the apps load counters from a shared directory in the acquire hook, and keep them until
	// the release hook. They write each change immediately. Hooks cannot be combined with Embedded.
	Hooks bool
	// Caches makes the apps cache counters of a shared directory, without hooks. It cannot be combined
	// with Embedded or Hooks.
	Caches bool
	// Instances is the number of app instances behind each node; 0 means 1. Several instances cannot be
	// combined with Embedded.
	Instances int
	// Services are the services of the cluster; nil means one. Several services cannot be combined with Embedded,
	// Hooks, Caches or Instances.
	Services []cluster.Service
	// HoldShards makes every second node restart in place after SIGTERM: its shards do not move
	// for holdGrace.
	HoldShards bool
	// Followers is the number of clients that follow event streams.
	Followers int
	// Rate is the total number of requests per second of all clients; 0 means 120.
	Rate int
	// Flags are passed to every node.
	Flags []string
	// Network distinguishes the networks of concurrent runs.
	Network int
	// Quiet suppresses the output, for runs in which violations are expected.
	Quiet bool
}

// withDefaults returns the options with the default of each field that is not set.
func (o Options) withDefaults() Options {
	o.Nodes = cmp.Or(o.Nodes, 3)
	o.Shards = cmp.Or(o.Shards, 64)
	o.Duration = cmp.Or(o.Duration, time.Minute)
	o.Takeover = cmp.Or(o.Takeover, "lease")
	if o.Hooks {
		o.QueueWait = cmp.Or(o.QueueWait, 15*time.Second)
	}
	o.QueueWait = cmp.Or(o.QueueWait, 10*time.Second)
	o.ExtraWait = cmp.Or(o.ExtraWait, 20*time.Second)
	o.Rate = cmp.Or(o.Rate, 120)
	if o.Faults == nil {
		o.Faults = regexp.MustCompile("")
	}
	return o
}

// clientTimeout returns how long a client waits for a response.
func (o *Options) clientTimeout() time.Duration { return o.QueueWait + o.ExtraWait }

// commonFlags returns the flags of every node.
func (o *Options) commonFlags() []string {
	flags := []string{"--takeover", o.Takeover, "--queue-wait", o.QueueWait.String()}
	if o.Hooks {
		flags = append(flags, "--hooks", "/_state", "--release-timeout", "2s", "--acquire-timeout", "2s")
	}
	if o.Caches {
		// The health check detects that the app has restarted. With --returns after-restart, a
		// shard returns to an app only after that, so that the app does not use an outdated cache.
		flags = append(flags, "--health", "/health", "--health-interval", "200ms")
		if !slices.Contains(o.Flags, "--returns") {
			flags = append(flags, "--returns", "after-restart")
		}
	}
	if o.Instances > 1 || o.Services != nil {
		flags = append(flags, "--health", "/health", "--health-interval", "200ms", "--health-timeout", "400ms", "--drain-timeout", "2s")
	}
	return append(flags, o.Flags...)
}

// holdGrace is longer than a restart takes on a busy machine, and shorter than the queue
// timeout of requests.
const holdGrace = 5 * time.Second

// nodeFlags returns the flags specific to node n. The seed determines which nodes use
// --on-shutdown hold.
func (o *Options) nodeFlags(n int) []string {
	if !o.HoldShards || (o.Seed+uint64(n))%2 == 0 {
		return nil
	}
	return []string{"--on-shutdown", "hold", "--hold-grace", holdGrace.String()}
}

// appFlags returns the flags of every app.
func (o *Options) appFlags(store, dir string) []string {
	flags := []string{"--store", store}
	// All apps share one directory with the counters. With hooks, an app loads and writes them for the
	// shards that it has acquired (--state), and saves each change immediately (--through). Without hooks,
	// it caches them (--cache).
	if o.Hooks {
		flags = append(flags, "--state", filepath.Join(dir, "state"), "--through")
	}
	if o.Caches {
		flags = append(flags, "--cache", filepath.Join(dir, "state"))
	}
	return flags
}
