package agent

import (
	"errors"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// appStub records the calls to an app.
type appStub struct {
	calls []HookCall
	cut   []uint64
	busy  int
}

func (a *appStub) StartCall(c HookCall)             { a.calls = append(a.calls, c) }
func (a *appStub) CancelCall(seq uint64)            { a.cut = append(a.cut, seq) }
func (a *appStub) CountRequests(shardmap.Shard) int { return a.busy }

// take returns the calls since the last take.
func (a *appStub) take() []HookCall {
	c := a.calls
	a.calls = nil
	return c
}

// hookStage is a hook machine, its app, and the log of a cluster of a, b and c.
type hookStage struct {
	t    *testing.T
	app  *appStub
	k    *hookMachine
	now  time.Duration
	see  hookInputs
	got  []ack.Releases // delivered releases
	ends map[shardmap.Shard]ReleaseEnd
}

func (s *hookStage) ended(e ReleaseEnd) {
	if was, twice := s.ends[e.Shard]; twice && !was.Kept { // a kept shard can be released later
		s.t.Errorf("shard %d ended as %+v and %+v", e.Shard, was, e)
	}
	s.ends[e.Shard] = e
}

func (s *hookStage) deliver(r ack.Releases) { s.got = append(s.got, r) }

// newHookStage returns the hook machine of node a, which owns all of the given number of
// shards.
func newHookStage(t *testing.T, shards int) *hookStage {
	t.Helper()
	s := &hookStage{t: t, app: &appStub{}, now: time.Hour}
	s.ends = map[shardmap.Shard]ReleaseEnd{}
	s.k = newHookMachine(HookOptions{App: s.app, SendReleases: s.deliver, ReleaseEnded: s.ended, ReleaseTimeout: 4 * time.Second, AcquireTimeout: time.Minute}, nodeProcess{node: "a", server: "a/1", boot: 7})
	s.see = hookInputs{state: ack.NewState(), hasLease: true, mayRelease: true}
	s.entry(ack.EncodeBootstrap("c1", shards, ack.DefaultTiming()))
	s.propose(membersOf("a"))
	s.commit()
	return s
}

func (s *hookStage) entry(b []byte) {
	s.t.Helper()
	next, outcome, err := s.see.state.Apply(s.see.state.Index()+1, 1, b)
	if err != nil || outcome == ack.OutcomeIgnored {
		s.t.Fatalf("outcome %d, %v", outcome, err)
	}
	s.see.state = next
}

// propose appends a proposal with the members; the node drains for it.
func (s *hookStage) propose(members []shardmap.Member, drops ...ack.DropRecord) {
	s.t.Helper()
	c := s.see.state.Committed()
	b, err := ack.EncodeProposal(ack.MinFormatVersion, ack.ProposalEntry{Term: 1, Base: c.Epoch(), Want: shardmap.Assign(c, members, shardmap.Policy{}), Drops: drops})
	if err != nil {
		s.t.Fatal(err)
	}
	s.entry(b)
	s.see.drainingEpoch = s.see.state.Proposed().Epoch()
}

func (s *hookStage) commit() {
	s.t.Helper()
	last := s.see.state.Proposed()
	s.entry(ack.EncodeCommit(ack.MinFormatVersion, ack.CommitEntry{Epoch: last.Epoch(), Digest: last.Digest()}))
	s.see.drainingEpoch = 0
}

// pollAfter advances the time, updates the machine, and returns the calls.
func (s *hookStage) pollAfter(later time.Duration) []HookCall {
	s.now += later
	s.k.update(s.now, s.see, func() {})
	if s.see.drainingEpoch != 0 {
		s.k.movesReleased(s.now, s.mayRun)
		s.k.update(s.now, s.see, func() {})
	}
	return s.app.take()
}

func (s *hookStage) mayRun(sh shardmap.Shard) bool { return s.see.state.Proposed().Owner(sh) == "a" }

func (s *hookStage) result(r HookResult) {
	s.k.pendingResults, s.k.inputsChanged = append(s.k.pendingResults, r), true
}

// acquire makes the app acquire every shard.
func (s *hookStage) acquire() {
	s.t.Helper()
	for _, c := range s.pollAfter(0) {
		s.result(HookResult{Seq: c.Seq})
	}
	s.pollAfter(0)
	for sh := range s.k.shards {
		if s.k.shards[sh].phase != HookServing {
			s.t.Fatalf("shard %d is %s", sh, s.k.shards[sh].phase)
		}
	}
}

var errHook = errors.New("no answer")

// A call names up to 256 shards. If one of them hangs, it must not delay the others for long,
// so the next calls are smaller.
func TestUnansweredCallsAreSplit(t *testing.T) {
	s := newHookStage(t, 512)
	for _, want := range []struct{ calls, most, named int }{{2, 256, 512}, {32, 16, 512}, {64, 1, 64}} {
		calls := s.pollAfter(time.Hour)
		named, most := 0, 0
		for _, c := range calls {
			named += len(c.Shards)
			most = max(most, len(c.Shards))
			s.result(HookResult{Seq: c.Seq, Err: errHook})
		}
		if len(calls) != want.calls || most != want.most || named != want.named {
			t.Errorf("%d calls of at most %d shards name %d, want %+v", len(calls), most, named, want)
		}
		s.pollAfter(0)
	}
}

// An app failed each acquire call of 2,048 shards after one second. The node once had 1,195
// calls running at the same time, each with its connection, and lost its lease.
func TestCallsOfOneKindTakeTurns(t *testing.T) {
	s := newHookStage(t, 1024)
	for range 2 {
		for _, c := range s.pollAfter(time.Hour) {
			s.result(HookResult{Seq: c.Seq, Err: errHook})
		}
		s.pollAfter(0)
	}
	named := map[shardmap.Shard]int{}
	calls := s.pollAfter(time.Hour)
	for range 1024 / MaxHookCalls {
		if more := s.pollAfter(time.Second); len(calls) != MaxHookCalls || len(more) > 0 {
			t.Fatalf("%d calls are under way, and then %d more", len(calls), len(more))
		}
		for _, c := range calls {
			named[c.Shards[0].Shard]++
			s.result(HookResult{Seq: c.Seq, Err: errHook})
		}
		calls = s.pollAfter(10 * time.Second) // who failed before the last is due again
	}
	for sh := range shardmap.Shard(1024) {
		if named[sh] != 1 {
			t.Fatalf("shard %d was named %d times in a round", sh, named[sh])
		}
	}
}

// Acquire calls that hang do not delay releases, which have little time.
func TestNoKindOfCallWaitsForAnother(t *testing.T) {
	s := newHookStage(t, 128)
	s.acquire()
	for sh := range shardmap.Shard(100) {
		s.k.reportedNotAcquired, s.k.inputsChanged = append(s.k.reportedNotAcquired, shardEpoch{sh, s.k.shards[sh].epoch}), true
	}
	for range 2 {
		for _, c := range s.pollAfter(time.Hour) {
			s.result(HookResult{Seq: c.Seq, Err: errHook})
		}
		s.pollAfter(0)
	}
	if calls := s.pollAfter(10 * time.Second); len(calls) != MaxHookCalls || calls[0].Kind != HookAcquire {
		t.Fatalf("%d calls are made", len(calls))
	}
	s.propose(membersOf("a", "b", "c"))
	released := 0
	for _, c := range s.pollAfter(0) {
		if c.Kind == HookRelease {
			released += len(c.Shards)
		}
	}
	if released == 0 {
		t.Error("nothing is released while acquires hang")
	}
}

// A failed acquire call is retried as long as the node owns the shard, with growing pauses.
func TestAcquireIsRepeatedWithPauses(t *testing.T) {
	s := newHookStage(t, 3)
	var pauses []time.Duration
	for range 7 {
		calls := s.pollAfter(0)
		if len(calls) != 1 {
			t.Fatalf("%d calls", len(calls))
		}
		failed := map[shardmap.Shard]string{}
		for _, hs := range calls[0].Shards {
			failed[hs.Shard] = "no"
		}
		s.result(HookResult{Seq: calls[0].Seq, Failed: failed})
		if got := s.pollAfter(0); len(got) > 0 {
			t.Fatalf("called again at once: %v", got)
		}
		due := s.k.shards[0].nextAttempt
		pauses = append(pauses, due-s.now)
		s.now = due
	}
	want := []int64{100, 200, 400, 800, 1600, 2000, 2000}
	for i, p := range pauses {
		if p.Milliseconds() != want[i] {
			t.Errorf("pause %d is %v, want %d ms", i, p, want[i])
		}
	}
	if held := s.k.shards[0]; held.lastError != "no" {
		t.Errorf("the last error is %q", held.lastError)
	}
}

// An app that is down has nothing to release: a refused connection ends the release at once.
func TestRefusedConnectionEndsARelease(t *testing.T) {
	s := newHookStage(t, 4)
	s.acquire()
	s.propose(membersOf("a", "b"))
	calls := s.pollAfter(0)
	if len(calls) != 1 || calls[0].Kind != HookRelease || calls[0].Shards[0].To != "b" || calls[0].Timeout != 2*time.Second {
		t.Fatalf("%+v", calls)
	}
	if s.k.movesReleased(s.now, s.mayRun) {
		t.Error("settled while the release is under way")
	}
	s.result(HookResult{Seq: calls[0].Seq, Err: errHook, Refused: true})
	if calls := s.pollAfter(0); len(calls) > 0 || !s.k.movesReleased(s.now, s.mayRun) {
		t.Errorf("called again: %+v", calls)
	}
}

// A release call without a response is retried within release-timeout. Then a lost call
// follows, and the acknowledgement waits no longer.
func TestReleaseEndsInTime(t *testing.T) {
	s := newHookStage(t, 4)
	s.acquire()
	s.propose(membersOf("a", "b"))
	began := s.now
	var kinds []HookKind
	calls := s.pollAfter(0)
	for ; s.now-began < s.k.options.ReleaseTimeout-s.k.deadlines.deliveryReserve(); calls = s.pollAfter(10 * time.Millisecond) {
		for _, c := range calls {
			kinds = append(kinds, c.Kind)
		}
		if s.k.movesReleased(s.now, s.mayRun) {
			t.Fatalf("settled after %v", s.now-began)
		}
		for _, seq := range s.app.cut { // it hangs
			s.result(HookResult{Seq: seq, Err: errHook})
		}
		s.app.cut = nil
	}
	for _, seq := range s.app.cut {
		s.result(HookResult{Seq: seq, Err: errHook})
	}
	s.pollAfter(0)
	if !s.k.movesReleased(s.now, s.mayRun) {
		t.Error("not settled after release-timeout")
	}
	if n := len(kinds); n < 3 || kinds[0] != HookRelease || kinds[1] != HookRelease || kinds[n-1] != HookLost {
		t.Errorf("it was told %v", kinds)
	}
}

// A shard that comes back before its release call was sent is served at once. A shard that was
// or may have been released is acquired first, under the same epoch (rule 6).
func TestReleaseRevertedByTheLog(t *testing.T) {
	s := newHookStage(t, 4)
	s.acquire()
	s.app.busy = 1
	s.propose(membersOf("a", "b"))
	if calls := s.pollAfter(0); len(calls) > 0 {
		t.Fatalf("called while requests run: %+v", calls)
	}
	s.propose(membersOf("a"))
	if calls := s.pollAfter(0); len(calls) > 0 || s.k.shards[0].phase != HookServing || s.k.shards[3].phase != HookServing {
		t.Fatalf("%+v, %s and %s", calls, s.k.shards[0].phase, s.k.shards[3].phase)
	}
	s.app.busy = 0
	s.propose(membersOf("a", "b"))
	calls := s.pollAfter(0)
	if len(calls) != 1 || calls[0].Kind != HookRelease {
		t.Fatalf("%+v", calls)
	}
	s.result(HookResult{Seq: calls[0].Seq, Failed: map[shardmap.Shard]string{calls[0].Shards[1].Shard: "no"}})
	s.propose(membersOf("a"))
	again := s.pollAfter(0)
	if len(again) != 1 || again[0].Kind != HookAcquire || len(again[0].Shards) != 2 || again[0].Shards[0].Epoch != calls[0].Shards[0].Epoch || !again[0].Shards[1].Again {
		t.Fatalf("%+v", again)
	}
}

// A shard acquired without a lease serves with the next lease, without another acquire call,
// because no other node can have owned it under this epoch. After a restart of all nodes on a
// busy machine, leases come and go several times a second, and each used to repeat a slow
// acquire call.
func TestSuccessWithoutALeaseCountsWithTheNext(t *testing.T) {
	s := newHookStage(t, 2)
	calls := s.pollAfter(0)
	s.see.hasLease, s.see.mayRelease = false, false
	s.result(HookResult{Seq: calls[0].Seq, Failed: map[shardmap.Shard]string{1: "no"}})
	if early := s.pollAfter(time.Second); len(early) > 0 || s.k.shards[0].servingEpoch() != 0 {
		t.Fatalf("without a lease: %+v, %s", early, s.k.shards[0].phase)
	}
	s.see.hasLease, s.see.mayRelease = true, true
	calls = s.pollAfter(time.Second)
	if len(calls) != 1 || len(calls[0].Shards) != 1 || calls[0].Shards[0].Shard != 1 || s.k.shards[0].phase != HookServing {
		t.Fatalf("with a lease again: %+v, %s", calls, s.k.shards[0].phase)
	}
}

// A shard that has moved when the lease is back gets a lost call, and is acquired again under
// a later epoch.
func TestSuccessWithoutALeaseEndsWithTheShard(t *testing.T) {
	s := newHookStage(t, 2)
	calls := s.pollAfter(0)
	s.see.hasLease, s.see.mayRelease = false, false
	s.result(HookResult{Seq: calls[0].Seq})
	s.pollAfter(0)
	s.propose([]shardmap.Member{{ID: "b", Weight: 1}})
	if calls := s.pollAfter(0); len(calls) != 1 || calls[0].Kind != HookLost || len(calls[0].Shards) != 2 {
		t.Fatalf("%+v", calls)
	} else {
		s.result(HookResult{Seq: calls[0].Seq})
	}
	s.commit()
	s.pollAfter(0)
	s.see.hasLease, s.see.mayRelease = true, true
	if calls := s.pollAfter(0); len(calls) != 0 {
		t.Fatalf("%+v", calls)
	}
	s.propose([]shardmap.Member{{ID: "a", Weight: 1}})
	s.commit()
	if calls := s.pollAfter(0); len(calls) != 1 || calls[0].Kind != HookAcquire || len(calls[0].Shards) != 2 || s.k.shards[0].servingEpoch() != 0 {
		t.Fatalf("%+v, %s", calls, s.k.shards[0].phase)
	}
}

// A new boot waits for running calls. Another process may have served the same shards under
// the same epochs, so the app acquires all of them again.
func TestNewBootAcquiresAgain(t *testing.T) {
	s := newHookStage(t, 2)
	s.acquire()
	s.k.reportedNotAcquired, s.k.inputsChanged = append(s.k.reportedNotAcquired, shardEpoch{1, s.k.shards[1].epoch}), true
	calls := s.pollAfter(0)
	if len(calls) != 1 || len(calls[0].Shards) != 1 || !calls[0].Shards[0].Again {
		t.Fatalf("%+v", calls)
	}
	if s.k.stopCalls() || len(s.app.cut) != 1 {
		t.Error("ended while a call is under way")
	}
	s.result(HookResult{Seq: calls[0].Seq, Err: errHook})
	if !s.k.stopCalls() {
		t.Error("not ended")
	}
	s.k.reboot(9)
	again := s.pollAfter(0)
	if len(again) != 1 || len(again[0].Shards) != 2 || !again[0].Shards[0].Again || again[0].Seq <= calls[0].Seq {
		t.Fatalf("%+v", again)
	}
	for _, e := range s.k.acquired {
		if e != 0 {
			t.Error("a shard serves that was not acquired again")
		}
	}
}
