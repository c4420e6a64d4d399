package gossip_test

import (
	"testing"
	"time"

	"github.com/hashicorp/serf/serf"

	"shardway/endpoints"
	"shardway/node/gossip"
)

// service returns the tags of an announced service.
func service(addr string) gossip.Tags {
	return gossip.Tags{Endpoints: map[string]string{"redis": addr}}
}

// find returns the member of this name at m.
func (m *member) find(name string) (found gossip.Member) {
	for _, other := range m.Members() {
		if other.ID == name {
			found = other
		}
	}
	return found
}

// A service is a member that is not a node, even if it claims to be one.
func TestAnnouncedServiceIsNoNode(t *testing.T) {
	bubble(t, func(s *swarm) {
		a := s.add("a", inCluster("a", "x"))
		honest := gossip.ServiceName("a") // the ID of a node is no obstacle
		lying := gossip.ServiceName("liar")
		s.add(honest, service("10.0.0.9:6379"), a.host.Addr(port))
		s.add(lying, inCluster(lying, "x"), a.host.Addr(port))
		for _, name := range []string{honest, lying} {
			s.until(name+" is seen", func() bool { return a.sees(name) == gossip.Alive })
			if a.find(name).Node || a.HasNode(name) {
				t.Errorf("%s counts as a node", name)
			}
		}
		if got := a.find(honest).Tags.Endpoints["redis"]; got != "10.0.0.9:6379" {
			t.Errorf("the service has address %q", got)
		}
		if own := a.find("a"); !own.Node || own.Addr.String() != a.host.Addr(port) {
			t.Errorf("node a is %+v", own)
		}
	})
}

// A service finds the cluster again after all its join addresses were lost, for as long as it takes.
func TestServiceRejoinsAfterAllNodesReturned(t *testing.T) {
	bubble(t, func(s *swarm) {
		a, b := s.add("a", inCluster("a", "x")), (*member)(nil)
		b = s.add("b", inCluster("b", "x"), a.host.Addr(port))
		name := gossip.ServiceName("cache")
		cache := s.add(name, service("10.0.0.9:6379"), a.host.Addr(port), b.host.Addr(port))
		s.whole(a, b, cache)
		for _, pause := range []time.Duration{10 * time.Second, 2 * time.Hour} {
			for _, m := range []*member{a, b} {
				m.host.Crash()
				m.stop()
			}
			s.until("it is alone", func() bool { return cache.NoOtherNodeReason() != nil })
			time.Sleep(pause)
			for _, m := range []*member{a, b} {
				m.host = m.host.Restart()
			}
			// A recovered cluster has another ID, which the service accepts once the previous one is gone.
			cluster := "y" + pause.String()
			a.start("a", inCluster("a", cluster))
			b.start("b", inCluster("b", cluster), a.host.Addr(port))
			if took := s.whole(a, b, cache); took > 45*time.Second {
				t.Errorf("after a pause of %v, the service returned after %v", pause, took)
			}
		}
		if err := cache.Leave(s.t.Context()); err != nil {
			t.Error(err)
		}
		s.until("nodes see that it leaves", func() bool { return a.sees(name) == gossip.Left && b.sees(name) == gossip.Left })
	})
}

// The second process with the name of a service reports the conflict, and takes the name after the first one has ended.
func TestServiceReportsThatItsNameIsTaken(t *testing.T) {
	for _, crash := range []bool{true, false} {
		bubble(t, func(s *swarm) {
			a := s.add("a", inCluster("a", "x"))
			name := gossip.ServiceName("cache")
			first := s.add(name, service("10.0.0.8:6379"), a.host.Addr(port))
			s.until("the first one is seen", func() bool { return a.sees(name) == gossip.Alive })
			second := &member{sw: s, host: s.host("second")}
			s.all = append(s.all, second)
			second.start(name, service("10.0.0.9:6379"), a.host.Addr(port))
			s.until("the second one reports the conflict", func() bool {
				addr, found := second.NameConflict()
				return found && addr.String() == first.host.Addr(port)
			})
			time.Sleep(time.Minute)
			if _, found := second.NameConflict(); !found {
				t.Error("the conflict is not reported any more")
			}
			if _, found := first.NameConflict(); found {
				t.Error("the first one reports a conflict")
			}
			if got := a.find(name).Tags.Endpoints["redis"]; got != "10.0.0.8:6379" {
				t.Errorf("the node has address %q", got)
			}
			if crash {
				first.host.Crash()
			} else if err := first.Leave(s.t.Context()); err != nil {
				t.Error(err)
			}
			first.stop()
			took := s.until("the second one has the name", func() bool { return a.find(name).Tags.Endpoints["redis"] == "10.0.0.9:6379" })
			if took > time.Minute {
				t.Errorf("the second one had to wait for %v", took)
			}
			s.until("the conflict ends", func() bool { _, found := second.NameConflict(); return !found })
		})
	}
}

// A Serf member that is not a node cannot take the name of a node that is down. The nodes still exchange their states, and
// the node returns. Once, its name belonged to the other member for as long as that member was alive.
func TestForeignMemberCannotTakeTheNameOfANode(t *testing.T) {
	bubble(t, func(s *swarm) {
		s.keep = func(id string) bool { return id == "a" || id == "b" || id == "c" }
		s.keys = map[string][][]byte{"a": {key(1)}, "b": {key(1)}, "c": {key(1)}}
		a := s.add("a", inCluster("a", "x"))
		b := s.add("b", inCluster("b", "x"), a.host.Addr(port))
		c := s.add("c", inCluster("c", "x"), a.host.Addr(port))
		s.whole(a, b, c)
		c.host.Crash()
		c.stop()
		s.until("c has failed", func() bool { return a.sees("c") == gossip.Failed && b.sees("c") == gossip.Failed })
		time.Sleep(10 * time.Second) // now memberlist accepts the name at another address
		foreign := s.foreignMemberAt("foreign", "c", map[string]string{"ep." + endpoints.Peer: "10.6.6.6:7947"}, key(1))
		_, _ = foreign.Join([]string{b.host.Addr(port)}, true)
		time.Sleep(time.Minute)
		for _, m := range []*member{a, b} {
			if got := m.find("c"); got.Status != gossip.Failed || got.Addr.String() != c.host.Addr(port) {
				t.Errorf("%s has c as %+v", m.host.Name(), got)
			}
			if m.sees("a") != gossip.Alive || m.sees("b") != gossip.Alive {
				t.Errorf("%s does not see the others", m.host.Name())
			}
		}
		c.host = c.host.Restart()
		c.start("c", inCluster("c", "x"), a.host.Addr(port))
		if took := s.whole(a, b, c); took > 10*time.Second {
			t.Errorf("c returned after %v", took)
		}
		if foreign.State() != serf.SerfAlive {
			t.Error("the other member has ended, so this test shows nothing")
		}
	})
}
