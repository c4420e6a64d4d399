package node_test

import (
	"slices"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
	"shardway/shardmap"
)

// forgets waits until all nodes have removed a node that is gone from gossip, as happens after an hour.
func (w *world) forgets(gone string) {
	w.t.Helper()
	w.until("gossip has forgotten "+gone, func() bool {
		all := true
		for _, p := range w.running() {
			p.node.ForgetMember(gone)
			all = all && p.node.Member(gone) == ""
		}
		return all
	})
}

// spare returns a nonvoter of the cluster.
func (w *world) spare() *process {
	w.t.Helper()
	all := w.leader().node.API().Status().Nodes
	i := slices.IndexFunc(all, func(n api.Node) bool { return !n.Voter })
	if i < 0 {
		w.t.Fatal("all vote")
	}
	return w.all[all[i].ID]
}

// does sends an action to a leader once, and fails on an error.
func (w *world) does(p *process, a api.Action) {
	w.t.Helper()
	if err := p.node.API().Do(w.t.Context(), a); err != nil {
		w.t.Errorf("Do(%+v) = %v", a, err)
	}
}

// A node is known as long as its server is in the Raft configuration, even if it is dead and gossip has forgotten it.
func TestServerIsKnownThoughNoNodeSeesIt(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		cluster(w, 0, 4)
		p := w.voter(false)
		rest := w.others(p)
		p.kill()
		w.untilSettled(rest...)
		w.forgets(p.name)
		w.does(w.leader(), api.Action{Verb: api.Cordon, Node: p.name})
		w.does(w.leader(), api.Action{Verb: api.Uncordon, Node: p.name})
		w.does(w.leader(), api.Action{Verb: api.Remove, Node: p.name})
		w.untilServers(rest...)
		for _, verb := range []api.Verb{api.Cordon, api.Remove} {
			w.refused(w.leader(), api.Action{Verb: verb, Node: p.name}, api.ErrUnknownNode, p.name)
		}
	})
}

// A node is known as long as gossip remembers it, even if it has no server any more. A process that only joins gossip, under another name
// than its id, is no node: actions for it, or for its zone, are refused.
func TestMemberIsKnownIfItIsANode(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		cluster(w, 0, 4)
		p := w.spare()
		rest := w.others(p)
		p.terminate()
		w.untilSettled(rest...)
		w.untilServers(rest...)
		w.does(w.leader(), api.Action{Verb: api.Cordon, Node: p.name})
		w.does(w.leader(), api.Action{Verb: api.Uncordon, Node: p.name})

		h := w.net.Host("x")
		s := w.forger(h, "x", h.Addr(7946), map[string]string{"v": "2", "node": "y", "zone": "north"})
		defer func() { _ = s.Shutdown() }()
		l := w.leader()
		w.until("the leader sees it", func() bool { return l.node.Member("x") == "alive" })
		for _, verb := range []api.Verb{api.Cordon, api.Remove} {
			w.refused(l, api.Action{Verb: verb, Node: "x"}, api.ErrUnknownNode, "x")
		}
		w.refused(l, api.Action{Verb: api.Pin, Shard: 1, Zone: "north"}, api.ErrRefused, `no node is in zone "north"`)
	})
}

// A node is known as long as it owns shards, even if it has no server any more and gossip has forgotten it.
func TestOwnerIsKnownThoughItIsNoServer(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) { o.MaxVoters, o.RemoveDeadAfter = 3, 10*time.Second }
		for _, name := range []string{"a", "b", "c", "d"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c", "d")
		w.untilVoters(3)
		p := w.spare()
		rest := w.others(p)
		for _, name := range rest {
			w.does(w.leader(), api.Action{Verb: api.Drain, Node: name, Force: true})
		}
		w.until(p.name+" owns all shards", func() bool {
			s := w.leader().node.State()
			return !s.HasOpenProposal() && s.Committed().ShardCount(shardmap.NodeID(p.name)) == shards
		})
		p.kill()
		w.untilServers(rest...)
		w.forgets(p.name)
		l := w.leader()
		if n := l.node.State().Committed().ShardCount(shardmap.NodeID(p.name)); n != shards {
			w.t.Fatalf("%s owns %d shards, want all", p.name, n)
		}
		w.does(l, api.Action{Verb: api.Cordon, Node: p.name})
		w.does(l, api.Action{Verb: api.Uncordon, Node: p.name})
		w.refused(l, api.Action{Verb: api.Remove, Node: p.name}, api.ErrRefused, "still owns")
		w.does(l, api.Action{Verb: api.Remove, Node: p.name, Force: true})
		for _, name := range rest {
			w.does(w.leader(), api.Action{Verb: api.Uncordon, Node: name})
		}
		w.untilSettled(rest...)
	})
}

// Each request for a node can be taken back when the node is not known any more.
func TestWhatWasAskedOfAnUnknownNodeIsTakenBack(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		cluster(w, 10*time.Second, 4)
		p := w.spare()
		rest := w.others(p)
		w.asks(w.leader(), api.Action{Verb: api.Weigh, Node: p.name, Weight: 3})
		p.kill()
		w.untilSettled(rest...)
		w.untilServers(rest...)
		w.forgets(p.name)
		l := w.leader()
		for _, a := range []api.Action{ // each time, the last request is the only one in force
			{Verb: api.Cordon}, {Verb: api.Weigh}, {Verb: api.Uncordon},
		} {
			a.Node = p.name
			w.does(l, a)
		}
		w.refused(l, api.Action{Verb: api.Cordon, Node: p.name}, api.ErrUnknownNode, p.name)
	})
}

// A drain of a node that is not known any more can be taken back as well.
func TestDrainOfAnUnknownNodeIsTakenBack(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		cluster(w, 10*time.Second, 4)
		p := w.spare()
		rest := w.others(p)
		w.asks(w.leader(), api.Action{Verb: api.Drain, Node: p.name})
		w.untilSettled(rest...)
		p.kill()
		w.untilServers(rest...)
		w.forgets(p.name)
		if d, err := w.leader().node.API().DrainState(w.t.Context(), p.name); err != nil || !d.Requested || d.Left() {
			w.t.Errorf("DrainState = %+v, %v, want that it was asked and has nothing", d, err)
		}
		w.does(w.leader(), api.Action{Verb: api.Uncordon, Node: p.name})
		if got := w.leader().node.API().Policy().Drained; len(got) > 0 {
			w.t.Errorf("%v are still drained", got)
		}
		w.refused(w.leader(), api.Action{Verb: api.Uncordon, Node: p.name}, api.ErrUnknownNode, p.name)
	})
}
