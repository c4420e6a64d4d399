package timingrules_test

import (
	"maps"
	"regexp"
	"strings"
	"testing"
	"time"

	"shardway/internal/timingrules"
)

// timings contains the values of the settings by key.
type timings map[string]time.Duration

func (t timings) broken() map[string]string {
	broken := map[string]string{}
	for _, b := range timingrules.Check(t["heartbeat"], t["lease"], t["dead-after"]) {
		if !b.Satisfied {
			broken[b.Text] = b.Remedy
		}
	}
	return broken
}

var step = regexp.MustCompile(`^(?:(lower|raise) )?(heartbeat|lease|dead-after) (to|above|below) (\S+)$`)

// follow applies one alternative of a remedy to the settings and returns the result.
func follow(t *testing.T, from timings, way string) timings {
	t.Helper()
	after := maps.Clone(from)
	for s := range strings.SplitSeq(way, " and ") {
		m := step.FindStringSubmatch(s)
		if m == nil {
			t.Fatalf("the remedy %q names no key and value", way)
		}
		d, err := time.ParseDuration(m[4])
		if err != nil {
			t.Fatal(err)
		}
		after[m[2]] = d + map[string]time.Duration{"above": time.Millisecond, "below": -time.Millisecond}[m[3]]
	}
	return after
}

// A remedy such as "lower lease below 386ms" is useless if the heartbeat requires at least
// 400ms: an operator who followed it would be refused again for another reason.
func TestRemediesViolateNoOtherRule(t *testing.T) {
	tried := 0
	for _, beat := range []int{5, 50, 100, 125, 600} {
		for _, lease := range []int{100, 300, 400, 500, 1000, 2400, 9000} {
			for _, dead := range []int{250, 850, 900, 1100, 2500, 6000} {
				from := timings{"heartbeat": ms(beat), "lease": ms(lease), "dead-after": ms(dead)}
				broken := from.broken()
				for rule, remedy := range broken {
					for way := range strings.SplitSeq(remedy, ", or ") {
						tried++
						after := follow(t, from, way)
						for left := range after.broken() {
							if _, was := broken[left]; left == rule || !was {
								t.Errorf("%v breaks %s; after %q it is %v and breaks %s", from, rule, way, after, left)
							}
						}
						if l := after["lease"]; l < timingrules.MinLease {
							t.Errorf("%v breaks %s; %q leaves a lease of %v, below the least", from, rule, way, l)
						}
					}
				}
			}
		}
	}
	if tried < 100 {
		t.Errorf("%d remedies tried", tried)
	}
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }
