package ack_test

import (
	"testing"
	"time"

	"shardway/ack"
)

// A node has a gradual drain or an ordinary one. The ordinary drain ends the gradual one, and
// a gradual drain does not affect a drained node. Gradual drains do not survive a recovery.
func TestGradualDrainIsSeparateFromDrain(t *testing.T) {
	p := &ack.Policy{}
	with := func(index uint64, kind ack.ChangeKind) {
		t.Helper()
		var err error
		if p, err = p.With(index, []ack.Change{{Kind: kind, Node: "a", Duration: time.Minute}}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(drained, emptied bool) {
		t.Helper()
		if _, yes := p.GradualDrains["a"]; yes != emptied || p.Drained["a"] != drained || p.IsDraining("a") != (drained || emptied) {
			t.Errorf("%+v, want drained %v, emptied %v", *p, drained, emptied)
		}
	}
	with(1, ack.ChangeDrainGradually)
	is(false, true)
	with(2, ack.ChangeDrain)
	is(true, false)
	with(3, ack.ChangeDrainGradually)
	is(true, false)
	with(4, ack.ChangeUncordon)
	is(false, false)
	with(5, ack.ChangeDrainGradually)
	is(false, true)
	if l := p.ForRecoveredCluster(); len(l.GradualDrains) > 0 {
		t.Errorf("%+v outlives the cluster", l.GradualDrains)
	}
	with(6, ack.ChangeUncordon)
	is(false, false)
	with(7, ack.ChangeDrainGradually)
	with(8, ack.ChangeForgetNode)
	is(false, false)
}
