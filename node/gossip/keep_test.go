package gossip_test

import (
	"testing"
	"time"

	"shardway/node/gossip"
)

// Two that lost each other for more than an hour, and whose join addresses lead
// nowhere, never met again: each had forgotten the other. Who is to be kept is
// looked for as long as it takes.
func TestKeptNodeRejoinsAfterAnHour(t *testing.T) {
	for _, keep := range []bool{true, false} {
		bubble(t, func(s *swarm) {
			s.keep = func(string) bool { return keep }
			a := s.add("a", node("a"))
			b := s.add("b", node("b"), a.host.Addr(port))
			s.whole(a, b)
			s.net.Partition([]string{"a"}, []string{"b"})
			s.until("b is missed", func() bool { return a.sees("b") == gossip.Failed })
			b.stop()
			b.host = b.host.Restart()
			b.start("b", node("b")) // it knows of nobody
			time.Sleep(61 * time.Minute)
			if got := a.sees("b"); keep != (got == gossip.Failed) {
				t.Errorf("keep %v: a sees b as %v after an hour", keep, got)
			}
			s.net.Heal()
			if keep {
				s.whole(a, b)
			}
		})
	}
}
