package ack

import (
	"fmt"
	"testing"

	"shardway/shardmap"
)

// Every node must forget the same drop records, and no record in force while others can be
// removed.
func TestDropsAreBounded(t *testing.T) {
	s, _, err := NewState().Apply(1, 1, EncodeBootstrap("c", 4, DefaultTiming()))
	if err != nil {
		t.Fatal(err)
	}
	members := []shardmap.Member{{ID: "old", Weight: 1}}
	propose := func(index uint64, drops []DropRecord) {
		t.Helper()
		b, err := EncodeProposal(MinFormatVersion, ProposalEntry{Term: 1, Want: shardmap.Assign(s.Committed(), members, shardmap.Policy{}), Drops: drops})
		if err != nil {
			t.Fatal(err)
		}
		if s, _, err = s.Apply(index, 1, b); err != nil {
			t.Fatal(err)
		}
	}
	members[0].ID = "other"
	propose(2, []DropRecord{{Node: "old", Cause: CauseSilent}})
	members[0].ID = "old"
	propose(3, nil) // old is back: its drop is not in force
	members[0].ID = "other"
	var many []DropRecord
	for i := range maxDrops {
		many = append(many, DropRecord{Node: shardmap.NodeID(fmt.Sprintf("n%04d", i)), Cause: CauseCrashed})
	}
	propose(4, many)
	if _, ok := s.Drop("old"); ok || len(s.drops) != maxDrops || !s.IsDropped("n0000") {
		t.Errorf("%d drops, the one not in force is kept: %v", len(s.drops), ok)
	}
	propose(5, []DropRecord{{Node: "last", Cause: CauseRemoved}})
	if s.IsDropped("n0000") || !s.IsDropped("last") || len(s.drops) != maxDrops {
		t.Errorf("%d drops; the oldest must go for the newest", len(s.drops))
	}
}
