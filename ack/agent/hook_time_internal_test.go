package agent

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// A node that is dropped a second time gets the full grace period again.
func TestNodeDroppedAgainGetsTheFullGracePeriod(t *testing.T) {
	s := newHookStage(t, 2)
	s.acquire()
	for range 2 {
		s.see.hasLease, s.see.mayRelease = false, false
		s.propose([]shardmap.Member{{ID: "b", Weight: 1}}, ack.DropRecord{Node: "a", Cause: ack.CauseSilent, ConsecutiveDrops: 1})
		s.pollAfter(0)
		if calls := s.pollAfter(releaseGrace - 1); len(calls) > 0 {
			t.Fatalf("left out for less than %v, the app is told %+v", releaseGrace, calls)
		}
		s.propose(membersOf("a"))
		s.see.hasLease, s.see.mayRelease, s.see.drainingEpoch = true, true, 0
		if calls := s.pollAfter(0); len(calls) > 0 {
			t.Fatalf("given back, the app is told %+v", calls)
		}
	}
}

// A node without a lease that is neither dropped nor stops may get a lease at any time.
func TestReleaseWaitsForALeaseThatMayCome(t *testing.T) {
	s := newHookStage(t, 1)
	s.acquire()
	s.app.busy = 1 // elsewhere requests run, so that no deadline is set
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	s.see.hasLease, s.see.mayRelease = false, false
	for range 3 {
		s.now += releaseGrace
		s.k.update(s.now, s.see, func() {})
	}
	if h := s.k.shards[0]; h.phase != HookReleasing {
		t.Errorf("without a lease for %v it is %s, want releasing", 3*releaseGrace, h.phase)
	}
}

// If a node stops while some of its shards move, the moving shards have less time. A call that
// names both kinds has the earlier deadline, in any order of the shards.
func TestCallDeadlineIsThatOfItsMostUrgentShard(t *testing.T) {
	s := newHookStage(t, 4)
	s.acquire()
	s.propose(membersOf("a", "b"))
	var moves, stays shardmap.Shard
	for sh := range shardmap.Shard(4) {
		if s.mayRun(sh) {
			stays = sh
		} else {
			moves = sh
		}
	}
	inputs := s.see
	inputs.stopping = true
	s.k.setInputs(inputs)
	s.k.deadlines.release, s.k.deadlines.goodbye = s.now+time.Second, s.now+time.Minute
	for _, shards := range [][]shardmap.Shard{{moves, stays}, {stays, moves}} {
		for kind, want := range map[HookKind]time.Duration{HookRelease: time.Second - s.k.deadlines.lostCallReserve(), HookLost: time.Second} {
			s.k.startCall(s.now, kind, 0, shards)
			if calls := s.app.take(); len(calls) != 1 || calls[0].Timeout != want {
				t.Errorf("%s of %v: %+v, want %v for it", kind, shards, calls, want)
			}
		}
	}
}

// An attempt takes up to release-timeout and maxAttempt, also while no acknowledgement waits
// for it.
func TestAttemptsAreBounded(t *testing.T) {
	for _, c := range []struct{ timeout, want time.Duration }{{time.Second, time.Second}, {maxAttempt, maxAttempt}, {time.Minute, maxAttempt}} {
		s := newHookStage(t, 1)
		s.acquire()
		s.k.deadlines.ownTimeout = c.timeout
		for _, kind := range []HookKind{HookRelease, HookLost} {
			s.k.startCall(s.now, kind, 0, []shardmap.Shard{0})
			if calls := s.app.take(); len(calls) != 1 || calls[0].Timeout != c.want {
				t.Errorf("of release-timeout %v a %s has %+v, want %v", c.timeout, kind, calls, c.want)
			}
		}
	}
}

// If the next release attempt is due after the deadline, the lost call follows when its
// reserved time begins.
func TestShardWaitingForReleaseRetryIsLostInTime(t *testing.T) {
	t.Run("it moves", func(t *testing.T) {
		s := newHookStage(t, 1)
		s.acquire()
		s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
		s.result(HookResult{Seq: s.only(s.pollAfter(0), HookRelease).Seq, Err: errHook})
		s.pollAfter(0)
		s.lostInTime(s.k.deadlines.release)
	})
	t.Run("its node leaves", func(t *testing.T) {
		s := newHookStage(t, 1)
		s.acquire()
		s.see.stopping = true
		release := s.only(s.pollAfter(0), HookRelease)
		s.k.readyToStop(s.now, 0)
		s.result(HookResult{Seq: release.Seq, Err: errHook})
		s.pollAfter(0)
		s.lostInTime(s.k.deadlines.goodbye)
	})
}

// lostInTime updates the machine just before the time reserved for a lost call begins, and
// then at its begin. The next release attempt is due later.
func (s *hookStage) lostInTime(by time.Duration) {
	s.t.Helper()
	s.k.shards[0].nextAttempt = s.now + time.Hour
	s.pollAfter(0)
	last := by - s.k.deadlines.lostCallReserve()
	if calls := s.pollAfter(last - 1 - s.now); len(calls) > 0 {
		s.t.Fatalf("%v before its time is over, the app is told %+v", by-s.now, calls)
	}
	s.only(s.pollAfter(1), HookLost)
}

// A call that began before its deadline was known is cancelled at the deadline.
func TestCallsAreCancelledAtTheirTimeout(t *testing.T) {
	for name, leaves := range map[string]bool{"they move": false, "their node leaves": true} {
		t.Run(name, func(t *testing.T) {
			s := newHookStage(t, 1)
			s.acquire()
			by := s.now + time.Second
			if leaves {
				s.see.stopping, s.k.deadlines.goodbye = true, by
			} else {
				s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
				s.k.deadlines.drainEpoch, s.k.deadlines.release = s.see.drainingEpoch, by
			}
			s.k.shards[0].abandon(s.now)
			lost := s.only(s.pollAfter(0), HookLost)
			s.k.calls.bySeq[lost.Seq].deadline = by + time.Hour // as of one from before
			s.pollAfter(by - 1 - s.now)
			s.wantCut("there is time")
			s.pollAfter(1)
			s.wantCut("there is none", lost.Seq)
		})
	}
}

// The restart index of one leader remains until it is applied here, regardless of refusals and
// of leaders with a lower one. A new boot keeps it.
func TestRestartIndexIsNotForgotten(t *testing.T) {
	s := newHookStage(t, 1)
	after := s.nextProcessWithOldLog()
	s.k.handleAnswer(s.now, ack.Answer{}, false)
	s.k.reboot(8)
	if calls := s.pollAfter(time.Minute); len(calls) > 0 {
		t.Fatalf("with a log that ends before the absence, %+v", calls)
	}
	s.see.state = after
	if c := s.only(s.pollAfter(0), HookAcquire); !c.Shards[0].Released {
		t.Errorf("acquires %+v, want it as released", c.Shards[0])
	}
}
