package node_test

import (
	"strings"
	"testing"

	"shardway/admin/api"
)

// A marked node stays in the cluster without shards, also through an election, until it is uncordoned.
func TestMarkedNodeIsExcludedUntilItIsUncordoned(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		leader, marked := w.leader(), w.follower()
		w.refused(marked, api.Action{Verb: api.MarkFailed, Node: "x"}, api.ErrUnknownNode, `"x"`)
		mark := api.Action{Verb: api.MarkFailed, Node: marked.name, Reason: "disk errors"}
		w.asks(marked, mark)
		w.asks(leader, mark) // repeated
		w.until("it owns nothing", func() bool {
			return w.stateOf(leader, marked.name) == "failed" && w.listed(leader, marked.name).Shards == 0
		})
		if state := marked.node.API().Status().State; state != "failed" {
			w.t.Errorf("the marked node reports that it is %s", state)
		}
		w.until("it is not ready", func() bool {
			err := marked.node.API().Ready()
			return err != nil && strings.Contains(err.Error(), "marked-failed: "+marked.name+" is marked as failed and gets no shards")
		})
		w.untilFindingsAre(leader, marked.name+" is marked as failed and gets no shards", "run `shardway uncordon "+marked.name+"`")
		if status := leader.node.API().Status(); status.ClusterState != "degraded" || status.ClusterReason != "node "+marked.name+" is marked as failed" {
			w.t.Errorf("cluster state %s: %s", status.ClusterState, status.ClusterReason)
		}
		if policy := marked.node.API().Policy(); len(policy.MarkedFailed) != 1 || len(policy.Reasons) != 1 || policy.Reasons[0].Action != "mark-failed" || policy.Reasons[0].Reason != "disk errors" {
			w.t.Errorf("policy %+v", policy)
		}
		w.asks(leader, api.Action{Verb: api.StepDown})
		for range 200 {
			w.moment()
		}
		if w.listed(leader, marked.name).Shards != 0 {
			w.t.Error("the marked node owns shards after an election")
		}
		w.asks(leader, api.Action{Verb: api.Uncordon, Node: marked.name})
		w.until("it owns shards again", func() bool { return w.listed(leader, marked.name).Shards == shards/3 })
	})
}

// A leader that is marked transfers the leadership first. A restart does not end the mark.
func TestMarkedLeaderTransfersLeadership(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		marked := w.leader()
		w.asks(marked, api.Action{Verb: api.MarkFailed, Node: marked.name})
		if leader := w.leader(); leader == marked {
			w.t.Errorf("%s still leads", marked.name)
		}
		other := w.all[w.others(marked)[0]]
		w.until("it owns nothing", func() bool { return w.listed(other, marked.name).Shards == 0 })
		marked.kill()
		marked.restart()
		for range 200 {
			w.moment()
		}
		if w.listed(other, marked.name).Shards != 0 {
			w.t.Error("the marked node owns shards after a restart")
		}
		w.asks(other, api.Action{Verb: api.Uncordon, Node: marked.name})
		w.until("it owns shards again", func() bool { return w.listed(other, marked.name).Shards == shards/3 })
	})
}

// The mark lasts until the leader hears the node again and an operator uncordons it.
func TestMarkOfAnUnresponsiveNodeLasts(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		leader, marked := w.leader(), w.follower()
		w.net.Isolate(marked.name)
		w.asks(leader, api.Action{Verb: api.MarkFailed, Node: marked.name})
		w.until("it owns nothing", func() bool { return w.listed(leader, marked.name).Shards == 0 })
		w.refused(leader, api.Action{Verb: api.Uncordon, Node: marked.name}, api.ErrNodeUnhealthy, "sends no heartbeats to the leader")
		w.net.Heal()
		for range 200 {
			w.moment()
		}
		if w.listed(leader, marked.name).Shards != 0 {
			w.t.Error("the marked node owns shards before it is uncordoned")
		}
		w.asks(w.leader(), api.Action{Verb: api.Uncordon, Node: marked.name})
		w.until("it owns shards again", func() bool { return w.listed(leader, marked.name).Shards == shards/3 })
	})
}

// Gossip knows a removed node for some seconds, so an operator can still mark it. The mark can end after gossip has
// deleted the node. Once, the leader refused the uncordon and suggested remove, which did not know the node.
func TestMarkOfARemovedNodeCanBeEnded(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		leader, removed := w.leader(), w.follower()
		w.net.Isolate(removed.name)
		w.asks(leader, api.Action{Verb: api.Remove, Node: removed.name, Force: true})
		w.asks(leader, api.Action{Verb: api.MarkFailed, Node: removed.name})
		w.until("the node is unknown", func() bool { return w.listed(leader, removed.name).ID == "" })
		if policy := leader.node.API().Policy(); len(policy.MarkedFailed) != 1 {
			w.t.Errorf("policy %+v, want one mark", policy)
		}
		w.asks(leader, api.Action{Verb: api.Uncordon, Node: removed.name})
		if policy := leader.node.API().Policy(); len(policy.MarkedFailed) != 0 {
			w.t.Errorf("policy %+v after the uncordon", policy)
		}
	})
}

// Without another node that can own shards, a mark is refused.
func TestMarkOfTheLastOwnerIsRefused(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.start("a")
		w.start("b")
		w.untilSettled("a", "b")
		w.untilVoters(2)
		drained := w.leader()
		w.asks(drained, api.Action{Verb: api.Drain, Node: drained.name, Force: true})
		w.until("it owns nothing", func() bool { return w.listed(drained, drained.name).Shards == 0 })
		w.until("the drained node leads", func() bool {
			if leader := w.leader(); leader != nil && leader != drained {
				_ = leader.node.API().Do(w.t.Context(), api.Action{Verb: api.StepDown})
			}
			return w.leader() == drained
		})
		owner := w.all[w.others(drained)[0]]
		w.refused(drained, api.Action{Verb: api.MarkFailed, Node: owner.name}, api.ErrNoActiveNodes, "no other node can own the shards")
	})
}
