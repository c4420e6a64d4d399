package node_test

import (
	"testing"

	"shardway/admin/api"
	"shardway/node"
	"shardway/shardmap"
)

// Shards move to nodes with the role, and a role that no node has is refused. If the last node with the role stops, the
// other nodes own the shards, and a finding reports it.
func TestShardsAreRestrictedToARole(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			if o.Dir.Node() == "c" {
				o.Roles = []string{"db", "app"}
			}
		}
		for _, id := range []string{"a", "b", "c"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		w.untilVoters(3)
		w.refused(w.follower(), api.Action{Verb: api.SetRole, Role: "cache"}, api.ErrNoActiveNodes, `no node that can get shards has the role "cache"`)
		w.asks(w.follower(), api.Action{Verb: api.SetRole, Role: "app", Reason: "licences"})
		owns := func(id string) int { return w.committed().ShardCount(shardmap.NodeID(id)) }
		w.until("c owns all shards", func() bool { return owns("c") == shards })
		for _, p := range w.running() {
			if err := p.node.API().Ready(); err != nil {
				t.Errorf("%s is not ready: %v", p.name, err)
			}
			if policy := p.node.API().Policy(); policy.Role != "app" || len(policy.Reasons) != 1 || policy.Reasons[0].Action != "set-role" {
				t.Errorf("%s has the policy %+v", p.name, policy)
			}
		}
		w.until("the states of the nodes", func() bool {
			return w.stateOf(w.leader(), "a") == "cordoned" && w.stateOf(w.leader(), "b") == "cordoned" && w.stateOf(w.leader(), "c") == "active"
		})
		w.all["c"].kill()
		w.until("the others own the shards", func() bool { return owns("a") > 0 && owns("b") > 0 && owns("a")+owns("b") == shards })
		w.untilFindingsAre(w.all["a"], "role-missing: shards are restricted to the role app, and no node with this role can get shards: other nodes keep and get them")
		w.asks(w.leader(), api.Action{Verb: api.ClearRole})
		w.until("no restriction", func() bool { return w.leader().node.API().Policy().Role == "" })
	})
}
