//go:build linux

package chaos_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"shardway/e2e/chaos"
	"shardway/e2e/kit/cluster"
)

var (
	duration     = flag.Duration("chaos.for", 75*time.Second, "duration of the faults of each cluster")
	seed         = flag.Uint64("chaos.seed", 0, "seed of the schedule; 0 means SHARDWAY_TEST_SEED or a random seed, which is printed")
	only         = flag.String("chaos.faults", "", "regular expression that selects faults")
	takeover     = flag.String("chaos.takeover", "", "takeover of the nodes; empty means each for a share of the time")
	embeddedApps = flag.Bool("chaos.embedded", false, "run all apps in the processes of their nodes instead of a fifth of the time")
	cachingApps  = flag.Bool("chaos.caches", false, "let all apps cache, without hooks")
	nodes        = flag.Int("chaos.nodes", 0, "number of nodes of the only cluster, 3 or 5; 0 means both clusters")
)

// shares returns how a cluster divides its time between takeovers and kinds of apps.
func shares() []share {
	name := *takeover
	switch {
	case *embeddedApps:
		return []share{{cmp.Or(name, "lease"), 1, embedded}}
	case *cachingApps:
		return []share{{cmp.Or(name, "lease"), 1, caches}}
	case name == "":
		return []share{{"lease", 0.2, hooks}, {"lease", 0.2, embedded}, {"lease", 0.2, caches}, {"timeout", 0.2, hooks}, {"immediate", 0.2, hooks}}
	}
	return []share{{name, 0.75, hooks}, {name, 0.25, embedded}}
}

type share struct {
	takeover string
	part     float64
	apps     apps
}

// apps is the kind of apps of a share.
type apps uint8

const (
	hooks    apps = iota // separate processes with hooks
	embedded             // in the processes of their nodes
	caches               // separate processes without hooks that cache
)

// scheduleSeed returns the seed of the schedule.
func scheduleSeed() uint64 {
	if *seed != 0 {
		return *seed
	}
	if n, err := strconv.ParseUint(os.Getenv("SHARDWAY_TEST_SEED"), 10, 32); err == nil && n > 0 {
		return n
	}
	return rand.Uint64N(1_000_000) + 1
}

// totals sums up the runs of concurrent clusters.
type totals struct {
	mu       sync.Mutex
	kinds    map[string]bool
	rounds   int
	requests int
	events   int
	resumed  int
	duration time.Duration // of all runs
}

func (a *totals) add(report *chaos.Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range report.Faults() {
		a.kinds[f] = true
	}
	a.rounds += len(report.Rounds)
	a.requests += report.Requests()
	a.events += report.Events()
	a.resumed += report.Resumed
	if len(report.Rounds) > 0 { // otherwise the options exclude all faults of the filter
		a.duration += report.Options.Duration
	}
}

// A round takes 6 to 10 s and has 120 requests and 150 events per second. A run with less
// than a third of that has not tested enough.
const (
	roundFloor   = 25 * time.Second
	requestFloor = 40 // per second
	eventFloor   = 40 // per second
)

// instancesPart is the duration of the cluster with several app instances per node, as a part of the
// duration of the other clusters.
const instancesPart = 0.4

// servicesPart is the duration of the cluster with several services, as a part of the duration of the other
// clusters.
const servicesPart = 0.4

// services returns three services of different size. Four of the five nodes, and the spare node f, run two of
// them.
func services() []cluster.Service {
	return []cluster.Service{{Name: "chat", Shards: 40, Nodes: "abcf"}, {Name: "default", Shards: 16, Nodes: "cdef"}, {Name: "search", Shards: 8, Nodes: "ade"}}
}

// followers is the number of clients that follow event streams.
const followers = 12

// check fails a run with too few rounds, requests, events or kinds of faults.
func (a *totals) check(t *testing.T) {
	t.Helper()
	t.Logf("%d rounds, %d kinds of fault, %d requests, %d events, %d resumed streams", a.rounds, len(a.kinds), a.requests, a.events, a.resumed)
	if minimum := max(1, int(a.duration/roundFloor)); a.rounds < minimum {
		t.Errorf("%d rounds in %v, want %d", a.rounds, a.duration, minimum)
	}
	if minimum := int(a.duration.Seconds()) * requestFloor; a.requests < minimum {
		t.Errorf("%d requests in %v, want %d", a.requests, a.duration, minimum)
	}
	if minimum := int(a.duration.Seconds()) * eventFloor; a.events < minimum {
		t.Errorf("%d events in %v, want %d", a.events, a.duration, minimum)
	}
	if *only == "" && a.resumed == 0 {
		t.Error("no event stream was resumed")
	}
	// Within a cycle of the schedule no fault is repeated, except that both clusters have
	// it.
	if minimum := min(a.rounds/2, chaos.Kinds()*3/4); *only == "" && len(a.kinds) < minimum {
		t.Errorf("%d kinds of fault in %d rounds, want %d", len(a.kinds), a.rounds, minimum)
	}
}

// TestChaos injects faults into a cluster of three nodes and one of five at the same
// time, with each takeover in turn. Then it injects faults into one of three nodes with three app
// instances each, and at the same time into one of five nodes with three services. The five nodes
// of the first run use TLS. Apps in separate processes have hooks, and every other node restarts in
// place after SIGTERM.
func TestChaos(t *testing.T) {
	if err := chaos.Available(); err != nil {
		t.Skipf("no chaos here: %v", err)
	}
	faults, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	seed := scheduleSeed()
	t.Logf("seed %d", seed)
	bin, all := binaries(t), &totals{kinds: make(map[string]bool)}
	t.Run("clusters", func(t *testing.T) {
		for i, n := range []int{3, 5} {
			if *nodes != 0 && *nodes != n {
				continue
			}
			t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
				t.Parallel()
				skip := 0
				for _, s := range shares() {
					report := chaos.Run(t, chaos.Options{
						Binaries: bin, Nodes: n, Duration: time.Duration(float64(*duration) * s.part), Seed: seed, Skip: skip, Faults: faults, Network: 1 + i,
						Reverse: n == 5, Secret: n == 5, AllowPairs: true, Followers: followers, Takeover: s.takeover, Embedded: s.apps == embedded, Hooks: s.apps == hooks, Caches: s.apps == caches, HoldShards: true,
					})
					t.Log(report)
					all.add(report)
					skip += len(report.Faults())
					if err := report.Err(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	})
	t.Run("instances and services", func(t *testing.T) {
		t.Run("3 nodes of 3 instances", func(t *testing.T) {
			t.Parallel()
			if *nodes != 0 || *embeddedApps || *cachingApps {
				t.Skip("the flags select other clusters")
			}
			report := chaos.Run(t, chaos.Options{
				Binaries: bin, Instances: 3, Duration: time.Duration(float64(*duration) * instancesPart), Seed: seed, Faults: faults, Network: 3,
				AllowPairs: true, Followers: followers, Takeover: *takeover, HoldShards: true,
			})
			t.Log(report)
			all.add(report)
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if *only == "" && report.JudgedMapChanges() == 0 {
				t.Error("no change of the map was checked for needless moves")
			}
		})
		t.Run("5 nodes of 3 services", func(t *testing.T) {
			t.Parallel()
			if *nodes != 0 || *embeddedApps || *cachingApps {
				t.Skip("the flags select other clusters")
			}
			report := chaos.Run(t, chaos.Options{
				Binaries: bin, Nodes: 5, Services: services(), Duration: time.Duration(float64(*duration) * servicesPart), Seed: seed, Faults: faults, Network: 4,
				AllowPairs: true, Followers: followers, Takeover: *takeover, HoldShards: true,
			})
			t.Log(report)
			all.add(report)
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if *only == "" && report.JudgedMapChanges() == 0 {
				t.Error("no change of the map was checked for needless moves")
			}
		})
	})
	if !t.Failed() {
		all.check(t)
	}
}
