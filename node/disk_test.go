package node_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/shardmap"
)

// loaded runs f in a cluster of the given number of nodes (a, b and so on) under load, and checks the responses afterwards.
func loaded(t *testing.T, nodes int, f func(s *storm)) {
	t.Helper()
	bubble(t, func(w *world) {
		s := newStorm(w, 1, ack.TakeoverLease)
		for i := range nodes {
			s.add(string(rune('a'+i)), trait{weight: 1, rate: 1, expect: nodes})
		}
		s.until("the cluster is there", s.whole)
		f(s)
		s.calm()
		s.account()
	})
}

// stepDown asks the leader to give up leadership.
var stepDown = api.Action{Verb: api.StepDown}

// newcomer is the trait of a node that joins.
var newcomer = trait{weight: 1, rate: 1, expect: 1}

// A leader with a stalled disk still sends its heartbeats, so no other node would replace it. It cuts itself off: its shards move to other
// nodes, it does not report itself as leader, and it returns when its disk works again.
func TestLeaderWithStalledDiskIsReplaced(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{3, 5}[:share(2, 1)] {
		t.Run(strconv.Itoa(nodes), func(t *testing.T) {
			t.Parallel()
			loaded(t, nodes, func(s *storm) {
				l := s.leader()
				rest := s.others(l)
				l.disk.hang()
				began := time.Now()
				s.add("new", newcomer) // a join appends entries
				s.within(10*time.Second, "another leads", func() bool {
					return s.leader() != nil && s.leads(rest...) != nil
				})
				s.t.Logf("another leads after %v", time.Since(began))
				if st := l.node.API().Status(); st.Role == "leader" || st.Leader == l.name {
					s.t.Errorf("Status() of the replaced leader: role %q, leader %q, want neither to name it", st.Role, st.Leader)
				}
				if err := l.node.API().Do(s.t.Context(), api.Action{Verb: api.StepDown}); !errors.Is(err, api.ErrNoLeader) {
					s.t.Errorf("Do(step-down) on the replaced leader = %v, want ErrNoLeader", err)
				}
				s.within(10*time.Second, "its shards are served elsewhere", func() bool { return s.settled(append(rest, "new")...) })
				s.t.Logf("its shards are served elsewhere after %v", time.Since(began))
				if err := l.node.API().Ready(); err == nil || !strings.Contains(err.Error(), "disk-stalled: a write to the disk of node") {
					s.t.Errorf("Ready() of the replaced leader = %v, want it to name the disk", err)
				}
				if l.node.Leased() {
					s.t.Error("it has a lease")
				}
				s.live(10 * time.Second)
				if !s.settled(append(rest, "new")...) || l.ended() {
					s.t.Errorf("the others do not serve any more, or it has ended: %v", l.err)
				}
				l.disk.well()
				s.within(time.Minute, "it serves again", s.whole)
			})
		})
	}
}

// leads returns the leader if it is one of the named nodes, and nil otherwise.
func (w *world) leads(names ...string) *process {
	for _, n := range names {
		if p := w.all[n]; !p.ended() && p.node.Leads() {
			return p
		}
	}
	return nil
}

// The leader waits no longer for a follower that cannot write than for any other follower that does not acknowledge.
func TestFollowerWithStalledDiskIsExcludedAndReturns(t *testing.T) {
	t.Parallel()
	loaded(t, 3, func(s *storm) {
		p := s.follower()
		rest := s.others(p)
		p.disk.hang()
		s.add("new", newcomer)
		s.within(15*time.Second, "the others go on without it", func() bool { return s.settled(append(rest, "new")...) })
		if p.node.Leased() {
			s.t.Error("it has a lease though it never acknowledged")
		}
		p.disk.well()
		s.within(time.Minute, "it serves again", s.whole)
	})
}

// A pending write to a stalled disk must not prevent the process from ending.
func TestNodeWithStalledDiskStops(t *testing.T) {
	t.Parallel()
	loaded(t, 3, func(s *storm) {
		p := s.leader()
		rest := s.others(p)
		p.disk.hang()
		s.add("new", newcomer)
		s.within(10*time.Second, "another leads", func() bool { return s.leads(rest...) != nil })
		p.stop()
		s.until("it has stopped", p.ended)
		p.host.Crash()
		s.until("the others serve", func() bool { return s.settled(append(rest, "new")...) })
	})
}

// A disk that takes 100 ms for each write delays maps, but no lease: no node is excluded, no lease expires, and no election begins.
func TestSlowDisksCostNoLease(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"all", "leader", "follower"}[:share(3, 1)] {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			loaded(t, 3, func(s *storm) {
				slow := s.running()
				switch who {
				case "leader":
					slow = []*process{s.leader()}
				case "follower":
					slow = []*process{s.follower()}
				}
				for _, p := range slow {
					p.disk.slow(100 * time.Millisecond)
				}
				l := s.leader()
				term := l.node.API().Status().Term
				all := s.running()
				look := func() {
					for _, p := range all {
						if !p.node.Leased() {
							s.t.Fatalf("%s has no lease", p.name)
						}
						if d, ok := l.node.State().Drop(shardmap.NodeID(p.name)); ok {
							s.t.Fatalf("%s was dropped: %v", p.name, d.Cause)
						}
					}
				}
				s.moment = func() { s.pass(); look() }
				began := time.Now()
				s.add("new", newcomer)
				s.until("the newcomer serves", func() bool { return s.settled(s.owners()...) })
				s.t.Logf("a join takes %v", time.Since(began))
				for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
					s.moment()
				}
				if st := l.node.API().Status(); st.Role != "leader" || st.Term != term {
					s.t.Errorf("%s is %s in term %d, want the leader in %d", l.name, st.Role, st.Term, term)
				}
				s.moment = s.pass
			})
		})
	}
}

// A node with a broken disk ends with the reason as its error, and the others continue.
func TestNodeWithBrokenDiskEndsWithTheReason(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"leader", "follower"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			loaded(t, 3, func(s *storm) {
				p := s.follower()
				if who == "leader" {
					p = s.leader()
				}
				rest := s.others(p)
				p.disk.breaks()
				s.add("new", newcomer) // a join appends entries
				s.within(10*time.Second, "it ends", p.ended)
				if p.err == nil || !strings.Contains(p.err.Error(), errBroken.Error()) {
					s.t.Errorf("Run() = %v, want it to name the reason", p.err)
				}
				s.within(10*time.Second, "the others serve", func() bool { return s.settled(append(rest, "new")...) })
				s.revive(p)
				s.within(time.Minute, "it serves again", s.whole)
			})
		})
	}
}
