package ack_test

import (
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

func markFailed(id shardmap.NodeID) ack.Change {
	return ack.Change{Kind: ack.ChangeMarkFailed, Node: id}
}

// A marked node that runs hands its shards over, stays out of the map, and returns after an uncordon.
func TestMarkedNodeOwnsNothingUntilItIsUncordoned(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.changePolicy("a", markFailed("c"))
	s.until("c owns nothing", func() bool { return !s.state.HasOpenProposal() && s.state.Committed().ShardCount("c") == 0 })
	drop, _ := s.state.Drop("c")
	if drop.Cause != ack.CauseMarkedFailed || !drop.InForce {
		t.Errorf("the record of the exclusion is %+v", drop)
	}
	s.changePolicy("a", markFailed("c")) // repeated
	s.run(10 * time.Second)
	s.elect("b")
	s.run(10 * time.Second)
	if s.state.Committed().IsMember("c") || s.state.HasOpenProposal() {
		t.Errorf("the marked node is back: %s", spread(s.state.Committed()))
	}
	if !s.actor("c").leased {
		t.Error("the marked node has no lease: it could not forward requests")
	}
	s.changePolicy("b", uncordon("c"))
	s.until("c owns shards again", func() bool { return s.state.Committed().ShardCount("c") == 4 })
}

// A mark does not prove that a node has stopped: its shards are not taken before its lease has certainly ended.
func TestMarkFreesNoShardsDuringALease(t *testing.T) {
	for _, takeover := range allTakeovers() {
		s := servingUnder(t, takeover, "a", "b", "c")
		c := s.actor("c")
		c.mute = true
		s.changePolicy("a", markFailed("c"))
		for c.machine.LeaseRemaining(s.now) > 0 {
			if !s.state.Committed().IsMember("c") {
				t.Fatalf("%v: the shards of c were taken while it has a lease:\n%s", takeover, s)
			}
			s.run(5 * time.Millisecond)
		}
		s.until("other nodes own the shards", func() bool { return !s.state.Committed().IsMember("c") })
	}
}

// An open round that excludes a node without a drop waits for its acknowledgement, for as long as its hooks may take. A
// mark ends this wait: the node gets no lease before it has acknowledged the map.
func TestMarkEndsTheWaitForADrainingNode(t *testing.T) {
	s := serving(t, "a", "b", "c")
	c := s.actor("c")
	c.releaseTime, c.held = ack.MaxReleaseTimeout, true
	s.changePolicy("a", ack.Change{Kind: ack.ChangeDrain, Node: "c"})
	s.until("a round excludes c", func() bool { return s.state.HasOpenProposal() && !s.state.Proposed().IsMember("c") })
	s.run(10 * time.Second)
	if !s.state.HasOpenProposal() || !c.leased {
		t.Fatalf("the round did not wait for c:\n%s", s)
	}
	s.changePolicy("a", markFailed("c"))
	for s.state.Committed().IsMember("c") {
		if s.run(stageTick); s.now > 30*time.Second {
			t.Fatalf("the shards of c still wait:\n%s", s)
		}
		if c.leased && !s.state.Committed().IsMember("c") {
			t.Fatalf("the shards of c were taken while it has a lease:\n%s", s)
		}
	}
}

// Without another node, the last map remains (rule 10), and the marked node continues to serve it.
func TestMarkOfTheOnlyNodeHasNoEffect(t *testing.T) {
	s := serving(t, "a")
	before := s.state.Committed()
	s.changePolicy("a", markFailed("a"))
	s.run(10 * time.Second)
	if s.state.Committed().Epoch() != before.Epoch() || s.state.HasOpenProposal() || !s.actor("a").leased {
		t.Errorf("committed %s, leased %v", spread(s.state.Committed()), s.actor("a").leased)
	}
}

// Snapshots and backups contain marks. A recovered cluster has none: the survivor may be marked.
func TestMarksDoNotOutliveTheCluster(t *testing.T) {
	s := serving(t, "a", "b", "c")
	s.changePolicy("a", ack.Change{Kind: ack.ChangeMarkFailed, Node: "c", Reason: "hangs"})
	s.until("c owns nothing", func() bool { return !s.state.HasOpenProposal() && s.state.Committed().ShardCount("c") == 0 })
	b, err := s.state.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ack.DecodeState(b)
	item := ack.PolicyItem{Kind: ack.ChangeMarkFailed, Node: "c"}
	if err != nil || !again.Policy().MarkedFailed["c"] || again.Policy().Reasons[item] != "hangs" {
		t.Fatalf("snapshot: %v, %+v", err, again)
	}
	if b, err = s.state.Backup(); err != nil {
		t.Fatal(err)
	}
	if again, err = ack.OpenBackup(b); err != nil || !again.Policy().MarkedFailed["c"] {
		t.Fatalf("backup: %v, %+v", err, again)
	}
	recovered, err := again.Recovered("another", again.MaxIndex()+ack.MinIndexGap)
	if err != nil || len(recovered.Policy().MarkedFailed)+len(recovered.Policy().Reasons) > 0 {
		t.Errorf("recovered: %v, %+v", err, recovered.Policy())
	}
	s.changePolicy("a", ack.Change{Kind: ack.ChangeForgetNode, Node: "c"})
	s.run(time.Second)
	if policy := s.state.Policy(); len(policy.MarkedFailed)+len(policy.Reasons) > 0 {
		t.Errorf("removed: %+v", *policy)
	}
}
