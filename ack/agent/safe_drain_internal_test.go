package agent

import (
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// drainSafely starts a safe drain of node a with a release timeout.
func (s *hookStage) drainSafely(release time.Duration) {
	s.t.Helper()
	s.entry(ack.EncodePolicyChange(ack.MinFormatVersion, ack.PolicyEntry{Term: 1, Changes: []ack.Change{{Kind: ack.ChangeDrain, Node: "a", SafeDrain: true, ReleaseTimeout: release}}}))
}

// Under a safe drain, a shard whose release failed stays, however long the proposal is open.
// The next proposal leaves it at the node, and the app acquires it again.
func TestSafeDrainKeepsUnreleasedShard(t *testing.T) {
	s := newHookStage(t, 2)
	s.acquire()
	s.drainSafely(2 * time.Second)
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	for range 100 {
		for _, c := range s.pollAfter(100 * time.Millisecond) {
			if c.Kind != HookRelease {
				t.Fatalf("the app is told %s", c.Kind)
			}
			s.result(HookResult{Seq: c.Seq, Failed: map[shardmap.Shard]string{0: "disk full"}})
		}
	}
	if s.k.movesReleased(s.now, s.mayRun) || len(s.k.safeDrain.keptShards) != 1 || s.k.safeDrain.keptShards[0] != "disk full" {
		t.Fatalf("settled, or %v is kept, want shard 0", s.k.safeDrain.keptShards)
	}
	if e := s.ends[0]; !e.Kept || e.Result != ReleaseFailed || s.ends[1].Result != ReleaseOK || len(s.k.releaseEnds.unreleasedMoves) > 0 {
		t.Errorf("releases ended as %+v", s.ends)
	}
	c := s.see.state.Committed()
	b, err := ack.EncodeProposal(ack.MinFormatVersion, ack.ProposalEntry{Term: 1, Base: c.Epoch(), Want: shardmap.Assign(c, membersOf("a", "b"), shardmap.Policy{Pins: map[shardmap.Shard]shardmap.Pin{0: {Node: "a"}, 1: {Node: "b"}}})})
	if err != nil {
		t.Fatal(err)
	}
	s.entry(b)
	s.see.drainingEpoch = s.see.state.Proposed().Epoch()
	call := s.only(s.pollAfter(0), HookAcquire)
	if call.Shards[0].Shard != 0 || !call.Shards[0].Again || !s.k.movesReleased(s.now, s.mayRun) {
		t.Errorf("%+v, want shard 0 acquired again, and the proposal settled", call)
	}
	s.drainSafely(0)
	if s.pollAfter(0); len(s.k.safeDrain.keptShards) > 0 {
		t.Errorf("%v is kept by an earlier drain", s.k.safeDrain.keptShards)
	}
}

// A drain may give the app more time to release, and each attempt half of that.
func TestDrainSetsReleaseTimeout(t *testing.T) {
	s := newHookStage(t, 1)
	s.acquire()
	s.drainSafely(20 * time.Second)
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	if c := s.only(s.pollAfter(0), HookRelease); c.Timeout != 10*time.Second {
		t.Errorf("an attempt may take %v, want 10s", c.Timeout)
	}
	if got := s.k.deadlines.timeout(); got != 20*time.Second {
		t.Errorf("the release timeout is %v, want 20s", got)
	}
	s.see.stopping = true
	if s.pollAfter(0); s.k.deadlines.timeout() != s.k.options.ReleaseTimeout {
		t.Errorf("a node that stops has %v, want its own %v", s.k.deadlines.timeout(), s.k.options.ReleaseTimeout)
	}
}

// A shard that a safe drain keeps gets no release call in the time that is reserved for lost
// calls. Such a call would have no time left.
func TestKeptShardIsNotReleasedInReserve(t *testing.T) {
	s := newHookStage(t, 1)
	s.acquire()
	s.drainSafely(2 * time.Second)
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	call := s.only(s.pollAfter(0), HookRelease)
	for range 30 {
		calls := s.pollAfter(100 * time.Millisecond)
		if slices.Contains(s.app.cut, call.Seq) {
			s.app.cut = nil
			s.result(HookResult{Seq: call.Seq, Err: errHook})
			calls = append(calls, s.pollAfter(0)...)
		}
		if len(calls) > 0 {
			t.Fatalf("%+v, want no further call", calls)
		}
	}
	if len(s.k.safeDrain.keptShards) != 1 {
		t.Errorf("%v is kept, want shard 0", s.k.safeDrain.keptShards)
	}
}

// If a safe drain is cancelled while a proposal takes a kept shard, the app gets another call about the
// shard before the acknowledgement.
func TestCancelledSafeDrainReleasesKeptShard(t *testing.T) {
	s := newHookStage(t, 1)
	s.acquire()
	s.drainSafely(2 * time.Second)
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	for range 30 {
		for _, c := range s.pollAfter(100 * time.Millisecond) {
			s.result(HookResult{Seq: c.Seq, Failed: map[shardmap.Shard]string{0: "disk full"}})
		}
	}
	if len(s.k.safeDrain.keptShards) != 1 {
		t.Fatalf("%v is kept, want shard 0", s.k.safeDrain.keptShards)
	}
	s.entry(ack.EncodePolicyChange(ack.MinFormatVersion, ack.PolicyEntry{Term: 1, Changes: []ack.Change{{Kind: ack.ChangeUncordon, Node: "a"}}}))
	call := s.only(s.pollAfter(0), HookRelease)
	if s.k.movesReleased(s.now, s.mayRun) {
		t.Error("the proposal is acknowledged during the call")
	}
	s.result(HookResult{Seq: call.Seq})
	if s.pollAfter(0); !s.k.movesReleased(s.now, s.mayRun) {
		t.Error("the proposal is not acknowledged after the release")
	}
}

// If the leader takes a kept shard without an acknowledgement, the time for releases is over. The app must
// get the lost call before the acknowledgement anyway.
func TestTakenShardOfSafeDrainGetsLostCall(t *testing.T) {
	s := newHookStage(t, 1)
	s.acquire()
	s.drainSafely(2 * time.Second)
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	for range 30 {
		for _, c := range s.pollAfter(100 * time.Millisecond) {
			s.result(HookResult{Seq: c.Seq, Failed: map[shardmap.Shard]string{0: "disk full"}})
		}
	}
	if len(s.k.safeDrain.keptShards) != 1 || s.k.movesReleased(s.now, s.mayRun) {
		t.Fatalf("%v is kept, want shard 0", s.k.safeDrain.keptShards)
	}
	unacknowledged := s.see.drainingEpoch
	s.commit()
	s.see.drainingEpoch = unacknowledged
	call := s.only(s.pollAfter(0), HookLost)
	if s.k.movesReleased(s.now, s.mayRun) {
		t.Error("the proposal is acknowledged during the call")
	}
	s.result(HookResult{Seq: call.Seq})
	if s.pollAfter(0); !s.k.movesReleased(s.now, s.mayRun) || len(s.k.safeDrain.keptShards) > 0 {
		t.Errorf("not acknowledged after the call, or %v is kept", s.k.safeDrain.keptShards)
	}
}
