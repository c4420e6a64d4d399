package cluster

import (
	"testing"

	"shardway/endpoints"
	"shardway/node/gossip"
)

// Gossip forgets who was gone for an hour, and at a forged word at once. A voter's
// address went with it, and Raft could not reach it any more though both were well.
func TestServersAddressSurvivesBeingForgotten(t *testing.T) {
	at := func(addr string) gossip.Tags { return gossip.Tags{Endpoints: map[string]string{endpoints.Peer: addr}} }
	member := func(id, addr string) gossip.Member { return gossip.Member{ID: id, Node: true, Tags: at(addr)} }
	server := func(node string) bool { return node == "a" || node == "b" }
	d := buildDirectory(nil, []gossip.Member{member("a", "1:1"), member("b", "2:1"), member("gone", "3:1")}, server)
	d = buildDirectory(d, []gossip.Member{member("a", "1:2")}, server)
	d = buildDirectory(d, []gossip.Member{member("a", "1:3"), {ID: "b", Tags: at("9:9")}}, server) // not a node's word
	for node, want := range map[string]string{"a": "1:3", "b": "2:1", "gone": ""} {
		if got, _ := d.Addr(node, endpoints.Peer); got != want {
			t.Errorf("the address of %s is %q, want %q", node, got, want)
		}
	}
	d = buildDirectory(d, []gossip.Member{member("b", "2:2")}, server)
	if got, _ := d.Addr("b", endpoints.Peer); got != "2:2" {
		t.Errorf("the address of b is %q after it came back, want that of now", got)
	}
}
