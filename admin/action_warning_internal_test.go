package admin

import (
	"testing"

	"shardway/admin/api"
)

// A pin to a node that cannot own shards now is performed, and the response describes its effect.
func TestPinWarnsAboutNodesThatCannotOwnShards(t *testing.T) {
	nodes := []api.Node{
		{ID: "n1", State: "active", Roles: []string{"app"}}, {ID: "n2", State: "failed"}, {ID: "n3", State: "cordoned"}, {ID: "n4", State: "active", Role: "gateway"}, {ID: "n5", State: "left"}, {ID: "n6", State: "suspect"}, {ID: "n7", State: "failed"},
	}
	for _, tc := range []struct {
		node      string
		fallbacks []string
		owner     string
		role      string
		want      string
	}{
		{node: "n1"},
		{node: "n1", fallbacks: []string{"n2"}},
		{node: "n3", owner: "n3"},
		{node: "n2", fallbacks: []string{"n3"}, owner: "n3", want: `node "n2" is not alive (failed): until it can own shards, shard 7 belongs to node "n3", the next node of the pin, and then moves to node "n2"`},
		{node: "n2", owner: "n2", want: `node "n2" is not alive (failed): until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n2"`},
		{node: "n2", want: `node "n2" is not alive (failed): until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n2"`},
		{node: "n2", fallbacks: []string{"n5", "n1"}, want: `node "n2" is not alive (failed): until it can own shards, shard 7 belongs to node "n1", the next node of the pin, and then moves to node "n2"`},
		{node: "n2", fallbacks: []string{"n5", "n6"}, want: `node "n2" is not alive (failed): until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n2"`},
		{node: "n3", want: `node "n3" is cordoned: until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n3"`},
		{node: "n4", want: `node "n4" is a gateway: until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n4"`},
		{node: "n7", want: `node "n7" is marked as failed: until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n7"`},
		{node: "n1", role: "app"},
		{node: "n1", role: "db", want: `node "n1" does not have the role "db", to which shards are restricted: until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n1"`},
		{node: "n9", want: `node "n9" is not known to this node: until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n9"`},
	} {
		action := api.Action{Verb: api.Pin, Shard: 7, Node: tc.node, Fallbacks: tc.fallbacks}
		if got := pinWarning(action, tc.owner, nodes, api.Policy{MarkedFailed: []string{"n7"}, Role: tc.role}); got != tc.want {
			t.Errorf("pin to %s, then %v: %q, want %q", tc.node, tc.fallbacks, got, tc.want)
		}
	}
}
