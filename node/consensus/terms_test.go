package consensus_test

import (
	"sync/atomic"
	"testing"
	"time"
)

// Two servers lose their leader, one of them stands for election, and while it still
// writes its new term the old leader's heartbeats are back. It fell back to the old term
// then, in memory and on its disk: for the others, it had said to be in the new one.
func TestTermNeverFalls(t *testing.T) {
	bubble(t, abc(), nil, func(g *group) {
		old := g.leader(g.all...)
		rest := without(g.all, old)
		var writing atomic.Bool
		for _, s := range rest {
			s.mem.SetFault(func(op string) error {
				if op == "write term" {
					writing.Store(true)
					time.Sleep(time.Second)
				}
				return nil
			})
		}
		g.net.Isolate(old.host.Name())
		g.until("one stands for election", writing.Load)
		time.Sleep(500 * time.Millisecond)
		g.net.Heal()
		highest := map[*server]uint64{}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			for _, s := range g.all {
				if term := s.Term(); term < highest[s] {
					g.t.Fatalf("%s is in term %d, and was in term %d", s.id(), term, highest[s])
				} else {
					highest[s] = term
				}
			}
		}
	})
}
