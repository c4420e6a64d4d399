package node_test

import (
	"testing"

	"shardway/admin/api"
	"shardway/shardmap"
)

// Before each answer, a leader asks its Raft server whether it still leads. A heartbeat that arrives after it has voted for another leader
// gets no lease, also if its loop has not noticed yet.
func TestLeaderGrantsNothingOnceItsRaftKnowsANewerTerm(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		old, other := w.leader(), w.follower()
		hears := old.node.ReceiveAsLeader(w.t.Context(), shardmap.NodeID(other.name))
		if serve := hears(); serve <= 0 {
			w.t.Fatalf("the leader lets %s serve for %v", other.name, serve)
		}
		if err := other.node.API().Do(w.t.Context(), api.Action{Verb: api.StepDown}); err != nil {
			w.t.Fatalf("Do(step-down) = %v, want nil", err)
		}
		w.until("its leadership is over", func() bool { return !old.node.Leads() })
		if serve := hears(); serve > 0 {
			w.t.Errorf("it lets %s serve for %v", other.name, serve)
		}
	})
}
