//go:build planted

package ack_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/ack/election"
	"shardway/ack/leader"
)

// caughtBy is the file with the first schedule that caught each mutant. The test runs this
// schedule first. It searches for another one only if this schedule does not catch the mutant
// any more, because the simulation has changed. -sim.caught rewrites the file.
const caughtBy = "testdata/caught.json"

// TestMutants runs in a build with mutants, for TestEveryMutantIsCaught.
func TestMutants(t *testing.T) {
	caught := readCaught(t)
	if *simCaught {
		t.Cleanup(func() { writeCaught(t, caught) })
	}
	for i, m := range mutants() {
		if !strings.Contains(m.name, *simMutant) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			plantMutant(i + 1)
			defer plantMutant(0)
			if m.levels {
				m.playLevels(t)
				return
			}
			s := simSetup{mix: m.mix, plant: m.plant, seed: caught[m.name], counts: m.catches}
			if s.seed > 0 {
				if w := play(s, newCoverage()); m.catches(w.failure) {
					t.Logf("caught by schedule %d again: %.120s", s.seed, w.failure)
					return
				}
			}
			cover, bad := playMany(s, 1, 10000)
			if bad == nil {
				t.Errorf("not caught by a failure of %s in %d schedules", m.caught, cover.schedules)
				return
			}
			caught[m.name] = bad.seed
			w := play(*bad, newCoverage())
			t.Logf("caught by schedule %d: %.120s", bad.seed, w.failure)
		})
	}
}

// plantMutant plants the mutant of the given number in each of the packages; zero means none.
func plantMutant(n int) {
	ack.Plant(n)
	agent.Plant(n)
	election.Plant(n)
	leader.Plant(n)
}

// playLevels looks for a schedule of the levels that reports the mutant.
func (m mutant) playLevels(t *testing.T) {
	t.Helper()
	for seed := range uint64(20000) {
		if failure, _ := playLevelSchedule(seed+1, m.drive); failure != "" {
			t.Logf("caught by schedule %d: %.120s", seed+1, failure)
			if m.caught != "" && !m.catches(failure) {
				t.Errorf("want a failure of %s", m.caught)
			}
			return
		}
	}
	t.Error("not caught in 20000 schedules")
}

// catches reports whether a failure is one that must report the mutant.
func (m mutant) catches(failure string) bool {
	return failure != "" && slices.ContainsFunc(strings.Split(m.caught, "|"), func(s string) bool { return strings.HasPrefix(failure, s) })
}

func readCaught(t *testing.T) map[string]uint64 {
	t.Helper()
	b, err := os.ReadFile(caughtBy)
	if err != nil {
		t.Fatal(err)
	}
	var caught map[string]uint64
	if err := json.Unmarshal(b, &caught); err != nil {
		t.Fatalf("%s: %v", caughtBy, err)
	}
	return caught
}

// writeCaught writes the file without mutants that no longer exist.
func writeCaught(t *testing.T, caught map[string]uint64) {
	t.Helper()
	all := mutants()
	maps.DeleteFunc(caught, func(name string, _ uint64) bool {
		return !slices.ContainsFunc(all, func(m mutant) bool { return m.name == name })
	})
	b, err := json.MarshalIndent(caught, "", "\t")
	if err == nil {
		err = os.WriteFile(caughtBy, append(b, '\n'), 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}
