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
)

var (
	length   = flag.Duration("chaos.for", 75*time.Second, "how long each of the two clusters is hurt")
	seed     = flag.Uint64("chaos.seed", 0, "seed of the schedule; 0: SHARDWAY_TEST_SEED, else a new one, which is printed")
	only     = flag.String("chaos.faults", "", "regular expression for the faults to have")
	takeover = flag.String("chaos.takeover", "", "takeover of the nodes; empty: each for a share of the time")
	within   = flag.Bool("chaos.embedded", false, "have all apps in the processes of their nodes; else for a fifth of the time")
	caching  = flag.Bool("chaos.caches", false, "have all apps cache, without hooks")
	nodes    = flag.Int("chaos.nodes", 0, "hurt only the cluster of three, or of five; 0: both")
)

// shares are which part of its time a cluster spends under each takeover, and with its
// apps in the processes of its nodes.
func shares() []share {
	name := *takeover
	switch {
	case *within:
		return []share{{cmp.Or(name, "lease"), 1, embedded}}
	case *caching:
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
	hooks    apps = iota // of their own, with hooks
	embedded             // in the processes of their nodes
	caches               // of their own, without hooks: they cache
)

// seeded returns the seed of the schedule.
func seeded() uint64 {
	if *seed != 0 {
		return *seed
	}
	if n, err := strconv.ParseUint(os.Getenv("SHARDWAY_TEST_SEED"), 10, 32); err == nil && n > 0 {
		return n
	}
	return rand.Uint64N(1_000_000) + 1
}

// ran collects what the runs had, of clusters side by side.
type ran struct {
	mu       sync.Mutex
	kinds    map[string]bool
	rounds   int
	requests int
	events   int
	resumed  int
	length   time.Duration // of all together
}

func (a *ran) add(r *chaos.Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range r.Faults() {
		a.kinds[f] = true
	}
	a.rounds += len(r.Rounds)
	a.requests += r.Requests()
	a.events += r.Events()
	a.resumed += r.Resumed
	if len(r.Rounds) > 0 { // else the filter has left none that goes with its options
		a.length += r.Options.For
	}
}

// The floors: a round takes 6 to 10 s and has 120 requests and 150 events a
// second. Below a third of that the run has shown nothing.
const (
	roundFloor   = 25 * time.Second
	requestFloor = 40 // a second
	eventFloor   = 40 // likewise
)

// followers is how many clients follow event streams.
const followers = 12

// judge fails a run that hurt nobody enough.
func (a *ran) judge(t *testing.T) {
	t.Helper()
	t.Logf("%d rounds, %d kinds of fault, %d requests, %d events, %d further legs of their streams", a.rounds, len(a.kinds), a.requests, a.events, a.resumed)
	if least := max(1, int(a.length/roundFloor)); a.rounds < least {
		t.Errorf("%d rounds in %v, want %d", a.rounds, a.length, least)
	}
	if least := int(a.length.Seconds()) * requestFloor; a.requests < least {
		t.Errorf("%d requests in %v, want %d", a.requests, a.length, least)
	}
	if least := int(a.length.Seconds()) * eventFloor; a.events < least {
		t.Errorf("%d events in %v, want %d", a.events, a.length, least)
	}
	if *only == "" && a.resumed == 0 {
		t.Error("no event stream went on anywhere")
	}
	// Before a deck is through nothing comes twice, but for what both clusters had.
	if least := min(a.rounds/2, chaos.Kinds()*3/4); *only == "" && len(a.kinds) < least {
		t.Errorf("%d kinds of fault in %d rounds, want %d", len(a.kinds), a.rounds, least)
	}
}

// TestChaos hurts a cluster of three nodes and one of five side by side, under
// each takeover in turn: between the five there is TLS. Apps of their own have hooks, and
// every other node restarts in place when it is told to stop.
func TestChaos(t *testing.T) {
	if err := chaos.Available(); err != nil {
		t.Skipf("no chaos here: %v", err)
	}
	faults, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	seed := seeded()
	t.Logf("seed %d", seed)
	b, all := binaries(t), &ran{kinds: make(map[string]bool)}
	t.Run("clusters", func(t *testing.T) {
		for i, n := range []int{3, 5} {
			if *nodes != 0 && *nodes != n {
				continue
			}
			t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) {
				t.Parallel()
				dealt := 0
				for _, s := range shares() {
					r := chaos.Run(t, chaos.Options{
						Binaries: b, Nodes: n, For: time.Duration(float64(*length) * s.part), Seed: seed, Dealt: dealt, Faults: faults, Network: 1 + i,
						Backwards: n == 5, Secret: n == 5, Pairs: true, Followers: followers, Takeover: s.takeover, Embedded: s.apps == embedded, Hooks: s.apps == hooks, Caches: s.apps == caches, Hold: true,
					})
					t.Log(r)
					all.add(r)
					dealt += len(r.Faults())
					if err := r.Err(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	})
	if !t.Failed() {
		all.judge(t)
	}
}
