package cluster

import (
	"slices"
	"strings"
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

// A name of any bytes and any length would hide the other entries of the list, or pass for one of them.
func TestDirectoryOmitsMembersWithInvalidNames(t *testing.T) {
	redis := gossip.Tags{Endpoints: map[string]string{"redis": "10.0.0.9:6379"}}
	var members []gossip.Member
	for _, name := range []string{"cache", gossip.ServiceName("a"), gossip.ServiceName(""), "a ", "b\x1b[2J", strings.Repeat("x", 3000)} {
		members = append(members, gossip.Member{ID: name, Tags: redis})
	}
	var listed []string
	for _, endpoint := range buildDirectory(nil, members, func(string) bool { return false }).All() {
		listed = append(listed, endpoint.ID)
	}
	if want := []string{gossip.ServiceName("a"), "cache"}; !slices.Equal(listed, want) {
		t.Errorf("members %q, want %q", listed, want)
	}
}
