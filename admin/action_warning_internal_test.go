package admin

import (
	"testing"

	"shardway/admin/api"
)

// A pin to a node that cannot own shards now is performed, and the response describes its effect.
func TestPinWarnsAboutNodesThatCannotOwnShards(t *testing.T) {
	nodes := []api.Node{
		{ID: "n1", State: "active"}, {ID: "n2", State: "failed"}, {ID: "n3", State: "cordoned"}, {ID: "n4", State: "active", Role: "gateway"}, {ID: "n5", State: "left"}, {ID: "n6", State: "suspect"},
	}
	for _, tc := range []struct {
		node      string
		fallbacks []string
		want      string
	}{
		{"n1", nil, ""},
		{"n1", []string{"n2"}, ""},
		{"n2", nil, `node "n2" is not alive (failed): until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n2"`},
		{"n2", []string{"n5", "n1"}, `node "n2" is not alive (failed): until it can own shards, shard 7 belongs to node "n1", the next node of the pin, and then moves to node "n2"`},
		{"n2", []string{"n5", "n6"}, `node "n2" is not alive (failed): until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n2"`},
		{"n3", nil, `node "n3" is cordoned: until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n3"`},
		{"n4", nil, `node "n4" is a gateway: until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n4"`},
		{"n9", nil, `node "n9" is not known to this node: until it can own shards, shard 7 is placed as if it had no pin, and then moves to node "n9"`},
	} {
		action := api.Action{Verb: api.Pin, Shard: 7, Node: tc.node, Fallbacks: tc.fallbacks}
		if got := pinWarning(action, nodes); got != tc.want {
			t.Errorf("pin to %s, then %v: %q, want %q", tc.node, tc.fallbacks, got, tc.want)
		}
	}
}
