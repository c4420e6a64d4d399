package agent

import (
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// acquireLoop answers each acquire call for a while. fails returns the error of each shard.
func (s *hookStage) acquireLoop(d time.Duration, fails func(shardmap.Shard) bool) {
	for end := s.now + d; s.now < end; {
		for _, c := range s.pollAfter(100 * time.Millisecond) {
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
	s.pollAfter(failureUpdateInterval)
}

func all(shardmap.Shard) bool  { return true }
func none(shardmap.Shard) bool { return false }

// A shard that fails while the others are acquired is reported after some attempts and some
// seconds, not before, and no longer once it is acquired.
func TestShardThatIsNotAcquiredIsReported(t *testing.T) {
	s := newHookStage(t, 4)
	two := func(x shardmap.Shard) bool { return x == 2 }
	s.acquireLoop(defaultStuckAfter/2, two)
	if u := s.k.acquireFailures; len(u.reported) > 0 || u.waitingCount != 1 || u.acquiresNone {
		t.Errorf("after %v %+v, want shard 2 waiting, and not reported yet", defaultStuckAfter/2, u)
	}
	s.acquireLoop(defaultStuckAfter, two)
	if u := s.k.acquireFailures; !slices.Equal(u.reported, []shardmap.Shard{2}) || u.waitingCount != 1 || u.acquiresNone {
		t.Errorf("%+v, want shard 2 reported", u)
	}
	s.acquireLoop(5*time.Second, none)
	if u := s.k.acquireFailures; len(u.reported)+u.waitingCount > 0 || u.acquiresNone || u.updatesNeeded {
		t.Errorf("%+v, want nothing reported", u)
	}
}

// A shard that moved to another node is reported for the backoff, which doubles with the next
// failure.
func TestBackoffOfUnacquiredShardDoubles(t *testing.T) {
	s := newHookStage(t, 4)
	b := shardmap.Shard(0)
	for want := defaultFirstBackoff; want <= 4*defaultFirstBackoff; want *= 2 {
		s.acquireLoop(2*defaultStuckAfter, func(x shardmap.Shard) bool { return x == b })
		if !slices.Equal(s.k.acquireFailures.reported, []shardmap.Shard{b}) {
			t.Fatalf("%v is reported, want shard %d", s.k.acquireFailures.reported, b)
		}
		s.pin(b, "b")
		s.acquireLoop(want-3*time.Second, none)
		if !slices.Equal(s.k.acquireFailures.reported, []shardmap.Shard{b}) {
			t.Errorf("%v before the end of %v %v is reported, want shard %d", 3*time.Second, want, s.k.acquireFailures.reported, b)
		}
		s.acquireLoop(6*time.Second, none)
		if len(s.k.acquireFailures.reported) > 0 {
			t.Errorf("%v after the end of %v %v is reported", 3*time.Second, want, s.k.acquireFailures.reported)
		}
		s.pin(b, "a")
	}
}

// pin moves a shard to a node with the next map.
func (s *hookStage) pin(shard shardmap.Shard, node shardmap.NodeID) {
	s.t.Helper()
	c := s.see.state.Committed()
	p := shardmap.Policy{Pins: map[shardmap.Shard]shardmap.Pin{}}
	for x := range shardmap.Shard(c.Len()) {
		p.Pins[x] = shardmap.Pin{Node: "a"}
	}
	p.Pins[shard] = shardmap.Pin{Node: node}
	b, err := ack.EncodeProposal(ack.MinFormatVersion, ack.ProposalEntry{Term: 1, Base: c.Epoch(), Want: shardmap.Assign(c, membersOf("a", "b", "c"), p)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.entry(b)
	s.see.drainingEpoch = s.see.state.Proposed().Epoch()
	for _, call := range s.pollAfter(0) {
		s.result(HookResult{Seq: call.Seq})
	}
	s.pollAfter(0)
	s.commit()
}

// An app that acquires nothing makes its node unable. Once the node owns nothing, it sends
// probes, with a backoff that doubles.
func TestAppThatAcquiresNothingIsProbed(t *testing.T) {
	s := newHookStage(t, 4)
	s.acquireLoop(2*defaultStuckAfter, all)
	if u := s.k.acquireFailures; len(u.reported) != 4 || u.waitingCount != 4 || !u.acquiresNone {
		t.Fatalf("%+v, want all shards reported", u)
	}
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	for range 3 {
		for _, c := range s.pollAfter(failureUpdateInterval) {
			s.result(HookResult{Seq: c.Seq})
		}
	}
	s.commit()
	left := s.now
	probes := []time.Duration{}
	for s.now < left+5*defaultFirstBackoff {
		for _, c := range s.pollAfter(failureUpdateInterval) {
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
		if len(probes) < 2 && !s.k.acquireFailures.acquiresNone {
			t.Fatalf("able after %v", s.now-left)
		}
	}
	if len(probes) != 2 || probes[0] < defaultFirstBackoff-3*failureUpdateInterval || probes[1] < 3*defaultFirstBackoff-3*failureUpdateInterval {
		t.Errorf("probes after %v, want two, after %v and %v", probes, defaultFirstBackoff, 3*defaultFirstBackoff)
	}
	for s.now < left+8*defaultFirstBackoff {
		for _, c := range s.pollAfter(failureUpdateInterval) {
			probes = append(probes, s.now-left)
			s.result(HookResult{Seq: c.Seq})
		}
	}
	if len(probes) != 3 || s.k.acquireFailures.acquiresNone || len(s.k.acquireFailures.reported) > 0 {
		t.Errorf("probes after %v, %+v, want it able after the third", probes, s.k.acquireFailures)
	}
}

// An app whose first call hangs is reported as waiting before that call has ended.
func TestAcquireThatHangsCountsAsWaiting(t *testing.T) {
	s := newHookStage(t, 4)
	for range 12 {
		s.pollAfter(time.Second)
	}
	if u := s.k.acquireFailures; u.waitingCount != 4 || u.acquiresNone || len(u.reported) > 0 {
		t.Errorf("%+v, want 4 waiting", u)
	}
}
