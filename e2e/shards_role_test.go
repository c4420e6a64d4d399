//go:build linux

package e2e_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
)

// TestShardsFollowRoleOfPolicy restricts shards to a role. Nodes then restart without and with the role, and the
// last node with it is killed. Without a node that has it, the other nodes serve all shards. Only requests that the
// killed node ran may fail.
func TestShardsFollowRoleOfPolicy(t *testing.T) {
	t.Parallel() // it waits for elections most of the time
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards, Secret: hasSecret(t)})
	a, ingress, other := c.Prepare(t, "--bootstrap-expect", "3"), c.Prepare(t, "--bootstrap-expect", "3"), c.Prepare(t, "--bootstrap-expect", "3")
	c.AddJoinFlags()
	a.Start(t, "--role", "app")
	ingress.Start(t, "--role", "db")
	other.Start(t, "--role", "app", "--role", "db")
	awaitWeights(t, c, map[string]int{"a": 1, "b": 1, "c": 1})
	traffic := c.Load(t, []*cluster.Node{ingress}, cluster.Traffic{})
	ingress.PerformAction(t, "set-role", url.Values{"role": {"app"}, "reason": {"licence"}})
	awaitWeights(t, c, map[string]int{"a": 1, "c": 1})
	traffic.AwaitStarted(t, seconds/2)

	// A role leaves: first by a restart, then with the last node that has it.
	other.Stop(t)
	other.Start(t)
	awaitWeights(t, c, map[string]int{"a": 1})
	awaitMissingRole(t, ingress, false)
	a.Kill(t)
	awaitWeights(t, c, map[string]int{"b": 1, "c": 1})
	awaitMissingRole(t, ingress, true)
	traffic.AwaitStarted(t, seconds/2)
	a.Start(t)
	ingress.AwaitStatus(t, "node a is back without the role", func(status cluster.Status) bool { return status.Member("a").State == "cordoned" })
	awaitWeights(t, c, map[string]int{"b": 1, "c": 1})
	awaitMissingRole(t, ingress, true)

	// The role returns.
	a.Stop(t)
	a.Start(t, "--role", "app")
	awaitWeights(t, c, map[string]int{"a": 1})
	awaitMissingRole(t, ingress, false)
	other.Stop(t)
	other.Start(t, "--role", "app")
	awaitWeights(t, c, map[string]int{"a": 1, "c": 1})
	ingress.PerformAction(t, "clear-role", nil)
	awaitWeights(t, c, map[string]int{"a": 1, "b": 1, "c": 1})
	traffic.AwaitStarted(t, seconds/2)
	traffic.Finish(t)
}

// awaitMissingRole waits until a node reports the finding role-missing, or no longer reports it.
func awaitMissingRole(t *testing.T, node *cluster.Node, isMissing bool) {
	t.Helper()
	node.AwaitStatus(t, fmt.Sprintf("the finding role-missing is raised: %v", isMissing), func(status cluster.Status) bool {
		return isMissing == slices.ContainsFunc(status.Findings, func(finding diagnosis.Finding) bool { return finding.Code == diagnosis.RoleMissing })
	})
}
