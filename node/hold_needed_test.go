package node_test

import (
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
	"shardway/shardmap"
)

// absences starts nodes that restart in place, of which voters vote, and ends many voters that do not lead. The last of these stays,
// because the quorum needs it. absences returns that one, and the nodes that neither lead nor end.
func (w *world) absences(nodes, voters, many int) (last *process, rest []*process) {
	w.t.Helper()
	w.tune = func(o *node.Options) { o.MaxVoters, o.HoldGrace = voters, 10*time.Minute }
	names := []string{"a", "b", "c", "d", "e"}[:nodes]
	for _, name := range names {
		w.start(name)
	}
	w.untilSettled(names...)
	w.untilVoters(voters)
	leader := w.leader()
	for _, x := range leader.node.API().Status().Nodes {
		switch p := w.all[x.ID]; {
		case p == leader:
		case many == 0 || !x.Voter:
			rest = append(rest, p)
		default:
			if last = p; many > 1 {
				p.terminate()
			} else {
				p.stop()
			}
			many--
		}
	}
	w.until("the last one is absent", func() bool { return leader.node.State().Restarting(shardmap.NodeID(last.name)) })
	time.Sleep(100 * time.Millisecond)
	if last.ended() || w.leader() != leader {
		w.t.Fatalf("%s has ended, or %s does not lead", last.name, leader.name)
	}
	return last, rest
}

// A nonvoter is not needed for a quorum. Once, it also waited for three seconds when voters were missing.
func TestNonvoterIsNotNeededForQuorum(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		last, rest := w.absences(4, 3, 2)
		began := time.Now()
		rest[0].terminate()
		if took := time.Since(began); took > time.Second || last.ended() {
			t.Errorf("who has no vote has ended after %v; the voter has ended: %v", took, last.ended())
		}
	})
}

// A node that is about to end gets no leadership. Once, it did, although another node could have led.
func TestLeavingNodeIsGivenNoLeadership(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		_, rest := w.absences(5, 5, 3)
		leader := w.leader()
		w.does(leader, api.Action{Verb: api.StepDown})
		w.until("another one leads", func() bool { l := w.leader(); return l != nil && l != leader })
		if l := w.leader(); l != rest[0] {
			t.Errorf("%s leads, want %s", l.name, rest[0].name)
		}
	})
}
