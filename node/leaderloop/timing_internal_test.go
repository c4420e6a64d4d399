package leaderloop

import (
	"errors"
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/node/gossip"
)

// Takeover immediate is refused while a node of the cluster starts processes, also if the node does not respond.
func TestImmediateTakeoverIsRefusedWithProcesses(t *testing.T) {
	member := func(id string, status gossip.Status, exec bool) gossip.Member {
		return gossip.Member{ID: id, Node: true, Status: status, Tags: gossip.Tags{Exec: exec}}
	}
	other := member("x", gossip.Alive, true)
	other.Node = false // it only announces endpoints
	for _, tc := range []struct {
		takeover string
		members  []gossip.Member
		want     string // empty means that the change is permitted
	}{
		{"immediate", nil, ""},
		{"immediate", []gossip.Member{member("a", gossip.Alive, false), member("b", gossip.Left, true), other}, ""},
		{"immediate", []gossip.Member{member("a", gossip.Alive, true), member("b", gossip.Failed, true), member("c", gossip.Alive, false)}, "--exec is set at node a, b:"},
		{"lease", []gossip.Member{member("a", gossip.Alive, true)}, ""},
		{"", []gossip.Member{member("a", gossip.Alive, true)}, ""},
	} {
		err := checkTakeover(tc.takeover, tc.members)
		if isRefused := err != nil; isRefused != (tc.want != "") || isRefused && (!errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("takeover %q beside %+v: %v, want %q", tc.takeover, tc.members, err, tc.want)
		}
	}
}
