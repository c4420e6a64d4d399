package gossip_test

import (
	"strings"
	"testing"
	"time"
)

// Serf joins no node after Leave. Once, a node that stopped while it was alone logged once a minute that it had reached no other node.
func TestNothingIsJoinedAfterLeave(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", node("a"), s.host("b").Addr(port))
		time.Sleep(time.Second)
		if err := a.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		for _, l := range s.lines() {
			if strings.Contains(l, "Join after Leave") || strings.Contains(l, "no node reachable") {
				t.Errorf("after Leave: %s", l)
			}
		}
	})
}
