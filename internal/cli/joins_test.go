package cli_test

import (
	"strings"
	"testing"

	"shardway/admin/api"
)

// joiningCluster is a cluster with a member, a node that joins and a node that waits.
type joiningCluster struct {
	*policyCluster
	joins []api.NodeJoin
}

func (c *joiningCluster) Joins() api.JoinList {
	return api.JoinList{Approval: "manual", Timeout: "1h", Joins: c.joins}
}

// TestJoinCommandsReachTheNode checks the actions of approve and refuse, and the output of joins.
func TestJoinCommandsReachTheNode(t *testing.T) {
	c := &joiningCluster{policyCluster: &policyCluster{cluster: &cluster{done: make(chan api.Action, 1)}}}
	addr := serveCluster(t, c)
	for line, want := range map[string]api.Action{
		"approve d": {Verb: api.Approve, Node: "d"},
		"approve d --ticket 17 --reason hardware": {Verb: api.Approve, Node: "d", Ticket: 17, Reason: "hardware"},
		"refuse d --reason unknown":               {Verb: api.Refuse, Node: "d", Reason: "unknown"},
	} {
		code, out, errOut := run(t, line+" --admin="+addr)
		if code != 0 {
			t.Errorf("%s: exit %d, %s%s", line, code, out, errOut)
			continue
		}
		if got := <-c.done; got.Verb != want.Verb || got.Node != want.Node || got.Ticket != want.Ticket || got.Reason != want.Reason {
			t.Errorf("%s: did %+v, want %+v", line, got, want)
		}
	}
	if code, _, errOut := run(t, "refuse d --admin="+addr); code != 2 || !strings.Contains(errOut, "--reason") {
		t.Errorf("refuse without a reason: exit %d, %s", code, errOut)
	}
	if _, out, _ := run(t, "joins --admin="+addr); !strings.Contains(out, "no node joins; join-approval is manual") {
		t.Errorf("joins without a request: %s", out)
	}
	c.joins = []api.NodeJoin{
		{Node: "a", Server: "a/1", Stage: "active"},
		{Node: "d", Server: "d/1", Stage: "accepted", Ticket: 17, Reason: "hardware", Stages: []api.JoinStage{{Stage: "requested", MS: 1500}, {Stage: "accepted"}}},
	}
	_, out, _ := run(t, "joins --admin="+addr)
	if fields := strings.Join(strings.Fields(out), " "); !strings.Contains(fields, "d accepted 17 requested:1500ms hardware d/1") || strings.Contains(out, "active") {
		t.Errorf("joins: %s", out)
	}
	if _, out, _ = run(t, "joins --all --admin="+addr); !strings.Contains(out, "active") {
		t.Errorf("joins --all: %s", out)
	}
}
