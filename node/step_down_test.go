package node_test

import (
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
)

// step-down --to transfers the leadership to the named voter, whichever node receives the request.
func TestStepDownTransfersLeadershipToTheNamedNode(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		for range 4 {
			old := w.leader()
			for _, name := range w.others(old) {
				to, asked := w.all[name], w.follower()
				w.within(2*time.Second, name+" leads", func() bool {
					if to.node.Leads() {
						return true
					}
					w.does(asked, api.Action{Verb: api.StepDown, To: name})
					if !to.node.Leads() {
						w.t.Errorf("step-down --to %s at %s succeeded, and %s does not lead", name, asked.name, name)
					}
					return to.node.Leads()
				})
			}
			w.untilSettled("a", "b", "c")
		}
	})
}

// The leader refuses a node that cannot lead, and stays leader.
func TestStepDownRefusesNodesThatCannotLead(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.MaxVoters = 3 }
		for _, name := range []string{"a", "b", "c", "d"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c", "d")
		w.untilVoters(3)
		leader := w.leader()
		nonvoter, voter := "", ""
		for _, n := range leader.node.API().Status().Nodes {
			switch {
			case !n.Voter:
				nonvoter = n.ID
			case n.ID != leader.name:
				voter = n.ID
			}
		}
		w.refused(leader, api.Action{Verb: api.StepDown, To: "x"}, api.ErrUnknownNode, `unknown node "x": the cluster has a, b, c, d`)
		w.refused(leader, api.Action{Verb: api.StepDown, To: nonvoter}, api.ErrRefused, `node "`+nonvoter+`" is not a voter`)
		w.refused(leader, api.Action{Verb: api.StepDown, To: leader.name}, api.ErrRefused, "is the leader already")
		w.all[voter].kill()
		time.Sleep(time.Second)
		w.refused(leader, api.Action{Verb: api.StepDown, To: voter}, api.ErrNodeUnhealthy, `node "`+voter+`" is not reachable`)
		if !leader.node.Leads() {
			w.t.Error("a refusal ended the leadership")
		}
	})
}
