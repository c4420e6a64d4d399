package agent

import (
	"testing"
	"time"

	"shardway/shardmap"
)

// moveToOtherNode moves shard 0 of node a to node b. It returns the release call.
func (s *hookStage) moveToOtherNode() HookCall {
	s.t.Helper()
	s.acquire()
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	return s.only(s.pollAfter(0), HookRelease)
}

// An app answers a release with "failed". The release is repeated until the release
// timeout, as after an error of the whole call.
func TestFailedReleaseIsRepeatedUntilTimeout(t *testing.T) {
	s := newHookStage(t, 1)
	c := s.moveToOtherNode()
	start, tries := s.now, 0
	for s.now < start+s.k.options.ReleaseTimeout {
		if c.Kind == HookRelease {
			tries++
			s.result(HookResult{Seq: c.Seq, Failed: map[shardmap.Shard]string{0: "disk full"}})
		}
		c = HookCall{}
		if calls := s.pollAfter(50 * time.Millisecond); len(calls) > 0 {
			c = calls[0]
		}
		if c.Kind == HookLost {
			break
		}
	}
	if took := s.now - start; tries < 4 || took < 3*time.Second || c.Kind != HookLost {
		t.Errorf("%d attempts within %v, then %s; want at least 4 within 3 s, and then lost", tries, took, c.Kind)
	}
	if e := s.ends[0]; e.Result != ReleaseFailed || e.Reason != "disk full" || e.To != "b" || e.Epoch == 0 {
		t.Errorf("the release ended as %+v", e)
	}
	if h := s.k.shards[0]; h.released {
		t.Error("a shard whose release failed counts as released")
	}
}

// A release succeeds after failures: the shard moves released.
func TestReleaseSucceedsAfterFailure(t *testing.T) {
	s := newHookStage(t, 1)
	c := s.moveToOtherNode()
	s.result(HookResult{Seq: c.Seq, Failed: map[shardmap.Shard]string{0: "not yet"}})
	s.pollAfter(0)
	c = s.only(s.pollAfter(minRetryPause), HookRelease)
	s.result(HookResult{Seq: c.Seq, Notes: map[shardmap.Shard][]byte{0: []byte("there")}})
	s.pollAfter(0)
	if e := s.ends[0]; e.Result != ReleaseOK || e.Reason != "" {
		t.Errorf("the release ended as %+v", e)
	}
	if h := s.k.shards[0]; !h.released || string(h.note) != "there" || !s.k.movesReleased(s.now, s.mayRun) {
		t.Errorf("%+v, want it released with its note, and settled", h)
	}
}

// An app that does not answer a release is late, not failed.
func TestReleaseThatIsNotAnsweredIsLate(t *testing.T) {
	s := newHookStage(t, 1)
	c := s.moveToOtherNode()
	for range 3 {
		for _, x := range s.pollAfter(c.Timeout) {
			c = x
		}
		if n := len(s.app.cut); n > 0 && c.Kind == HookRelease {
			s.result(HookResult{Seq: c.Seq, Err: errHook})
			s.app.cut = nil
		}
	}
	s.pollAfter(0)
	if e := s.ends[0]; e.Result != ReleaseLate || e.Reason == "" {
		t.Errorf("the release ended as %+v, want late with a reason", e)
	}
}

// The app refuses the connection: the shard moves at once, and its release has failed.
func TestReleaseThatIsRefusedHasFailed(t *testing.T) {
	s := newHookStage(t, 1)
	c := s.moveToOtherNode()
	s.result(HookResult{Seq: c.Seq, Err: errHook, Refused: true})
	s.pollAfter(0)
	if e := s.ends[0]; e.Result != ReleaseFailed || !s.k.movesReleased(s.now, s.mayRun) {
		t.Errorf("the release ended as %+v, want failed and settled", e)
	}
}

// A shard that the app does not hold moves at once. The next owner gets no note, because the
// app may have lost the state in a crash.
func TestShardAbsentAtAppMovesAtOnceWithoutNote(t *testing.T) {
	s := newHookStage(t, 1)
	c := s.moveToOtherNode()
	s.result(HookResult{Seq: c.Seq, Absent: map[shardmap.Shard]bool{0: true}, Notes: map[shardmap.Shard][]byte{0: []byte("x")}})
	if calls := s.pollAfter(0); len(calls) > 0 {
		t.Errorf("the app does not hold the shard, and is told %+v", calls)
	}
	if e := s.ends[0]; e.Result != ReleaseOK || !s.k.movesReleased(s.now, s.mayRun) {
		t.Errorf("the release ended as %+v, want ok and settled", e)
	}
	s.k.prepareReleases(s.now, s.see.drainingEpoch)
	if s.k.delivery.releases != nil {
		t.Errorf("the leader is told %+v, want nothing", s.k.delivery.releases)
	}
}
