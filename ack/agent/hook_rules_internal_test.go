package agent

import (
	"errors"
	"math"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// only returns the single call of calls, which must be of the given kind.
func (s *hookStage) only(calls []HookCall, kind HookKind) HookCall {
	s.t.Helper()
	if len(calls) != 1 || calls[0].Kind != kind {
		s.t.Fatalf("called %+v, want one %s", calls, kind)
	}
	return calls[0]
}

// wantCut checks which calls were cancelled since the last check.
func (s *hookStage) wantCut(when string, seqs ...uint64) {
	s.t.Helper()
	if len(s.app.cut) != len(seqs) || len(seqs) > 0 && s.app.cut[0] != seqs[0] {
		s.t.Errorf("%s: %v were cut, want %v", when, s.app.cut, seqs)
	}
	s.app.cut = nil
}

// A call names its map, the next owner of each shard and the number of cut requests, and has
// the remaining time as timeout.
func TestHookCallsDescribeTheirShards(t *testing.T) {
	s := newHookStage(t, 2)
	c := s.only(s.pollAfter(0), HookAcquire)
	if c.Map != s.see.state.Committed().Epoch() || c.Timeout != s.k.options.AcquireTimeout {
		t.Errorf("acquire: %+v", c)
	}
	s.result(HookResult{Seq: c.Seq})
	s.pollAfter(0)
	s.propose(membersOf("a", "b"))
	s.app.busy = 3
	if early := s.pollAfter(0); len(early) > 0 {
		t.Fatalf("called while requests run: %+v", early)
	}
	s.k.countAbortedRequests(func(shardmap.Shard) bool { return true })
	s.app.busy = 0
	c = s.only(s.pollAfter(time.Millisecond), HookRelease)
	if c.Map != s.see.state.Proposed().Epoch() || c.Map == s.see.state.Committed().Epoch() || c.Shards[0].Cut != 3 || c.Shards[0].To != "b" {
		t.Errorf("release: %+v", c)
	}
	by := s.k.callDeadline(0)
	s.pollAfter(c.Timeout)
	s.wantCut("after its time", c.Seq)
	s.result(HookResult{Seq: c.Seq, Err: errHook})
	s.pollAfter(0)
	c = s.only(s.pollAfter(minRetryPause), HookRelease)
	if left := by - s.k.deadlines.lostCallReserve() - s.now; c.Timeout != left || left >= maxAttempt {
		t.Errorf("the second attempt has %v, want the %v that are left of its time", c.Timeout, left)
	}
	s.pollAfter(c.Timeout)
	s.result(HookResult{Seq: c.Seq, Err: errHook})
	c = s.only(s.pollAfter(0), HookLost)
	if c.Map != s.see.state.Proposed().Epoch() || c.Timeout != s.k.deadlines.lostCallReserve() {
		t.Errorf("lost: %+v, want %v for it", c, s.k.deadlines.lostCallReserve())
	}
	s.result(HookResult{Seq: c.Seq})
	s.propose(membersOf("a")) // and again, of which nothing is cut
	s.result(HookResult{Seq: s.only(s.pollAfter(0), HookAcquire).Seq})
	s.pollAfter(0)
	s.propose(membersOf("a", "b"))
	if c = s.only(s.pollAfter(0), HookRelease); c.Shards[0].Cut != 0 {
		t.Errorf("the second move: %+v", c)
	}
}

// If two nodes leave at the same time, the next owner is unknown.
func TestReleaseOfLeavingNodeNamesNoNextOwner(t *testing.T) {
	s := newHookStage(t, 2)
	s.acquire()
	s.see.stopping = true
	if c := s.only(s.pollAfter(0), HookRelease); c.Shards[0].To != "" {
		t.Errorf("released to %q, which is no one else", c.Shards[0].To)
	}
}

// A call that hangs is cancelled at its timeout by the client or by the node, whichever is
// first. When the node was first, the call counted as cancelled early, so the next calls named
// as many shards and hung, too.
func TestCallCancelledAfterItsTimeoutHasNoResponse(t *testing.T) {
	s := newHookStage(t, 512)
	for _, want := range []int{256, 16} {
		calls := s.pollAfter(time.Hour)
		for _, c := range calls {
			if len(c.Shards) > want {
				t.Fatalf("a call names %d shards, want %d at most", len(c.Shards), want)
			}
		}
		s.pollAfter(s.k.options.AcquireTimeout)
		if len(s.app.cut) != len(calls) {
			t.Fatalf("%d of %d calls that hang were cut", len(s.app.cut), len(calls))
		}
		for _, seq := range s.app.cut {
			s.result(HookResult{Seq: seq, Err: errHook})
		}
		s.app.cut = nil
		s.pollAfter(0)
	}
}

// A call continues only as long as its result is useful.
func TestUselessCallsAreCancelled(t *testing.T) {
	elsewhere := []shardmap.Member{{ID: "b", Weight: 1}}
	t.Run("an acquire, when its shard is to move", func(t *testing.T) {
		s := newHookStage(t, 2)
		c := s.only(s.pollAfter(0), HookAcquire)
		s.pollAfter(time.Second)
		s.wantCut("nothing has happened")
		s.propose(elsewhere)
		s.pollAfter(0)
		s.wantCut("it moves", c.Seq)
	})
	t.Run("a release, when its shard has moved", func(t *testing.T) {
		s := newHookStage(t, 2)
		s.acquire()
		s.propose(elsewhere)
		c := s.only(s.pollAfter(0), HookRelease)
		s.see.hasLease, s.see.mayRelease = false, false
		s.pollAfter(time.Millisecond)
		s.wantCut("without a lease, which may come back")
		s.commit()
		s.pollAfter(0)
		s.wantCut("it has moved", c.Seq)
	})
	t.Run("a release of who leaves, when there is no lease", func(t *testing.T) {
		s := newHookStage(t, 2)
		s.acquire()
		s.see.stopping = true
		c := s.only(s.pollAfter(0), HookRelease)
		s.see.hasLease, s.see.mayRelease = false, false
		s.pollAfter(time.Millisecond)
		s.answered(1, graceAnswers)
		s.wantCut("the lease may come back")
		s.answered(1, 1)
		s.wantCut("it leaves, and has no lease", c.Seq)
	})
	t.Run("a release, when the app refuses another one", func(t *testing.T) {
		s := newHookStage(t, 512)
		s.acquire()
		s.propose(elsewhere)
		calls := s.pollAfter(0)
		if len(calls) != 2 {
			t.Fatalf("%d calls", len(calls))
		}
		s.result(HookResult{Seq: calls[0].Seq, Err: errHook, Refused: true})
		s.pollAfter(time.Millisecond)
		s.wantCut("nobody is there", calls[1].Seq)
	})
	t.Run("a release, in time to say that the shard is lost, and that", func(t *testing.T) {
		s := newHookStage(t, 1)
		s.k.deadlines.ownTimeout = 2 * time.Second
		s.acquire()
		s.propose(elsewhere)
		release, by := s.only(s.pollAfter(0), HookRelease), s.k.callDeadline(0)
		s.pollAfter(by - s.k.deadlines.lostCallReserve() - s.now - 1)
		s.wantCut("there is time")
		s.pollAfter(1)
		s.wantCut("it has had its time", release.Seq)
		s.result(HookResult{Seq: release.Seq, Err: errHook})
		lost := s.only(s.pollAfter(0), HookLost)
		s.pollAfter(by - s.now)
		s.wantCut("all has had its time", lost.Seq)
		s.result(HookResult{Seq: lost.Seq, Err: errHook})
		s.pollAfter(0)
		if calls := s.pollAfter(time.Minute / 2); len(calls) > 0 {
			t.Errorf("called before the acknowledgement is out: %+v", calls)
		}
		s.commit()
		s.only(s.pollAfter(0), HookLost)
	})
	t.Run("a lost, when the shard is back", func(t *testing.T) {
		s := newHookStage(t, 2)
		s.acquire()
		s.propose(elsewhere)
		s.commit()
		c := s.only(s.pollAfter(0), HookLost)
		s.propose(membersOf("a"))
		s.pollAfter(0)
		s.wantCut("it is to come back")
		s.commit()
		s.pollAfter(0)
		s.wantCut("it is back", c.Seq)
	})
}

// A call that is cancelled before its timeout has not failed. Shards that remain are acquired
// at once by another call.
func TestCancelledCallHasNotFailed(t *testing.T) {
	for name, said := range map[string]string{"at first": "", "after a failure": errHook.Error()} {
		t.Run(name, func(t *testing.T) {
			s := newHookStage(t, 2)
			c := s.only(s.pollAfter(0), HookAcquire)
			if said != "" {
				s.result(HookResult{Seq: c.Seq, Failed: map[shardmap.Shard]string{0: said, 1: said}})
				s.pollAfter(0)
				c = s.only(s.pollAfter(minRetryPause), HookAcquire)
			}
			s.propose(membersOf("a", "b"))
			s.pollAfter(0)
			s.wantCut("one of them moves", c.Seq)
			s.result(HookResult{Seq: c.Seq, Err: errCutHook})
			again := s.pollAfter(0)[0]
			if again.Kind != HookAcquire || len(again.Shards) != 1 {
				t.Fatalf("called %+v, want an acquire of the shard that stays", again)
			}
			if h := s.k.shards[again.Shards[0].Shard]; h.phase != HookAcquiring || h.lastError != said {
				t.Errorf("in phase %v it is said %q, want %q", h.phase, h.lastError, said)
			}
		})
	}
}

var errCutHook = errors.New("cut")

// A shard that another node has owned is new to the app, even if its last acquire call failed
// and no lost call was possible.
func TestShardThatComesBackIsNotAcquiredAgain(t *testing.T) {
	s := newHookStage(t, 1)
	c := s.only(s.pollAfter(0), HookAcquire)
	s.result(HookResult{Seq: c.Seq, Err: errHook})
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	s.commit()
	c = s.only(s.pollAfter(0), HookLost)
	s.result(HookResult{Seq: c.Seq, Err: errHook})
	s.propose(membersOf("a"))
	s.commit()
	c = s.only(s.pollAfter(0), HookAcquire)
	if x := c.Shards[0]; x.Again || x.From != "b" || x.Epoch != s.see.state.Committed().OwnedSince(0) {
		t.Errorf("acquired %+v", x)
	}
	s.result(HookResult{Seq: c.Seq, Err: errHook})
	s.pollAfter(0)
	if c = s.only(s.pollAfter(time.Second), HookAcquire); !c.Shards[0].Again {
		t.Error("the second attempt under one epoch says that it is the first")
	}
}

// A report of the app that it does not hold a shard counts only for a serving shard under the
// epoch of the request.
func TestOnlyServingShardIsAcquiredAgain(t *testing.T) {
	s := newHookStage(t, 2)
	a := &Agent{hooks: s.k}
	epoch := s.see.state.Committed().OwnedSince(0)
	s.acquire()
	a.ShardNotAcquired(0, epoch+1)
	a.ShardNotAcquired(2, epoch) // of a larger cluster
	if calls := s.pollAfter(0); len(calls) > 0 || s.k.shards[0].phase != HookServing {
		t.Errorf("of another ownership: %+v, %s", calls, s.k.shards[0].phase)
	}
	a.ShardNotAcquired(0, epoch)
	c := s.only(s.pollAfter(0), HookAcquire)
	if len(c.Shards) != 1 || c.Shards[0].Shard != 0 || !c.Shards[0].Again {
		t.Errorf("acquired %+v", c)
	}
	s.result(HookResult{Seq: c.Seq})
	s.result(HookResult{Seq: c.Seq}) // a second result is ignored
	s.pollAfter(0)
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	s.only(s.pollAfter(0), HookRelease)
	a.ShardNotAcquired(0, epoch)
	if calls := s.pollAfter(0); len(calls) > 0 || s.k.shards[0].phase != HookReleasing {
		t.Errorf("while it is released: %+v, %s", calls, s.k.shards[0].phase)
	}
	(&Agent{}).ShardNotAcquired(0, epoch) // without hooks
}

// HeldShards lists each shard that the app may hold, with the start of its phase and the last
// error.
func TestHeldShardsListsPhases(t *testing.T) {
	s := newHookStage(t, 2)
	a := &Agent{hooks: s.k}
	if (&Agent{}).HeldShards() != nil || len(a.HeldShards()) > 0 {
		t.Errorf("before the first look: %+v", a.HeldShards())
	}
	began := s.now
	c := s.only(s.pollAfter(0), HookAcquire)
	s.result(HookResult{Seq: c.Seq, Failed: map[shardmap.Shard]string{1: "no room"}})
	s.pollAfter(time.Millisecond)
	epoch := s.see.state.Committed().OwnedSince(0)
	want := []HeldShardView{{Shard: 0, Epoch: epoch, Phase: HookServing, Since: s.now}, {Shard: 1, Epoch: epoch, Phase: HookAcquiring, Since: began, Err: "no room"}}
	if got := a.HeldShards(); len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("held: %+v, want %+v", got, want)
	}
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	s.commit()
	if s.pollAfter(0); len(a.HeldShards()) > 0 {
		t.Errorf("after they have moved: %+v", a.HeldShards())
	}
}

// Moving shards and the shards of a stopping node have a deadline each. If both apply, the
// earlier one counts.
func TestDeadlineOfReleasedShards(t *testing.T) {
	const never = time.Duration(math.MaxInt64)
	for name, c := range map[string]struct {
		parting           bool
		draining          shardmap.Epoch
		partBy, releaseBy time.Duration
		moves, stays      time.Duration // of a shard that moves, and of one that does not
	}{
		"nothing moves":                    {false, 0, 0, 0, never, never},
		"requests of what moves run":       {false, 3, 0, 0, never, never},
		"a shard moves":                    {false, 3, 0, 5, 5, never},
		"it has moved":                     {false, 0, 0, 5, never, never},
		"the node leaves":                  {true, 0, 7, 0, 7, 7},
		"requests of who leaves run":       {true, 0, 0, 0, never, never},
		"it leaves no more":                {false, 0, 7, 0, never, never},
		"it leaves, and what moves first":  {true, 3, 7, 5, 5, 7},
		"what moves, and it leaves first":  {true, 3, 5, 7, 5, 5},
		"it leaves, what moved has moved":  {true, 0, 7, 5, 7, 7},
		"it leaves, what moves still runs": {true, 3, 7, 0, 7, 7},
	} {
		s := newHookStage(t, 4)
		s.propose(membersOf("a", "b"))
		last := s.see.state.Proposed()
		m := newHookMachine(HookOptions{}, nodeProcess{node: "a"})
		m.setInputs(hookInputs{state: s.see.state, stopping: c.parting, drainingEpoch: c.draining})
		m.deadlines.goodbye, m.deadlines.release = c.partBy, c.releaseBy
		for sh := range shardmap.Shard(4) {
			want := c.stays
			if last.Owner(sh) != "a" {
				want = c.moves
			}
			if got := m.callDeadline(sh); got != want {
				t.Errorf("%s: %v for a shard of %s, want %v", name, got, last.Owner(sh), want)
			}
		}
	}
}

// Parts of release-timeout are reserved for lost calls and delivery. Each part is at least the
// poll delay of a busy machine, unless nothing would be left.
func TestReleaseTimeoutIsShared(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ timeout, lost, deliver time.Duration }{
		{8000 * ms, 1000 * ms, 500 * ms}, {4000 * ms, 500 * ms, 250 * ms}, {400 * ms, 100 * ms, 100 * ms}, {100 * ms, 50 * ms, 25 * ms},
	} {
		if lost, deliver := lostCallReserve(c.timeout), ack.NoteDeliveryTime(c.timeout); lost != c.lost || deliver != c.deliver {
			t.Errorf("of %v %v and %v are kept, want %v and %v", c.timeout, lost, deliver, c.lost, c.deliver)
		}
	}
}

// A node that pauses is dropped by one proposal and gets all its shards back by the next,
// before another node has served them. Its app keeps its state. It once got a call to drop
// it.
func TestBrieflyDroppedNodeReleasesNothing(t *testing.T) {
	for _, back := range []bool{true, false} {
		s, calls := droppedStage(t, ack.CauseSilent)
		if len(calls) > 0 {
			t.Fatalf("left out, the app is told %+v", calls)
		}
		s.answered(1, graceAnswers)
		s.see.drainingEpoch = 0
		if back {
			s.propose(membersOf("a"))
			s.see.hasLease, s.see.mayRelease, s.see.drainingEpoch = true, true, 0
			if calls := s.pollAfter(time.Minute); len(calls) > 0 {
				t.Fatalf("given back, the app is told %+v", calls)
			}
			for sh := range s.k.shards {
				if s.k.shards[sh].phase != HookServing {
					t.Errorf("shard %d is %s", sh, s.k.shards[sh].phase)
				}
			}
			continue
		}
		if calls := s.pollAfter(time.Minute); len(calls) > 0 {
			t.Fatalf("left out, and the leader is gone: the app is told %+v", calls)
		}
		s.answered(2, graceAnswers) // a new leader starts the grace period again
		s.answered(1, graceAnswers)
		s.k.handleAnswer(s.now, ack.Answer{Term: 2}, false)
		s.only(s.pollAfter(0), HookLost)
	}
}

// A node dropped for a missed round returns by acknowledging, so releases that need a lease do
// not wait. Otherwise the new owners of its shards would wait, too.
func TestDroppedForMissedRoundReleasesAtOnce(t *testing.T) {
	for _, cause := range []ack.DropCause{ack.CauseMissedAck, ack.CauseBehind} {
		s, calls := droppedStage(t, cause)
		s.only(calls, HookLost)
	}
}

// droppedStage returns the stage of a node without a lease that a proposal excludes, and the calls
// that follow at once.
func droppedStage(t *testing.T, cause ack.DropCause) (*hookStage, []HookCall) {
	t.Helper()
	s := newHookStage(t, 2)
	s.acquire()
	s.see.hasLease, s.see.mayRelease = false, false
	s.pollAfter(time.Second)
	s.answered(1, 2*graceAnswers) // without any lease, that is not when it begins
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}}, ack.DropRecord{Node: "a", Cause: cause, ConsecutiveDrops: 1})
	return s, s.pollAfter(time.Millisecond)
}

// answered sends answers of the leader of a term within releaseGrace, and checks that no call
// is made.
func (s *hookStage) answered(term uint64, times int) {
	s.t.Helper()
	for i := range times {
		s.k.handleAnswer(s.now, ack.Answer{Term: term}, false)
		if calls := s.pollAfter(releaseGrace / graceAnswers); len(calls) > 0 {
			s.t.Fatalf("at answer %d the app is told %+v", i+1, calls)
		}
	}
}
