package proxy_test

import (
	"slices"
	"testing"

	"shardway/internal/overlay"
)

// mutant is a fault planted into the source of the proxy, the rule that it breaks, and the tests
// that must fail with it. The rules are those of resumable WebSockets and event streams
// (docs/apps/websockets.md and sse.md), reused client memory (client_pool.go), idle connections
// (package connset), the event loop (package eventloop) and multiplexed streams, and keys (docs/reference/keys.md).
type mutant struct {
	rule, found string
	edits       []overlay.Edit
}

// in edits a declaration of this package, or of a package below it.
func in(decl, old, changed string) []overlay.Edit {
	return []overlay.Edit{{Decl: decl, Old: old, New: changed}}
}

// unplantedRule is a rule without a mutant, and the reason.
type unplantedRule struct{ rule, why string }

// mutants returns the mutants of all rules.
func mutants() []mutant {
	return slices.Concat(
		mutantsOfWebSocketSessions(), mutantsOfWebSocketRelays(), mutantsOfEventStreams(), mutantsOfClientPool(), mutantsOfParking(), mutantsOfEventLoops(), mutantsOfMux(),
		mutantsOfMuxRules(), mutantsOfFirstMessages(), mutantsOfWebSocketMux(), mutantsOfRequestWait(), mutantsOfLongPolls(), mutantsOfWrap(), mutantsOfKeys(), mutantsOfServices(), mutantsOfBodyKeys(), mutantsOfReroutes(),
		mutantsOfShardQueues(), mutantsOfInstances(), mutantsOfHeaderRules(), mutantsOfTotalTimeouts(),
	)
}

// TestEachMutantFailsATest builds the tests of this package with all mutants. For each rule it runs
// the named tests with one mutant: they must fail.
func TestEachMutantFailsATest(t *testing.T) {
	all := mutants()
	edits := make([][]overlay.Edit, len(all))
	for i, m := range all {
		edits[i] = m.edits
	}
	binary := overlay.BuildTests(t, "..", "proxy", edits)
	tried := runMutants(t, binary, all)
	for i, m := range all {
		t.Run(m.rule, func(t *testing.T) {
			if err := <-tried[i]; err != nil {
				t.Error(err)
			}
		})
	}
}

// mutantsAtOnce is the number of mutants that run at a time. Most of the time, tests with real sockets
// wait for an event that the mutant prevents. All mutants together need a quarter of the time that one
// processor would need to wait for them.
const mutantsAtOnce = 12

// runMutants runs the tests of all rules, each with its mutant, mutantsAtOnce at a time.
func runMutants(t *testing.T, binary string, all []mutant) []chan error {
	t.Helper()
	results, places := make([]chan error, len(all)), make(chan struct{}, mutantsAtOnce)
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

func TestUnplantedRulesHaveReason(t *testing.T) {
	planted := map[string]bool{}
	for _, m := range mutants() {
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
