package ack_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"shardway/ack"
	"shardway/shardmap"
)

// needlessRound is a history with an open round that another proposal replaces. Node b drains
// gradually, and the open round moves one of its shards.
type needlessRound struct {
	t      *testing.T
	before *ack.State
	// first and second are the shards of node b.
	first, second shardmap.Shard
	members       []shardmap.Member
	kept          map[shardmap.Shard]bool
}

// newNeedlessRound returns the history without the second proposal. With keeps, node c is drained
// safely, and keeps one of its shards.
func newNeedlessRound(t *testing.T, keeps bool) *needlessRound {
	t.Helper()
	r := &needlessRound{t: t, members: []shardmap.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}, {ID: "c", Weight: 1}}}
	r.before = apply(t, ack.NewState(), 1, ack.EncodeBootstrap("demo", 6, ack.DefaultTiming()), ack.OutcomeBootstrapped)
	first := shardmap.Assign(r.before.Committed(), r.members, shardmap.Policy{})
	r.before = r.propose(first)
	proposed := r.before.Proposed()
	r.apply(ack.EncodeCommit(r.before.FormatVersion(), ack.CommitEntry{Epoch: proposed.Epoch(), Digest: proposed.Digest()}), ack.OutcomeCommitted)
	changes := []ack.Change{{Kind: ack.ChangeDrainGradually, Node: "b", Duration: ack.MaxGradualDrain}}
	if keeps {
		changes = append(changes, ack.Change{Kind: ack.ChangeDrain, Node: "c", SafeDrain: true})
		r.kept = map[shardmap.Shard]bool{slices.Collect(r.before.Committed().Shards("c"))[0]: true}
	}
	r.apply(ack.EncodePolicyChange(r.before.FormatVersion(), ack.PolicyEntry{Term: 1, Changes: changes}), ack.OutcomePolicyChanged)
	shards := slices.Collect(r.before.Committed().Shards("b"))
	r.first, r.second = shards[0], shards[1]
	r.before = r.propose(r.assign(nil, r.first))
	return r
}

func (r *needlessRound) apply(entry []byte, want ack.Outcome) {
	r.t.Helper()
	r.before = apply(r.t, r.before, r.before.Index()+1, entry, want)
}

// propose returns the state after a proposal.
func (r *needlessRound) propose(want *shardmap.Map) *ack.State {
	r.t.Helper()
	entry, err := ack.EncodeProposal(r.before.FormatVersion(), ack.ProposalEntry{Term: 1, Base: r.before.Committed().Epoch(), Want: want})
	if err != nil {
		r.t.Fatal(err)
	}
	return apply(r.t, r.before, r.before.Index()+1, entry, ack.OutcomeProposed)
}

// assign returns the map that the leader would propose.
func (r *needlessRound) assign(reports map[shardmap.NodeID]appReport, idle ...shardmap.Shard) *shardmap.Map {
	placement := r.before.Policy().Placement(nil)
	placement.KeptShards, placement.IdleShards = r.kept, map[shardmap.Shard]bool{}
	for _, shard := range idle {
		placement.IdleShards[shard] = true
	}
	return shardmap.Assign(r.before.Committed(), r.members, relocated(r.before.Committed(), r.members, reports, placement, nil))
}

// check returns what the checks of the simulation report about a second proposal.
func (r *needlessRound) check(want *shardmap.Map, reports map[shardmap.NodeID]appReport) string {
	heard := map[shardmap.NodeID]appReport{}
	maps.Copy(heard, reports)
	w := &world{cover: newCoverage(), checks: newChecks()}
	e := &logEntry{queuedPolicy: queuedPolicy{asked: 1, reports: heard, kept: r.kept}}
	w.idle[idleReport{1, "b", r.before.Committed().Epoch()}] = map[shardmap.Shard]bool{r.first: true, r.second: true}
	w.checkPlacement(r.before, r.propose(want), e)
	return w.failure
}

// The checks of the simulation refuse a proposal that replaces an open round only because another
// shard has become idle. They accept one that moves the shard to another node, because the app of
// its new owner cannot acquire shards. They once refused that, too.
func TestChecksRefuseRoundThatOnlyMovesFurtherIdleShards(t *testing.T) {
	for name, keeps := range map[string]bool{"plain": false, "with a safe drain": true} {
		t.Run(name, func(t *testing.T) {
			r := newNeedlessRound(t, keeps)
			target := r.before.Proposed().Owner(r.first)
			if target == "b" || r.before.Proposed().Owner(r.second) != "b" {
				t.Fatalf("the open round moves shard %d to %s, and shard %d to %s", r.first, target, r.second, r.before.Proposed().Owner(r.second))
			}
			needless := r.check(r.assign(nil, r.first, r.second), nil)
			if !strings.HasPrefix(needless, "gradual drain") {
				t.Errorf("a further idle shard: %q, want a failure", needless)
			}
			if keeps {
				return // no other node could get the shard
			}
			unable := map[shardmap.NodeID]appReport{target: {unable: true}}
			other := r.assign(unable, r.first)
			if other.Owner(r.first) == target {
				t.Fatalf("shard %d moves to %s, whose app cannot acquire it", r.first, target)
			}
			if failure := r.check(other, unable); failure != "" {
				t.Errorf("the app of %s cannot acquire shards: %s", target, failure)
			}
			failing := map[shardmap.NodeID]appReport{target: {failed: []shardmap.Shard{r.first}}}
			if failure := r.check(r.assign(failing, r.first), failing); failure != "" {
				t.Errorf("the app of %s cannot acquire the shard: %s", target, failure)
			}
			// The app of a node that gets no shard is no reason to replace the round.
			elsewhere := map[shardmap.NodeID]appReport{"b": {unable: true}}
			if failure := r.check(r.assign(elsewhere, r.first, r.second), elsewhere); !strings.HasPrefix(failure, "gradual drain") {
				t.Errorf("a further idle shard, and the app of another node fails: %q, want a failure", failure)
			}
		})
	}
}
