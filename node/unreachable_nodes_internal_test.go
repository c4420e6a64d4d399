package node

import (
	"testing"

	"shardway/ack"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// An excluded node is checked until it is reachable, because only then it owns shards again. A node that would own none
// must not be dialed without end.
func TestOnlyExcludedNodesThatMayReturnAreChecked(t *testing.T) {
	excluded := stateWithDrop(t, ack.CauseUnreachable)
	after := func(kind ack.ChangeKind) *ack.State {
		state, _, err := excluded.Apply(excluded.Index()+1, 1, ack.EncodePolicyChange(excluded.FormatVersion(), ack.PolicyEntry{Term: 1, Changes: []ack.Change{{Kind: kind, Node: "c"}}}))
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	for name, tc := range map[string]struct {
		state  *ack.State
		member gossip.Member
		want   bool
	}{
		"alive":              {excluded, gossip.Member{Status: gossip.Alive}, true},
		"failed":             {excluded, gossip.Member{Status: gossip.Failed}, true},
		"leaving":            {excluded, gossip.Member{Status: gossip.Leaving}, false},
		"left":               {excluded, gossip.Member{Status: gossip.Left}, false},
		"gateway":            {excluded, gossip.Member{Tags: gossip.Tags{Role: gossip.RoleGateway}}, false},
		"drained":            {after(ack.ChangeDrain), gossip.Member{Status: gossip.Alive}, false},
		"marked as failed":   {after(ack.ChangeMarkFailed), gossip.Member{Status: gossip.Alive}, false},
		"excluded as silent": {stateWithDrop(t, ack.CauseSilent), gossip.Member{Status: gossip.Alive}, false},
	} {
		tc.member.ID, tc.member.Node = "c", true
		other := gossip.Member{ID: "b", Node: true, Status: gossip.Left}
		if got := mustBecomeReachable(tc.state, func() []gossip.Member { return []gossip.Member{other, tc.member} }, "c"); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// stateWithDrop returns a state with a proposal that excludes node c.
func stateWithDrop(t *testing.T, cause ack.DropCause) *ack.State {
	t.Helper()
	state, _, err := ack.NewState().Apply(1, 1, ack.EncodeBootstrap("x", 8, ack.DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	entry, err := ack.EncodeProposal(state.FormatVersion(), ack.ProposalEntry{
		Term: 1, Want: shardmap.Assign(state.Committed(), []shardmap.Member{{ID: "a", Weight: 1}, {ID: "b", Weight: 1}}, shardmap.Policy{}),
		Drops: []ack.DropRecord{{Node: "c", Cause: cause}},
	})
	if err != nil {
		t.Fatal(err)
	}
	state, _, err = state.Apply(2, 1, entry)
	if err != nil || !state.IsDropped("c") {
		t.Fatalf("drop of c in force: %v, error %v", state.IsDropped("c"), err)
	}
	return state
}
