//go:build linux

package chaos

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The seed determines the schedule.
func TestSeedDeterminesSchedule(t *testing.T) {
	rounds := func(seed uint64, backwards bool) []string {
		d := newSchedule(allNames(), seed, backwards)
		var rounds []string
		for range 200 {
			rounds = append(rounds, joinNames(d.nextRound(true)))
		}
		return rounds
	}
	if a, b := rounds(1, false), rounds(1, false); !slices.Equal(a, b) {
		t.Errorf("one seed yields two schedules:\n%q\n%q", a, b)
	}
	if a, b := rounds(1, false), rounds(2, false); slices.Equal(a, b) {
		t.Error("two seeds yield the same schedule")
	}
	forward, reversed := rounds(1, false)[:len(allNames())], rounds(1, true)[:len(allNames())]
	slices.Reverse(reversed)
	if !slices.Equal(forward, reversed) {
		t.Errorf("the reversed schedule has another order:\n%q\n%q", forward, reversed)
	}
}

// Every fault comes alone before faults come in pairs.
func TestEachFaultComesAloneBeforePairs(t *testing.T) {
	d := newSchedule(allNames(), 3, false)
	var first []string
	for range allNames() {
		first = append(first, joinNames(d.nextRound(true)))
	}
	slices.Sort(first)
	if !slices.Equal(first, allNames()) {
		t.Errorf("first turn = %q, want each fault once", first)
	}
	pairs := 0
	for range 200 {
		fs := d.nextRound(true)
		if len(fs) < 2 {
			continue
		}
		pairs++
		if !canCombine(fs[0], fs[1]) || reflect.TypeOf(fs[0]) == reflect.TypeOf(fs[1]) && fs[0].name() == fs[1].name() {
			t.Errorf("%s came together", joinNames(fs))
		}
		// The app instances are processes of their own, which nothing traces.
		if s := strings.ReplaceAll(joinNames(fs), "SIGSTOP instance", ""); strings.Contains(s, "fsync") && strings.Contains(s, "SIGSTOP") {
			t.Errorf("%s came together: the state of a traced process does not show whether it is stopped", s)
		}
	}
	if pairs == 0 {
		t.Error("no pairs in 200 rounds")
	}
}

func allNames() []string {
	var names []string
	for _, f := range newFaults() {
		names = append(names, f.name())
	}
	slices.Sort(names)
	return names
}

// The options of a run may exclude all faults of the filter: apps inside their nodes have
// no hooks. That is no failure of the run, but a filter that matches no fault is.
func TestOptionsMayExcludeAllFaultsOfTheFilter(t *testing.T) {
	for filter, opts := range map[string]Options{"bad hooks": {Hooks: false}, "kill -9 app": {Embedded: true}, "isolate from followers": {Nodes: 3}} {
		opts.Faults = regexp.MustCompile(filter)
		report := Run(t, opts)
		if err := report.Err(); err != nil || len(report.Rounds) > 0 || report.Skipped[filter] == "" {
			t.Errorf("%s: %d rounds, skipped %v, %v", filter, len(report.Rounds), report.Skipped, err)
		}
	}
	if report := Run(t, Options{Faults: regexp.MustCompile("no such fault")}); report.Err() == nil {
		t.Error("a filter that matches nothing was not reported")
	}
}
