package agent

import (
	"slices"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// drainingOwner is a Follower of node b, which owns shards in a committed map, and proposals that
// take some of them.
type drainingOwner struct {
	*testLog
	f     *Follower
	owned []shardmap.Shard
}

func newDrainingOwner(t *testing.T) *drainingOwner {
	t.Helper()
	d := &drainingOwner{testLog: newTestLog(t, 12), f: NewFollower("b", 5*time.Second)}
	d.commitOwners("a", "b")
	d.owned = slices.Collect(d.state.Committed().Shards("b"))
	d.f.ApplyState(0, d.state)
	d.f.RecordDrained(d.state.Proposed().Epoch())
	return d
}

// propose replaces the open proposal by one that moves exactly these shards of b.
func (d *drainingOwner) propose(now time.Duration, moving ...shardmap.Shard) {
	d.t.Helper()
	p := shardmap.Policy{Drained: map[shardmap.NodeID]bool{"b": true}, KeptShards: map[shardmap.Shard]bool{}}
	for _, s := range d.owned {
		p.KeptShards[s] = !slices.Contains(moving, s)
	}
	base := d.state.Committed()
	entry, err := ack.EncodeProposal(ack.MinFormatVersion, ack.ProposalEntry{Term: 1, Base: base.Epoch(), Want: shardmap.Assign(base, membersOf("a", "b"), p)})
	if err != nil {
		d.t.Fatal(err)
	}
	d.apply(entry, ack.OutcomeProposed)
	if got := len(shardmap.Diff(base, d.state.Proposed())); got != len(moving) {
		d.t.Fatalf("the proposal moves %d shards, want %v", got, moving)
	}
	if !d.f.ApplyState(now, d.state) {
		d.t.Fatal("nothing to drain for a new proposal")
	}
}

// wantCut checks that AbortDue is true at exactly this time, and which shards are overdue then.
func (d *drainingOwner) wantCut(at time.Duration, overdue ...shardmap.Shard) {
	d.t.Helper()
	if d.f.AbortDue(at - time.Millisecond) {
		d.t.Errorf("cut before %v", at)
	}
	if !d.f.AbortDue(at) || d.f.AbortDue(at+time.Millisecond) {
		d.t.Errorf("not cut at %v, or twice", at)
	}
	for s := range shardmap.Shard(d.state.Shards()) {
		want := slices.Contains(overdue, s)
		if !slices.Contains(d.owned, s) {
			continue // no request for it runs here
		}
		if got := d.f.IsOverdue(at, s); got != want {
			d.t.Errorf("at %v shard %d is overdue: %v, want %v", at, s, got, want)
		}
	}
}

func TestReplacedProposalDoesNotProlongTheDrain(t *testing.T) {
	d := newDrainingOwner(t)
	x, y := d.owned[0], d.owned[1]
	d.propose(0, x)
	d.propose(4*time.Second, x, y)
	d.wantCut(5*time.Second, x)
	d.wantCut(9*time.Second, x, y)
	if !d.f.RecordDrained(d.state.Proposed().Epoch()) || d.f.AbortDue(time.Hour) || d.f.IsOverdue(time.Hour, x) {
		t.Error("draining continues after the acknowledgement")
	}
}

func TestFlappingTargetDoesNotProlongTheDrain(t *testing.T) {
	d := newDrainingOwner(t)
	x, y := d.owned[0], d.owned[1]
	d.propose(0, x)
	for i := range 4 { // y is taken and left again and again
		d.propose(time.Duration(2*i+1)*time.Second, x, y)
		d.propose(time.Duration(2*i+2)*time.Second, x)
	}
	if !d.f.AbortDue(8*time.Second) || !d.f.IsOverdue(8*time.Second, x) || d.f.IsOverdue(8*time.Second, y) {
		t.Error("x is not cut, or y is")
	}
}

func TestShardThatStayedMeanwhileHasTheWholeTimeAgain(t *testing.T) {
	d := newDrainingOwner(t)
	x, y := d.owned[0], d.owned[1]
	d.propose(0, x, y)
	d.propose(2*time.Second, y)
	d.propose(3*time.Second, x, y)
	d.wantCut(5*time.Second, y)
	d.wantCut(8*time.Second, x, y)
}

func TestDrainAfterAnAcknowledgementHasTheWholeTime(t *testing.T) {
	d := newDrainingOwner(t)
	x := d.owned[0]
	d.propose(0, x)
	d.f.RecordDrained(d.state.Proposed().Epoch())
	d.propose(3*time.Second, x)
	d.wantCut(8*time.Second, x)
}

func TestFollowerAcknowledgesAfterDrain(t *testing.T) {
	log := newTestLog(t, 12)
	log.commitOwners("a", "b")
	s := log.state
	log.propose("a")
	open := log.state
	f := NewFollower("b", ack.DefaultPace().DrainTimeout)
	if f.Acked() != 0 || f.Draining() != 0 || f.RecordDrained(0) {
		t.Error("something to acknowledge before the first state")
	}
	if f.ApplyState(0, ack.NewState()) {
		t.Error("something to drain for without a map")
	}
	// A new boot acknowledges what is committed already (reason 13).
	if !f.ApplyState(0, s) || f.Draining() != s.Committed().Epoch() || f.ApplyState(0, s) {
		t.Errorf("draining for %d, want %d, once", f.Draining(), s.Committed().Epoch())
	}
	if !f.RecordDrained(s.Committed().Epoch()) || f.RecordDrained(s.Committed().Epoch()) || f.Acked() != s.Committed().Epoch() {
		t.Errorf("acknowledged %d, want %d, once", f.Acked(), s.Committed().Epoch())
	}
	// b leaves: it must end everything.
	if !f.ApplyState(0, open) || f.State() != open {
		t.Fatal("nothing to drain for a map that takes all")
	}
	for sh := range shardmap.Shard(12) {
		if f.MayRun(sh) {
			t.Errorf("shard %d may run on, the map gives it to %q", sh, open.Proposed().Owner(sh))
		}
	}
	if f.Acked() != s.Committed().Epoch() || f.RecordDrained(s.Committed().Epoch()) {
		t.Error("acknowledged before it has drained")
	}
	if !f.RecordDrained(open.Proposed().Epoch()) || f.Acked() != open.Proposed().Epoch() {
		t.Errorf("acknowledged %d, want %d", f.Acked(), open.Proposed().Epoch())
	}
	// The commit of what is acknowledged is nothing to drain for.
	log.commit()
	if f.ApplyState(0, log.state) {
		t.Error("drains again for the commit")
	}
}

func TestReplacedProposalIsNotAcknowledged(t *testing.T) {
	log := newTestLog(t, 12)
	log.commitOwners("a", "b")
	log.propose("a")
	first := log.state
	log.propose("a")
	second := log.state
	f := NewFollower("b", ack.DefaultPace().DrainTimeout)
	f.ApplyState(0, first)
	f.ApplyState(3*time.Millisecond, second)
	if f.RecordDrained(first.Proposed().Epoch()) || f.Acked() != 0 {
		t.Error("acknowledged a proposal that was replaced")
	}
	drain := ack.DefaultPace().DrainTimeout
	// b loses the same shards by both proposals, so the time of their requests continues.
	if f.AbortDue(drain-time.Millisecond) || !f.AbortDue(drain) {
		t.Error("not cut drain-timeout after the first proposal")
	}
	// The time of all other requests counts from the second proposal.
	if !f.AbortDue(drain+3*time.Millisecond) || f.AbortDue(drain+4*time.Millisecond) {
		t.Error("not cut drain-timeout after the second proposal, or twice")
	}
	if !f.RecordDrained(second.Proposed().Epoch()) || f.AbortDue(2*drain) {
		t.Error("the new proposal was not acknowledged, or is drained on")
	}
}
