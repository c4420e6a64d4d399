package ack

import (
	"slices"
	"testing"
	"time"

	"shardway/shardmap"
)

// acquireLoop answers each acquire for so long, by what fails says of each shard.
func (s *hookStage) acquireLoop(d time.Duration, fails func(shardmap.Shard) bool) {
	for end := s.now + d; s.now < end; {
		for _, c := range s.look(100 * time.Millisecond) {
			if c.Kind != HookAcquire {
				s.result(HookResult{Seq: c.Seq})
				continue
			}
			r := HookResult{Seq: c.Seq, Failed: map[shardmap.Shard]string{}}
			for _, x := range c.Shards {
				if fails(x.Shard) {
					r.Failed[x.Shard] = "no volume"
				}
			}
			if len(c.Shards) == 0 && fails(0) {
				r.Err = errHook
			}
			s.result(r)
		}
	}
	s.look(judgeEvery)
}

func all(shardmap.Shard) bool  { return true }
func none(shardmap.Shard) bool { return false }

// A shard that fails while the others are acquired is reported after some attempts and some
// seconds, not before, and no longer once it is acquired.
func TestShardThatIsNotAcquiredIsReported(t *testing.T) {
	s := newHookStage(t, 4)
	two := func(x shardmap.Shard) bool { return x == 2 }
	s.acquireLoop(stuckAfter/2, two)
	if u := s.k.un; len(u.list) > 0 || u.waiting != 1 || u.unable {
		t.Errorf("after %v %+v, want shard 2 waiting, and not reported yet", stuckAfter/2, u)
	}
	s.acquireLoop(stuckAfter, two)
	if u := s.k.un; !slices.Equal(u.list, []shardmap.Shard{2}) || u.waiting != 1 || u.unable {
		t.Errorf("%+v, want shard 2 reported", u)
	}
	s.acquireLoop(5*time.Second, none)
	if u := s.k.un; len(u.list)+u.waiting > 0 || u.unable || u.judging {
		t.Errorf("%+v, want nothing reported", u)
	}
}

// A shard that went to another node is reported for the back-off, which doubles when it fails
// again.
func TestBackoffOfUnacquiredShardDoubles(t *testing.T) {
	s := newHookStage(t, 4)
	b := shardmap.Shard(0)
	for want := backoffFirst; want <= 4*backoffFirst; want *= 2 {
		s.acquireLoop(2*stuckAfter, func(x shardmap.Shard) bool { return x == b })
		if !slices.Equal(s.k.un.list, []shardmap.Shard{b}) {
			t.Fatalf("%v is reported, want shard %d", s.k.un.list, b)
		}
		s.pin(b, "b")
		s.acquireLoop(want-3*time.Second, none)
		if !slices.Equal(s.k.un.list, []shardmap.Shard{b}) {
			t.Errorf("%v before the end of %v %v is reported, want shard %d", 3*time.Second, want, s.k.un.list, b)
		}
		s.acquireLoop(6*time.Second, none)
		if len(s.k.un.list) > 0 {
			t.Errorf("%v after the end of %v %v is reported", 3*time.Second, want, s.k.un.list)
		}
		s.pin(b, "a")
	}
}

// pin gives a shard to a node by the next map.
func (s *hookStage) pin(shard shardmap.Shard, node shardmap.NodeID) {
	s.t.Helper()
	c := s.see.state.Committed()
	p := shardmap.Policy{Pins: map[shardmap.Shard]shardmap.Pin{}}
	for x := range shardmap.Shard(c.Len()) {
		p.Pins[x] = shardmap.Pin{Node: "a"}
	}
	p.Pins[shard] = shardmap.Pin{Node: node}
	b, err := encodeProposal(MinLevel, proposal{term: 1, base: c.Epoch(), want: shardmap.Assign(c, fuzzMembers(3), p)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.entry(b)
	s.see.draining = s.see.state.Last().Epoch()
	for _, call := range s.look(0) {
		s.result(HookResult{Seq: call.Seq})
	}
	s.look(0)
	s.commit()
}

// An app that acquires nothing makes its node unable. When the node owns nothing any more, it
// asks the app by a call without shards, after a back-off that doubles.
func TestAppThatAcquiresNothingIsProbed(t *testing.T) {
	s := newHookStage(t, 4)
	s.acquireLoop(2*stuckAfter, all)
	if u := s.k.un; len(u.list) != 4 || u.waiting != 4 || !u.unable {
		t.Fatalf("%+v, want all shards reported", u)
	}
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	for range 3 {
		for _, c := range s.look(judgeEvery) {
			s.result(HookResult{Seq: c.Seq})
		}
	}
	s.commit()
	left := s.now
	probes := []time.Duration{}
	for s.now < left+5*backoffFirst {
		for _, c := range s.look(judgeEvery) {
			if c.Kind != HookAcquire || len(c.Shards) > 0 {
				t.Fatalf("the app is told %+v", c)
			}
			probes = append(probes, s.now-left)
			r := HookResult{Seq: c.Seq}
			if len(probes) < 3 {
				r.Err = errHook
			}
			s.result(r)
		}
		if len(probes) < 2 && !s.k.un.unable {
			t.Fatalf("able after %v", s.now-left)
		}
	}
	if len(probes) != 2 || probes[0] < backoffFirst-3*judgeEvery || probes[1] < 3*backoffFirst-3*judgeEvery {
		t.Errorf("probes after %v, want two, after %v and %v", probes, backoffFirst, 3*backoffFirst)
	}
	for s.now < left+8*backoffFirst {
		for _, c := range s.look(judgeEvery) {
			probes = append(probes, s.now-left)
			s.result(HookResult{Seq: c.Seq})
		}
	}
	if len(probes) != 3 || s.k.un.unable || len(s.k.un.list) > 0 {
		t.Errorf("probes after %v, %+v, want it able after the third", probes, s.k.un)
	}
}

// An app whose first call hangs is reported as waiting before that call has ended.
func TestAcquireThatHangsCountsAsWaiting(t *testing.T) {
	s := newHookStage(t, 4)
	for range 12 {
		s.look(time.Second)
	}
	if u := s.k.un; u.waiting != 4 || u.unable || len(u.list) > 0 {
		t.Errorf("%+v, want 4 waiting", u)
	}
}

// A shard that no app acquires stays with its owner, even if the shares are uneven.
func TestShardThatNoAppAcquiresStays(t *testing.T) {
	a, b := shardmap.Member{ID: "a", Weight: 1}, shardmap.Member{ID: "b", Weight: 1}
	base := shardmap.Assign(shardmap.New(4), []shardmap.Member{a}, shardmap.Policy{})
	members := []shardmap.Member{a, b}
	var l Leader
	p := shardmap.Policy{Pins: map[shardmap.Shard]shardmap.Pin{}}
	for s := range shardmap.Shard(base.Len()) {
		avoid := map[shardmap.NodeID]bool{"a": true, "b": true}
		to := l.takes(&p, members, "a", s, avoid, map[shardmap.NodeID]int{"a": 4, "b": 0})
		if to != "a" {
			t.Errorf("shard %d goes to %q, want it to stay on a", s, to)
		}
		if to != "" {
			p.Pins[s] = shardmap.Pin{Node: to}
		}
	}
	if moves := shardmap.Diff(base, shardmap.Assign(base, members, p)); len(moves) > 0 {
		t.Errorf("the next map moves %v, want no moves", moves)
	}
}
