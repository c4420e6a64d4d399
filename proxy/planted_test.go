package proxy_test

import (
	"slices"
	"testing"

	"shardway/internal/overlay"
	"shardway/internal/raceflag"
)

// mistake is one that could be made with a rule of sockets and streams that stay (docs/apps/websockets.md and sse.md),
// of memory that connections share one after the other (client_pool.go), of those that nobody
// waits at (idle_watcher.go), that a loop carries (event_loop.go), or of lanes, and which tests find it.
type mistake struct {
	rule, found string
	edits       []overlay.Edit
}

// in edits a declaration of this package, or of one below it.
func in(decl, old, changed string) []overlay.Edit {
	return []overlay.Edit{{Decl: decl, Old: old, New: changed}}
}

// explained is a rule without a mistake, and why it has none.
type explained struct{ rule, why string }

// mistakes are all of them.
func mistakes() []mistake {
	return slices.Concat(
		mistakesOfSockets(), mistakesOfLegs(), mistakesOfStreams(), mistakesOfSpares(), mistakesOfParking(), mistakesOfLoops(), mistakesOfLanes(),
		mistakesOfLaneRules(), mistakesOfLegLanes(), mistakesOfRamp(), mistakesOfLongPolls(),
	)
}

// TestEveryMistakeIsFound builds these tests with all mistakes, and has
// those of each rule run with one of them: they must fail. If an edit does not find its
// place any more, because the line has changed, change it with it.
func TestEveryMistakeIsFound(t *testing.T) {
	if testing.Short() || raceflag.Detector {
		t.Skip("builds the package with mistakes, and without the race detector")
	}
	all := mistakes()
	o := overlay.New("..")
	edits := make([][]overlay.Edit, len(all))
	for i, m := range all {
		edits[i] = m.edits
	}
	if err := o.Plant(edits); err != nil {
		t.Fatal(err)
	}
	binary, err := o.TestBinary(t.Context(), t.TempDir(), "proxy")
	if err != nil {
		t.Fatal(err)
	}
	tried := try(t, binary, all)
	for i, m := range all {
		t.Run(m.rule, func(t *testing.T) {
			if err := <-tried[i]; err != nil {
				t.Error(err)
			}
		})
	}
}

// try runs the tests of all rules, each with its mistake, some at a time: where sockets are
// real most of them wait for what never comes.
func try(t *testing.T, binary string, all []mistake) []chan error {
	t.Helper()
	results, places := make([]chan error, len(all)), make(chan struct{}, 4)
	for i, m := range all {
		results[i] = make(chan error, 1)
		go func() {
			places <- struct{}{}
			defer func() { <-places }()
			results[i] <- overlay.Find(t.Context(), binary, i, "^("+m.found+")$")
		}()
	}
	return results
}

// A rule is planted, or says why it cannot be.
func TestUnplantedRulesSayWhy(t *testing.T) {
	planted := map[string]bool{}
	for _, m := range mistakes() {
		if planted[m.rule] || m.rule == "" || m.found == "" || len(m.edits) == 0 {
			t.Errorf("%q is there twice, or not whole", m.rule)
		}
		planted[m.rule] = true
	}
	for _, e := range unplantedRules() {
		if e.rule == "" || e.why == "" || planted[e.rule] {
			t.Errorf("%q is planted, or says nothing", e.rule)
		}
	}
}
