package consensus_test

import (
	"testing"
	"time"
)

// A vote request is sent again if an old connection breaks. A server keeps connections from its time as leader, and those to a voter that
// was restarted since are dead. Once, the first message on each of them was lost: a vote request, and with it the election and about a
// second and a half.
func TestVoteIsAskedAgainWhenAnOldConnectionBreaks(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		first := g.leader(g.all...)
		rest := without(g.all, first)
		g.apply(first, numbered(3)...)
		g.agree(3, g.all...)
		time.Sleep(time.Second) // the connections are idle
		second, third := rest[0], rest[1]
		if err := first.TransferTo(second.id()); err != nil {
			t.Fatal(err)
		}
		g.leader(g.all...)
		third.crash()
		third.restart()
		g.agree(3, g.all...)
		time.Sleep(2 * time.Second) // until all have the last barrier
		second.crash()
		start := time.Now()
		if err := first.Campaign(); err != nil {
			t.Fatal(err)
		}
		if n := g.leader(first, third); n != first {
			t.Errorf("%s leads, want the one that campaigned", n.host.Name())
		}
		if d := time.Since(start); d > 50*time.Millisecond {
			t.Errorf("new leader after %v: its votes were lost", d)
		}
	})
}
