package cluster

import (
	"testing"

	"shardway/endpoints"
	"shardway/node/gossip"
)

// The directory keeps the address of a voter that gossip has forgotten. Once, the address was lost with the gossip entry, after an hour or
// immediately after a forged message, and Raft could not reach the voter although both were healthy.
func TestServersAddressSurvivesBeingForgotten(t *testing.T) {
	at := func(addr string) gossip.Tags { return gossip.Tags{Endpoints: map[string]string{endpoints.Peer: addr}} }
	member := func(id, addr string) gossip.Member { return gossip.Member{ID: id, Node: true, Tags: at(addr)} }
	server := func(node string) bool { return node == "a" || node == "b" }
	d := buildDirectory(nil, []gossip.Member{member("a", "1:1"), member("b", "2:1"), member("gone", "3:1")}, server)
	d = buildDirectory(d, []gossip.Member{member("a", "1:2")}, server)
	d = buildDirectory(d, []gossip.Member{member("a", "1:3"), {ID: "b", Tags: at("9:9")}}, server) // the tags do not name a node
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
