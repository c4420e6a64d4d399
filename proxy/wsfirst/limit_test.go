package wsfirst

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The limit is never exceeded, and the oldest place of the largest origin is evicted.
func TestLimitEvictsLargestOrigin(t *testing.T) {
	limit := Limit{Max: 3}
	var evicted []string
	places := map[string]*Place{}
	enter := func(name, client string) {
		places[name] = &Place{}
		limit.Enter(places[name], []byte(client), func() { evicted = append(evicted, name) })
	}
	enter("a1", "192.0.2.1")
	enter("b1", "2001:db8::1")
	enter("b2", "2001:db8::2") // the same /64
	enter("c1", "unknown")
	enter("d1", "::ffff:192.0.2.1")
	enter("d2", "192.0.2.1")
	if got := fmt.Sprint(evicted); got != "[b1 a1 b2]" || limit.Len() != 3 {
		t.Errorf("evicted %v, and %d wait", got, limit.Len())
	}
	for name, want := range map[string]bool{"a1": true, "b1": true, "b2": true, "c1": false, "d1": false, "d2": false} {
		if got := limit.Leave(places[name]); got != want {
			t.Errorf("%s was evicted: %v", name, got)
		}
	}
	if limit.Len() != 0 || len(limit.byOrigin) != 0 {
		t.Errorf("%d wait, from %d origins", limit.Len(), len(limit.byOrigin))
	}
}

// An origin with one place keeps it while another origin floods the node.
func TestFloodDoesNotEvictOtherOrigins(t *testing.T) {
	limit := Limit{Max: 50}
	var honest Place
	limit.Enter(&honest, []byte("192.0.2.1"), func() { t.Error("evicted") })
	for range 10_000 {
		limit.Enter(&Place{}, fmt.Appendf(nil, "198.51.100.%d", rand.IntN(20)), func() {})
		if limit.Len() > 50 {
			t.Fatalf("%d wait", limit.Len())
		}
	}
	if limit.Leave(&honest) {
		t.Error("evicted")
	}
}
