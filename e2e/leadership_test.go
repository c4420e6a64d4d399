//go:build linux

package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
	"shardway/event"
)

// nodeEvents returns the events of a node.
func nodeEvents(t *testing.T, node *cluster.Node) []event.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+node.Admin+"/v1/events", nil)
	must(t, err)
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer func() { _ = response.Body.Close() }()
	var list api.EventList
	must(t, json.NewDecoder(response.Body).Decode(&list))
	return list.Events
}

// awaitLeaderLost waits until a node reports that a node lost its leadership in a term after the given one, and returns
// the reason.
func awaitLeaderLost(t *testing.T, at *cluster.Node, leader string, since time.Time) (reason string) {
	t.Helper()
	at.AwaitStatus(t, leader+" does not lead any more", func(cluster.Status) bool {
		events := nodeEvents(t, at)
		i := slices.IndexFunc(events, func(e event.Event) bool {
			return e.Kind == event.LeaderLost && e.Node == leader && e.Time.After(since)
		})
		if i >= 0 {
			reason = events[i].Reason
		}
		return i >= 0
	})
	return reason
}

// TestStoppedNodeIsSuspectAndThenFailed stops a follower with SIGSTOP. The leader shows it as suspect while its shards
// stay, and as failed once it has lost them. The state of the cluster follows.
func TestStoppedNodeIsSuspectAndThenFailed(t *testing.T) {
	t.Parallel() // it waits for timeouts most of the time
	c := start(t, 3)
	c.AwaitServing(t)
	leader, victim := c.Leader(t), c.Follower(t)
	leader.AwaitStatus(t, "the cluster is stable", func(status cluster.Status) bool { return status.ClusterState == "stable" })
	stoppedAt := time.Now()
	victim.Pause(t)
	var states []string
	deadline := time.Now().Add(20 * time.Second)
	for len(states) == 0 || states[len(states)-1] != "failed" {
		status, err := leader.Status(t.Context())
		must(t, err)
		member := status.Member(victim.ID)
		if len(states) == 0 || states[len(states)-1] != member.State {
			states = append(states, member.State)
			t.Logf("%s after %v, with %d shards; the cluster is %s: %s", member.State, time.Since(stoppedAt).Round(10*time.Millisecond), member.Shards, status.ClusterState, status.ClusterReason)
		}
		if member.State == "suspect" && member.Shards == 0 {
			t.Error("a suspect node owns no shards any more")
		}
		if time.Now().After(deadline) {
			t.Fatalf("states %v", states)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if tail := states[max(len(states)-2, 0):]; !slices.Equal(tail, []string{"suspect", "failed"}) {
		t.Errorf("states %v, want suspect and then failed", states)
	}
	leader.AwaitStatus(t, "the cluster is degraded", func(status cluster.Status) bool {
		return status.ClusterState == "degraded" && strings.Contains(status.ClusterReason, victim.ID)
	})
	victim.Continue(t)
	c.AwaitServing(t)
	leader.AwaitStatus(t, "the cluster is stable again", func(status cluster.Status) bool { return status.ClusterState == "stable" })
}

// TestStepDownToANode transfers the leadership to each of the other nodes by the command, which refuses the leader and
// unknown nodes. The status shows the new leadership, and the event the reason.
func TestStepDownToANode(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := start(t, 3)
	c.AwaitServing(t)
	for range 2 {
		leader := c.Leader(t)
		to := c.Others(leader)[0]
		startedAt := time.Now()
		output, err := exec.CommandContext(t.Context(), binaries(t).Node, "step-down", "--to", to.ID, "--admin", c.Others(leader)[1].Admin).CombinedOutput()
		if err != nil || string(output) != "node "+to.ID+" leads\n" {
			t.Fatalf("step-down --to %s: %v: %s", to.ID, err, output)
		}
		for _, node := range c.Nodes() {
			node.AwaitStatus(t, to.ID+" leads, and its lease is shown", func(status cluster.Status) bool {
				since, parseErr := time.Parse(time.RFC3339, status.LeaderSince)
				return parseErr == nil && status.Leader == to.ID && since.After(startedAt.Add(-time.Second)) && status.LeaderLeaseMS > 0
			})
		}
		if reason := awaitLeaderLost(t, leader, leader.ID, startedAt); reason != "stepped-down" {
			t.Errorf("the former leader %s reports %q", leader.ID, reason)
		}
		metrics, err := to.Metrics(t.Context())
		must(t, err)
		if lease := metrics.Sum("shardway_leader_lease_seconds"); lease <= 0 || lease > 0.5 {
			t.Errorf("shardway_leader_lease_seconds of the leader is %v", lease)
		}
		for refused, want := range map[string]string{to.ID: "is the leader already", "x": `unknown node "x"`} {
			output, err := exec.CommandContext(t.Context(), binaries(t).Node, "step-down", "--to", refused, "--admin", leader.Admin).CombinedOutput()
			if err == nil || !strings.Contains(string(output), want) {
				t.Errorf("step-down --to %s: %v: %s, want %s", refused, err, output, want)
			}
		}
	}
	c.AwaitServing(t)
}

// TestLostLeaderHasAReason kills the leader, stops it in order, and isolates it. The other nodes report that it stopped or
// that it is unreachable, and an isolated leader that it lost the quorum.
func TestLostLeaderHasAReason(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c, network := startInNamespaces(t)
	for _, fault := range []struct {
		name          string
		begin         func(leader *cluster.Node)
		end           func(leader *cluster.Node)
		others, leads string // reasons at one of the other nodes, and at the former leader ("" means that it has ended)
	}{
		{"SIGKILL", func(leader *cluster.Node) { leader.Kill(t) }, func(leader *cluster.Node) { leader.Start(t) }, "unreachable", ""},
		{"SIGTERM", func(leader *cluster.Node) { leader.Terminate(t); leader.AwaitExit(t, 0) }, func(leader *cluster.Node) { leader.Start(t) }, "shutdown", ""},
		{"partition", func(leader *cluster.Node) {
			endFault := leader.RecordFault(history.Unreachable)
			must(t, network.Isolate(hostIndex(leader)))
			t.Cleanup(endFault)
		}, func(*cluster.Node) { must(t, network.Heal()) }, "unreachable", "quorum-lost"},
	} {
		c.AwaitServing(t)
		leader := c.Leader(t)
		others := c.Others(leader)
		for _, other := range others {
			other.AwaitStatus(t, "it follows the leader", func(status cluster.Status) bool {
				return status.Leader == leader.ID && status.ClusterState == "stable"
			})
		}
		since := time.Now()
		fault.begin(leader)
		var reasons []string
		for _, other := range others {
			reasons = append(reasons, awaitLeaderLost(t, other, leader.ID, since))
		}
		t.Logf("%s: reasons at the other nodes: %v", fault.name, reasons)
		// A node that votes for another candidate may learn of the election first.
		if !slices.Contains(reasons, fault.others) {
			t.Errorf("%s: reasons at the other nodes: %v, want %s", fault.name, reasons, fault.others)
		}
		if fault.leads != "" {
			if reason := awaitLeaderLost(t, leader, leader.ID, since); reason != fault.leads {
				t.Errorf("%s: the former leader reports %q, want %s", fault.name, reason, fault.leads)
			}
		}
		fault.end(leader)
	}
	c.AwaitServing(t)
}
