//go:build linux

package chaos

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSeedIsTheSchedule deals twice with one seed, and once with another one.
func TestSeedIsTheSchedule(t *testing.T) {
	deal := func(seed uint64, backwards bool) []string {
		d := newDeck(all(), seed, backwards)
		var rounds []string
		for range 200 {
			rounds = append(rounds, names(d.round(true)))
		}
		return rounds
	}
	if a, b := deal(1, false), deal(1, false); !slices.Equal(a, b) {
		t.Errorf("one seed, two schedules:\n%q\n%q", a, b)
	}
	if a, b := deal(1, false), deal(2, false); slices.Equal(a, b) {
		t.Error("two seeds have one schedule")
	}
	forth, back := deal(1, false)[:len(all())], deal(1, true)[:len(all())]
	slices.Reverse(back)
	if !slices.Equal(forth, back) {
		t.Errorf("backwards is another order:\n%q\n%q", forth, back)
	}
}

// TestEachFaultComesAloneThenPairsFollow has every fault by itself first.
func TestEachFaultComesAloneThenPairsFollow(t *testing.T) {
	d := newDeck(all(), 3, false)
	var first []string
	for range all() {
		first = append(first, names(d.round(true)))
	}
	slices.Sort(first)
	if !slices.Equal(first, all()) {
		t.Errorf("first turn = %q, want each fault once", first)
	}
	pairs := 0
	for range 200 {
		fs := d.round(true)
		if len(fs) < 2 {
			continue
		}
		pairs++
		if !goesTogether(fs[0]) || !goesTogether(fs[1]) || reflect.TypeOf(fs[0]) == reflect.TypeOf(fs[1]) && fs[0].name() == fs[1].name() {
			t.Errorf("%s came together", names(fs))
		}
		if s := names(fs); strings.Contains(s, "fsync") && (strings.Contains(s, "SIGSTOP") || strings.Contains(s, "stutter")) {
			t.Errorf("%s came together: nobody can tell whether a traced process is stopped", s)
		}
	}
	if pairs == 0 {
		t.Error("no pairs in 200 rounds")
	}
}

func all() []string {
	var names []string
	for _, f := range faults() {
		names = append(names, f.name())
	}
	slices.Sort(names)
	return names
}

// A filter may leave nothing for one of several runs: apps in their nodes have no hooks. That
// is no failure of this run; a filter that matches nothing is.
func TestRunThatNoFaultFits(t *testing.T) {
	for filter, o := range map[string]Options{"bad hooks": {Hooks: false}, "kill -9 app": {Embedded: true}} {
		o.Faults = regexp.MustCompile(filter)
		r := Run(t, o)
		if err := r.Err(); err != nil || len(r.Rounds) > 0 || r.Skipped[filter] == "" {
			t.Errorf("%s: %d rounds, skipped %v, %v", filter, len(r.Rounds), r.Skipped, err)
		}
	}
	if r := Run(t, Options{Faults: regexp.MustCompile("no such fault")}); r.Err() == nil {
		t.Error("a filter that matches nothing was not reported")
	}
}
