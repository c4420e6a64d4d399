package gossip_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"shardway/internal/raceflag"
	"shardway/node/gossip"
)

// A name for which the name server does not respond delays no other address. Once, it delayed every other address for five seconds, and
// again for the next name.
func TestNameWithoutAnswerHoldsUpNoOther(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		s.dns.mute = "mute.example"
		b := s.add("b", node("b"))
		s.dns.set("b.example", b.host.IP())
		a := s.add("a", node("a"), s.dns.mute, "b.example", s.dns.mute)
		if d := s.whole(a, b); d > time.Second {
			t.Errorf("seen after %v", d)
		}
	})
}

// Go's resolver drops invalid SRV records, and returns the others together with an error. Once, the node used the error and ignored the
// records.
func TestUsableRecordsNextToUnusableOnesAreUsed(t *testing.T) {
	bubble(t, func(s *swarm) {
		b := s.add("b", node("b"))
		s.dns.set("b.example", b.host.IP())
		s.dns.srv["_gossip._tcp.example"] = []*net.SRV{{Target: "", Port: port}, {Target: "b.example.", Port: port}}
		s.whole(s.add("a", node("a"), "_gossip._tcp.example"), b)
	})
}

// The name of a service resolves to the single running pod until there are others; this is not a second node.
func TestNameOfThisNodeAloneIsNoOther(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.host("a")
		s.dns.set("nodes.example", a.IP())
		first := s.add("a", node("a"), "nodes.example")
		time.Sleep(time.Minute)
		if err := first.NoOtherNodeReason(); err == nil || !strings.Contains(err.Error(), "nodes.example: there is only this one") {
			t.Errorf("alone because of %v", err)
		}
		b := s.host("b")
		s.dns.set("nodes.example", b.IP(), a.IP())
		if d := s.whole(first, s.add("b", node("b"), "nodes.example")); d > time.Second {
			t.Errorf("seen after %v", d)
		}
	})
}

// Two pairs of nodes do not know each other while the name server lacks one of them. They resolve their names often while nodes are
// missing. Once, they did so only every half a minute, although each was configured to expect four nodes.
func TestNamesAreAskedOftenWhileNodesAreMissing(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		s.want = 4
		pair := func(name string, ids ...string) (both []*member) {
			for _, id := range ids {
				s.dns.set(name, append(s.dns.ips[name], s.host(id).IP())...)
			}
			for _, id := range ids {
				both = append(both, s.add(id, node(id), name))
			}
			s.whole(both...)
			return both
		}
		one, two := pair("one.example", "a", "b"), pair("two.example", "c", "d")
		time.Sleep(time.Duration(raceflag.Share(10, 2)) * time.Minute)
		s.dns.set("one.example", append(s.dns.ips["one.example"], s.dns.ips["two.example"]...)...)
		if d := s.whole(append(one, two...)...); d > 6*time.Second {
			t.Errorf("seen after %v", d)
		}
	})
}

// Pods return with other addresses, one after the other and all at once. In the meantime, the name server returns old addresses: unused ones, and
// one that a node of another cluster has now.
func TestNodesWithNewAddressesAreFoundByName(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		const name = "nodes.example"
		var all []*member
		at := make([]netip.Addr, 3)
		for i, id := range []string{"a", "b", "c"} {
			all = append(all, s.add(id, inCluster(id, "one"), name))
			at[i] = all[i].host.IP()
		}
		s.dns.set(name, at...)
		s.whole(all...)
		alone := func(m *member) { // members are named after their hosts, which change in this test
			s.until("it sees two others", func() bool {
				alive := 0
				for _, o := range m.Members() {
					if o.Status == gossip.Alive {
						alive++
					}
				}
				return alive == 3
			})
		}
		move := func(i, round int) {
			m := all[i]
			id := string(rune('a' + i))
			m.host.Crash()
			m.stop()
			m.host = s.host(id + strings.Repeat("'", round))
			m.start(id, inCluster(id, "one"), name)
		}
		for i, m := range all {
			move(i, 1)
			time.Sleep(10 * time.Second)
			at[i] = m.host.IP()
			s.dns.set(name, at...)
			alone(m)
		}
		stale := append([]netip.Addr{}, at...)
		for i := range all {
			move(i, 2)
		}
		s.add("x", inCluster("x", "another"))
		for i, m := range all {
			at[i] = m.host.IP()
		}
		s.dns.set(name, append(append(stale, s.host("x").IP()), at...)...)
		for _, m := range all {
			alone(m)
		}
		for _, m := range all {
			select {
			case r := <-m.Refusals():
				t.Errorf("refusal reported: %v", r)
			default:
			}
		}
	})
}
