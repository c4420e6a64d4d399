//go:build planted

package ack_test

import (
	"slices"
	"strings"
	"testing"

	"shardway/ack"
)

// TestPlanted runs in a build with mistakes, for TestEveryMistakeIsCaught.
func TestPlanted(t *testing.T) {
	for i, m := range mistakes() {
		if !strings.Contains(m.name, *simMistake) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			ack.Plant(i + 1)
			defer ack.Plant(0)
			cover, bad := playMany(simSetup{mix: m.mix, plant: m.plant}, 1, 10000)
			if bad == nil {
				t.Errorf("not caught in %d schedules", cover.schedules)
				return
			}
			w := play(*bad, newCoverage())
			t.Logf("caught by schedule %d: %.120s", bad.seed, w.failure)
			if !slices.ContainsFunc(strings.Split(m.caught, "|"), func(s string) bool { return strings.HasPrefix(w.failure, s) }) {
				t.Errorf("want a failure of %s", m.caught)
			}
		})
	}
}
