package gossip_test

import (
	"testing"
	"time"

	"shardway/node/gossip"
)

// A node searches for members that it must keep for as long as it takes. Once, two members that had lost each other for more than an hour,
// and whose join addresses were dead, never met again: each had forgotten the other.
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
			b.start("b", node("b")) // it knows no other node
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
