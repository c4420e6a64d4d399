//go:build linux

package e2e_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/e2e/kit/cluster"
)

// TestNodeJoinsAfterApproval starts a fourth node with --join-approval manual, under load. The node must own nothing
// until an operator approves it. A new leader continues the request, a refusal has a reason, and a refused node can
// still be approved.
func TestNodeJoinsAfterApproval(t *testing.T) {
	t.Parallel() // it waits for elections and for the new node most of the time
	c := start(t, 3, "--join-approval", "manual")
	c.AwaitServing(t)
	leader := c.Leader(t)
	traffic := c.Load(t, c.Others(leader), cluster.Traffic{}) // a load balancer could not retry each request of a killed node
	joining := c.Prepare(t, "--join", c.Node("a").Gossip+","+c.Node("b").Gossip+","+c.Node("c").Gossip)
	joining.Start(t)
	members := c.Others(joining)
	requested := awaitJoin(t, members[0], joining, "requested")

	leader.Kill(t)
	successor := c.LeaderOf(t, c.Others(joining, leader)...)
	if continued := awaitJoin(t, successor, joining, "requested"); continued.Ticket != requested.Ticket {
		t.Errorf("the request has ticket %d after an election, want %d", continued.Ticket, requested.Ticket)
	}
	leader.Start(t)
	shardMap := c.AwaitServedBy(t, members...)
	if owned := shardMap.Counts()[joining.ID]; owned != 0 {
		t.Errorf("node %s owns %d shards before its approval", joining.ID, owned)
	}

	const reason = "unknown machine"
	if out, code := shardway(t, "refuse", joining.ID, "--reason", reason, "--admin", successor.Admin); code != 0 {
		t.Fatalf("refuse: exit code %d: %s", code, out)
	}
	if refused := awaitJoin(t, successor, joining, "refused"); refused.Reason != reason {
		t.Errorf("the refusal has the reason %q, want %q", refused.Reason, reason)
	}
	cluster.Await(t, "the refused node reports the reason", func() error {
		if err := joining.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), reason) {
			return fmt.Errorf("/readyz: %w", err)
		}
		return nil
	})

	if out, code := shardway(t, "approve", joining.ID, "--ticket", strconv.FormatUint(requested.Ticket, 10), "--admin", successor.Admin); code != 0 {
		t.Fatalf("approve: exit code %d: %s", code, out)
	}
	awaitJoin(t, successor, joining, "active")
	if owned := c.AwaitServing(t).Counts()[joining.ID]; owned == 0 {
		t.Errorf("node %s owns no shard after its approval", joining.ID)
	}
	traffic.AwaitStarted(t, 50)
	traffic.Finish(t)
}

// awaitJoin waits until a node reports the stage of the request of a joining node, and returns the request.
func awaitJoin(t *testing.T, node, joining *cluster.Node, stage string) (found api.NodeJoin) {
	t.Helper()
	cluster.Await(t, fmt.Sprintf("node %s is %s", joining.ID, stage), func() error {
		out, code := shardway(t, "joins", "--all", "--json", "--admin", node.Admin)
		var list api.JoinList
		if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil {
			return fmt.Errorf("joins: exit code %d: %s", code, out)
		}
		for _, entry := range list.Joins {
			isRecorded := entry.Ticket > 0 // before that, only gossip shows the node
			if entry.Node == joining.ID && entry.Stage == stage && isRecorded {
				found = entry
				return nil
			}
		}
		return fmt.Errorf("%+v", list.Joins)
	})
	return found
}
