package consensus_test

import (
	"testing"
	"time"
)

// A server keeps connections from its time as leader. Those to a voter that was
// started again since are dead, and the first message over each used to be lost:
// a vote, with it the election, and with that about a second and a half.
func TestVoteIsAskedAgainWhenAnOldConnectionBreaks(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		t := g.t
		first := g.leader(g.all...)
		rest := without(g.all, first)
		g.apply(first, numbered(3)...)
		g.agree(3, g.all...)
		time.Sleep(time.Second) // the connections rest
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
