package gossip_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"shardway/node/clusterid"
	"shardway/node/gossip"
)

func TestThreeNodesJoinAndExchangeTags(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", node("a"))
		tags := node("b")
		tags.Zone, tags.BootstrapExpect, tags.Weight, tags.Version = "z1", 3, 7, "v1"
		tags.Endpoints = map[string]string{"http": "10.0.0.2:8080", "peer": "[::1]:7947"}
		b := s.add("b", tags, a.host.Addr(port))
		c := s.add("c", node("c"), a.host.Addr(port))
		if d := s.whole(a, b, c); d > time.Second {
			t.Errorf("met after %v", d)
		}
		for _, m := range c.Members() {
			if m.ID != "b" {
				continue
			}
			if !m.Node || m.Err != nil || m.Addr.String() != b.host.Addr(port) {
				t.Errorf("member %+v", m)
			}
			if m.Tags.Zone != "z1" || m.Tags.BootstrapExpect != 3 || m.Tags.Weight != 7 || m.Tags.Shards != 1024 ||
				m.Tags.Endpoints["peer"] != "[::1]:7947" || len(m.Tags.Endpoints) != 2 {
				t.Errorf("tags %+v", m.Tags)
			}
		}
		if err := a.NoOtherNodeReason(); err != nil {
			t.Errorf("Alone() = %v among others", err)
		}
	})
}

func TestOrderOfStartDoesNotMatter(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		hosts := []string{s.host("a").Addr(port), s.host("b").Addr(port), s.host("c").Addr(port)}
		c := s.add("c", node("c"), hosts...)
		time.Sleep(5 * time.Minute)
		if c.NoOtherNodeReason() == nil {
			t.Error("Alone() = nil without another node")
		}
		b := s.add("b", node("b"), hosts...)
		time.Sleep(5 * time.Minute)
		a := s.add("a", node("a"), hosts...)
		if d := s.whole(a, b, c); d > 3*time.Second {
			t.Errorf("met after %v", d)
		}
	})
}

func TestFailedJoinIsLoggedOnceAMinute(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", node("a"), s.host("b").Addr(port), "nowhere.example")
		time.Sleep(10 * time.Minute)
		n := 0
		for _, l := range s.lines() {
			if strings.Contains(l, "no node reachable") {
				n++
			}
		}
		if n < 9 || n > 11 {
			t.Errorf("%d lines in ten minutes", n)
		}
		if err := a.NoOtherNodeReason(); err == nil {
			t.Error("Alone() = nil")
		}
	})
}

// Names are resolved again while the node is alone.
func TestNamesAreAskedAgain(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", node("a"), "seeds.example", "_gossip._tcp.example")
		time.Sleep(time.Minute)
		b := s.add("b", node("b"))
		s.dns.set("seeds.example", netip.MustParseAddr("10.99.0.1"), b.host.IP(), a.host.IP())
		if d := s.whole(a, b); d > 5*time.Second {
			t.Errorf("met after %v", d)
		}
	})
}

func TestServiceRecordsAreJoined(t *testing.T) {
	bubble(t, func(s *swarm) {
		b := s.add("b", node("b"))
		s.dns.srv["_gossip._tcp.example"] = []*net.SRV{{Target: "lost.example.", Port: port}, {Target: "b.example.", Port: port}}
		s.dns.set("b.example", b.host.IP())
		a := s.add("a", node("a"), "_gossip._tcp.example")
		s.whole(a, b)
	})
}

func TestOtherClusterIsRefusedByBoth(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", inCluster("a", "one"))
		b := s.add("b", inCluster("b", "two"), a.host.Addr(port))
		r := <-b.Refusals()
		for _, part := range []string{`"a"`, a.host.Addr(port), "one", "two", "data directory"} {
			if !strings.Contains(r.Error(), part) {
				t.Errorf("refusal %q does not say %q", r, part)
			}
		}
		time.Sleep(time.Minute)
		if len(a.Members()) != 1 || len(b.Members()) != 1 {
			t.Errorf("merged: %v, %v", a.Members(), b.Members())
		}
		select {
		case r := <-a.Refusals():
			t.Errorf("the node that was asked reports a refusal of its own: %v", r)
		default:
		}
	})
}

func TestOtherShardCountIsRefused(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", inCluster("a", "one"))
		tags := node("b")
		tags.Shards = 512
		b := s.add("b", tags, a.host.Addr(port))
		r := <-b.Refusals()
		if r.Tag != "shards" || r.LocalValue != "512" || r.RemoteValue != "1024" || !strings.Contains(r.Error(), "--shards 1024") {
			t.Errorf("refusal %+v: %v", *r, r)
		}
		time.Sleep(time.Minute)
		if len(a.Members()) != 1 {
			t.Errorf("merged: %v", a.Members())
		}
	})
}

// A program whose format version is below the one in force would write entries that the others no longer use, and stop at the entries that
// they write.
func TestLowerLevelIsRefusedByBoth(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		b := s.host("b").Addr(port)
		in := inCluster("a", "one")
		in.Levels = gossip.Levels{InForce: 2, Known: 2}
		a := s.add("a", in, b)
		tags := node("b")
		tags.Levels = gossip.Levels{InForce: 1, Known: 1}
		late := s.add("b", tags, a.host.Addr(port))
		r := <-late.Refusals()
		if r.Tag != "level" || !strings.Contains(r.Error(), "format version 2 is in force") || !strings.Contains(r.Error(), "supports format version 1: run the version of the other nodes") {
			t.Errorf("refusal %+v: %v", *r, r)
		}
		time.Sleep(time.Minute)
		select {
		case r := <-a.Refusals():
			t.Errorf("the cluster's node gives up: %v", r)
		default:
		}
		if len(a.Members()) != 1 {
			t.Errorf("merged: %v", a.Members())
		}
	})
}

// Until the format version is raised, programs with and without support for it form one cluster.
func TestHigherKnownLevelIsNoReasonToRefuse(t *testing.T) {
	bubble(t, func(s *swarm) {
		in, next := inCluster("a", "one"), node("b")
		in.Levels, next.Levels = gossip.Levels{InForce: 1, Known: 1}, gossip.Levels{InForce: 1, Known: 2}
		a := s.add("a", in)
		b := s.add("b", next, a.host.Addr(port))
		s.whole(a, b)
	})
}

// A node that belongs to its cluster does not stop because of a misconfigured new node.
func TestWrongNewcomerStopsOnlyItself(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		b := s.host("b").Addr(port)
		a := s.add("a", inCluster("a", "one"), b)
		tags := node("b")
		tags.Shards = 512
		late := s.add("b", tags, a.host.Addr(port))
		if r := <-late.Refusals(); r.LocalValue != "512" {
			t.Errorf("refusal %v", r)
		}
		time.Sleep(time.Minute)
		select {
		case r := <-a.Refusals():
			t.Errorf("refusal reported: %v", r)
		default:
		}
		if a.NoOtherNodeReason() == nil {
			t.Error("merged")
		}
	})
}

// A node does not stop because another cluster now has the address of a dead node.
func TestLaterForeignClusterDoesNotStopNode(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		c := s.host("c").Addr(port)
		b := s.add("b", inCluster("b", "one"))
		a := s.add("a", inCluster("a", "one"), b.host.Addr(port), c)
		s.whole(a, b)
		time.Sleep(time.Minute)
		b.host.Crash()
		s.until("a is alone", func() bool { return a.NoOtherNodeReason() != nil })
		s.add("c", inCluster("c", "two"))
		time.Sleep(5 * time.Minute)
		select {
		case r := <-a.Refusals():
			t.Errorf("refusal reported: %v", r)
		default:
		}
	})
}

// Two clusters that a node without a cluster would connect stay apart: gossip messages are filtered, not only joins.
func TestNewNodeDoesNotMergeTwoClusters(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", inCluster("a", "one"))
		b := s.add("b", inCluster("b", "two"))
		s.add("c", node("c"), a.host.Addr(port), b.host.Addr(port))
		time.Sleep(5 * time.Minute)
		if a.sees("b") != 0 || b.sees("a") != 0 {
			t.Errorf("a sees b as %v, b sees a as %v", a.sees("b"), b.sees("a"))
		}
		if a.sees("c") != gossip.Alive && b.sees("c") != gossip.Alive {
			t.Error("the new node is in neither")
		}
	})
}

func TestNodeWithoutClusterJoinsAndAdopts(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", inCluster("a", "one"))
		b := s.add("b", node("b"), a.host.Addr(port))
		s.whole(a, b)
		if err := b.SetTags(inCluster("b", "one")); err != nil {
			t.Fatal(err)
		}
		s.until("a sees the new tags", func() bool {
			for _, m := range a.Members() {
				if m.ID == "b" && m.Tags.Cluster == "one" {
					return true
				}
			}
			return false
		})
	})
}

func TestAnnouncersAreShownAndAreNoNodes(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", inCluster("a", "one"))
		s.add("x", gossip.Tags{Endpoints: map[string]string{"db": "10.1.1.1:5432"}}, a.host.Addr(port))
		s.until("a sees x", func() bool { return a.sees("x") == gossip.Alive })
		for _, m := range a.Members() {
			if m.ID == "x" && (m.Node || m.Tags.Endpoints["db"] != "10.1.1.1:5432") {
				t.Errorf("member %+v", m)
			}
		}
		if a.NoOtherNodeReason() == nil {
			t.Error("an announcer counts as a node")
		}
	})
}

func TestQuickRestartsKeepAllMembers(t *testing.T) {
	bubble(t, func(s *swarm) {
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		c := s.add("c", node("c"), a.host.Addr(port))
		s.whole(a, b, c)
		for i := range 20 {
			b.host.Crash()
			b.stop()
			time.Sleep(time.Duration(i) * 100 * time.Millisecond)
			b.host = b.host.Restart()
			b.start("b", node("b"), a.host.Addr(port))
		}
		s.whole(a, b, c)
		time.Sleep(10 * time.Second)
		s.whole(a, b, c)
	})
}

func TestRestartAtAnotherAddress(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		c := s.add("c", node("c"), a.host.Addr(port))
		s.whole(a, b, c)
		b.host.Crash()
		b.stop()
		old := b.host.Addr(port)
		b.host = s.host("elsewhere")
		b.start("b", node("b"), a.host.Addr(port))
		d := s.until("all see b at its new address", func() bool {
			for _, m := range []*member{a, c} {
				for _, o := range m.Members() {
					if o.ID == "b" && (o.Status != gossip.Alive || o.Addr.String() == old) {
						return false
					}
				}
			}
			return true
		})
		t.Logf("seen after %v", d)
		if d > 30*time.Second {
			t.Errorf("seen after %v", d)
		}
	})
}

// Nodes that have never met, so that Serf reconnects none of them, meet as soon as their join addresses can be reached.
func TestIslandsFindEachOther(t *testing.T) {
	bubble(t, func(s *swarm) {
		hosts := []string{s.host("a").Addr(port), s.host("c").Addr(port)}
		a := s.add("a", node("a"), hosts...)
		b := s.add("b", node("b"), hosts...)
		s.net.Partition([]string{"a", "b"}, []string{"c", "d"})
		c := s.add("c", node("c"), hosts...)
		d := s.add("d", node("d"), hosts...)
		s.whole(a, b)
		s.whole(c, d)
		time.Sleep(5 * time.Minute)
		s.net.Heal()
		s.whole(a, b, c, d)
	})
}

func TestLeaveIsSeenAndReturns(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		s.whole(a, b)
		for len(a.Changed()) > 0 {
			<-a.Changed()
		}
		if err := b.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.host.Crash()
		b.stop()
		<-a.Changed()
		s.until("a sees b left", func() bool { return a.sees("b") == gossip.Left })
		b.host = b.host.Restart()
		b.start("b", node("b"), a.host.Addr(port))
		s.whole(a, b)
	})
}

// All members hide a removed node. Once, every node showed it as failed for another hour. A node that learns of the removal does not block
// while it forgets the removed one, also if it still considers it alive: with Serf's own message it slept for 1.3 s and could not list the
// members.
func TestForgottenNodeIsHiddenByAllMembers(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		c := s.add("c", node("c"), a.host.Addr(port))
		s.whole(a, b, c)
		c.host.Crash()
		b.Forget("c")
		if b.sees("c") != gossip.Alive {
			t.Errorf("one that is not known to be gone is seen as %v", b.sees("c"))
		}
		s.until("failed", func() bool { return a.sees("c") == gossip.Failed })
		a.Forget("c")
		if got := a.sees("c"); got != 0 {
			t.Errorf("one that failed and is to be forgotten is seen as %v", got)
		}
		s.until("forgotten", func() bool { return b.sees("c") == 0 })
		time.Sleep(2 * time.Minute) // the message itself has expired
		if a.sees("c") != 0 || b.sees("c") != 0 {
			t.Errorf("it is remembered again: %v, %v", a.sees("c"), b.sees("c"))
		}
		c.stop()
		c.host = c.host.Restart()
		c.start("c", node("c"), a.host.Addr(port))
		s.whole(a, b, c)
	})
}

// A new node with the name of a forgotten one is remembered when it fails.
func TestNameOfForgottenNodeCanBeReused(t *testing.T) {
	bubble(t, func(s *swarm) {
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		s.whole(a, b)
		b.host.Crash()
		s.until("failed", func() bool { return a.sees("b") == gossip.Failed })
		a.Forget("b")
		b.stop()
		b.host = b.host.Restart()
		b.start("b", node("b"), a.host.Addr(port))
		s.whole(a, b)
		b.host.Crash()
		s.until("failed", func() bool { return a.sees("b") == gossip.Failed })
	})
}

// A removal message about a live node is not kept until that node fails one day.
func TestLiveNodeIsNotForgotten(t *testing.T) {
	bubble(t, func(s *swarm) {
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		s.whole(a, b)
		a.Forget("b")
		time.Sleep(time.Minute)
		b.host.Crash()
		s.until("failed", func() bool { return a.sees("b") == gossip.Failed })
	})
}

func TestCrashIsSeen(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		c := s.add("c", node("c"), a.host.Addr(port))
		s.whole(a, b, c)
		c.host.Crash()
		d := s.until("failed", func() bool { return a.sees("c") == gossip.Failed && b.sees("c") == gossip.Failed })
		t.Logf("seen after %v", d)
	})
}

func TestTooManyTagsAreRefused(t *testing.T) {
	tags := node("a")
	tags.Endpoints = map[string]string{}
	for _, c := range "abcdefgh" {
		tags.Endpoints[strings.Repeat(string(c), 30)] = strings.Repeat("x", 40) + ":1"
	}
	_, err := gossip.New(gossip.Options{Tags: tags})
	if err == nil || !strings.Contains(err.Error(), "512") || !strings.Contains(err.Error(), "--endpoint") {
		t.Errorf("New: %v", err)
	}
}

// A node of a cluster that was recovered without it must stop, even if it has met other nodes that were left out and serves with them. The
// recovered cluster continues.
func TestSupersededClusterStopsWhenItMeetsTheRecoveredOne(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		former := clusterid.New()
		now := clusterid.Recovered(former, 1<<40)
		a := s.host("a").Addr(port)
		b := s.add("b", inCluster("b", former), a)
		c := s.add("c", inCluster("c", former), b.host.Addr(port), a)
		s.whole(b, c)
		time.Sleep(time.Minute)
		recovered := s.add("a", inCluster("a", now), b.host.Addr(port), c.host.Addr(port))
		for _, n := range []*member{b, c} {
			r := <-n.Refusals()
			for _, part := range []string{now, former, "recovered", "empty --data directory"} {
				if !r.Superseded || !strings.Contains(r.Error(), part) {
					t.Errorf("refusal %q, superseded %v, does not say %q", r, r.Superseded, part)
				}
			}
		}
		select {
		case r := <-recovered.Refusals():
			t.Errorf("the recovered node reports a refusal: %v", r)
		default:
		}
	})
}
