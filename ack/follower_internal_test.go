package ack

import (
	"slices"
	"testing"
	"time"

	"shardway/shardmap"
)

// drainingOwner is a Follower of node b, which owns shards in a committed map, and proposals that
// take some of them.
type drainingOwner struct {
	*returnStage
	f     *Follower
	owned []shardmap.Shard
}

func newDrainingOwner(t *testing.T) *drainingOwner {
	t.Helper()
	d := &drainingOwner{returnStage: newReturning(t, 12), f: NewFollower("b", 5*time.Second)}
	d.returnStage.owned("a", "b")
	d.owned = slices.Collect(d.s.Committed().Shards("b"))
	d.f.StateApplied(0, d.s)
	d.f.Drained(d.s.Last().Epoch())
	return d
}

// propose replaces the open proposal by one that moves exactly these shards of b.
func (d *drainingOwner) propose(now time.Duration, moving ...shardmap.Shard) {
	d.t.Helper()
	p := shardmap.Policy{Drained: map[shardmap.NodeID]bool{"b": true}, Kept: map[shardmap.Shard]bool{}}
	for _, s := range d.owned {
		p.Kept[s] = !slices.Contains(moving, s)
	}
	base := d.s.Committed()
	entry, err := EncodeProposal(MinLevel, ProposalEntry{Term: 1, Base: base.Epoch(), Want: shardmap.Assign(base, fuzzMembers(2), p)})
	if err != nil {
		d.t.Fatal(err)
	}
	d.apply(entry, OutcomeProposed)
	if got := len(shardmap.Diff(base, d.s.Last())); got != len(moving) {
		d.t.Fatalf("the proposal moves %d shards, want %v", got, moving)
	}
	if !d.f.StateApplied(now, d.s) {
		d.t.Fatal("nothing to drain for a new proposal")
	}
}

// wantCut checks that CutDue is true at exactly this time, and which shards are overdue then.
func (d *drainingOwner) wantCut(at time.Duration, overdue ...shardmap.Shard) {
	d.t.Helper()
	if d.f.CutDue(at - time.Millisecond) {
		d.t.Errorf("cut before %v", at)
	}
	if !d.f.CutDue(at) || d.f.CutDue(at+time.Millisecond) {
		d.t.Errorf("not cut at %v, or twice", at)
	}
	for s := range shardmap.Shard(d.s.Shards()) {
		want := slices.Contains(overdue, s)
		if !slices.Contains(d.owned, s) {
			continue // no request for it runs here
		}
		if got := d.f.Overdue(at, s); got != want {
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
	if !d.f.Drained(d.s.Last().Epoch()) || d.f.CutDue(time.Hour) || d.f.Overdue(time.Hour, x) {
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
	if !d.f.CutDue(8*time.Second) || !d.f.Overdue(8*time.Second, x) || d.f.Overdue(8*time.Second, y) {
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
	d.f.Drained(d.s.Last().Epoch())
	d.propose(3*time.Second, x)
	d.wantCut(8*time.Second, x)
}
