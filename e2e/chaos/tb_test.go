//go:build linux

package chaos

import (
	"slices"
	"strings"
	"testing"

	"shardway/e2e/kit/history"
)

// TestBenchKeepsFailuresFromTheTest fails in all ways, in the run and in a cleanup:
// all of it is told, what comes after a fatal failure is not done, and every
// cleanup is.
func TestBenchKeepsFailuresFromTheTest(t *testing.T) {
	b := &bench{TB: t, quiet: true}
	var done []string
	b.do(func() {
		b.Cleanup(func() { done = append(done, "first") })
		b.Cleanup(func() {
			b.Fatal("in a cleanup")
			done = append(done, "beyond")
		})
		b.Errorf("number %d", 1)
		if !b.Failed() {
			t.Error("a failure is not seen")
		}
		b.Fatalf("number %d", 2)
		done = append(done, "beyond")
	})
	if want := []string{"number 1", "number 2", "in a cleanup"}; !slices.Equal(b.failures, want) {
		t.Errorf("failures = %q, want %q", b.failures, want)
	}
	if want := []string{"first"}; !slices.Equal(done, want) {
		t.Errorf("done = %q, want %q", done, want)
	}
	if t.Failed() {
		t.Error("the test failed with the run")
	}
}

// TestErrorHasAllThatIsNeeded names the seed, the schedule, the round and what
// happened.
func TestErrorHasAllThatIsNeeded(t *testing.T) {
	r := &Report{Options: Options{Seed: 4711, Nodes: 3}, Trace: "what happened", Skipped: map[string]string{"loss of 50 %": "no nft"}}
	good := &Round{Number: 0, Faults: "halves", History: &history.Report{Requests: 10, Excused: map[string]int{"cut, stopped": 2}}}
	bad := &Round{Number: 1, Faults: "bridge", History: &history.Report{}}
	bad.violate("two owners", "shard 7")
	for _, round := range []*Round{good, bad} {
		r.Rounds = append(r.Rounds, round)
		r.add(round)
	}
	if r.Count("two owners") != 1 || r.Violations[0].Round != 1 || r.Violations[0].Faults != "bridge" {
		t.Errorf("violations = %+v", r.Violations)
	}
	for _, want := range []string{"4711", "round 1 (bridge): two owners: shard 7", "0  halves", "1  bridge", "what happened"} {
		if !strings.Contains(r.Err().Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, r.Err())
		}
	}
	for _, want := range []string{"skipped: no nft", "2 cut, stopped", "1 violations"} {
		if !strings.Contains(r.String(), want) {
			t.Errorf("the table lacks %q:\n%v", want, r)
		}
	}
	r.Violations = nil
	if err := r.Err(); err != nil {
		t.Errorf("Err() = %v without violations", err)
	}
}
