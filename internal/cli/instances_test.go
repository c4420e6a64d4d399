package cli_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"shardway/admin/api"
)

// withInstances is a cluster whose node b has three app instances.
type withInstances struct{ *cluster }

func (c withInstances) Status() api.Status {
	status := c.cluster.Status()
	status.Nodes[1].ID = "b"
	status.Nodes[1].Instances = []api.Instance{{Number: 1, State: "active", Shards: 1}, {Number: 2, State: "unhealthy"}, {Number: 3, State: "active", Shards: 1}}
	return status
}

func (c withInstances) Shards() api.ShardList {
	return api.ShardList{Epoch: 12, Proposed: 12, Total: 4, Shards: []api.Shard{
		{Shard: 0, State: "owned", Owner: "a", Instance: 1, Epoch: 9},
		{Shard: 1, State: "owned", Owner: "b", Instance: 3, Epoch: 9, StaleReturn: true},
		{Shard: 2, State: "moving", Owner: "b", Instance: 2, Epoch: 9, To: "b", ToInstance: 1, Previous: "a", PreviousInstance: 1},
		{Shard: 3, State: "owned", Owner: "b", Instance: 1, Epoch: 9},
	}}
}

func (c withInstances) Map() api.Map {
	return api.Map{Epoch: 12, Shards: 4, Nodes: []api.MapNode{{ID: "a"}, {ID: "b", HTTP: "10.0.0.2:8080"}}, Owners: []int{0, 1, 1, 1}}
}

func (c withInstances) Moves(uint32) []api.Move {
	return []api.Move{{Epoch: 9, Shard: 2, From: "a", FromInstance: 1, To: "b", ToInstance: 2, Reason: "join"}}
}

func (c withInstances) Plan(context.Context) (api.Plan, error) {
	return api.Plan{Epoch: 12, Moves: []api.PlannedMoves{{From: "b", FromInstance: 2, To: "b", ToInstance: 1, Why: "app-unhealthy", Shards: []uint32{2}}}}, nil
}

func TestOwnersAreNamedWithTheirInstances(t *testing.T) {
	addr := serveCluster(t, withInstances{&cluster{}})
	for line, want := range map[string][]string{
		"nodes":             {"INSTANCE STATE SHARDS", "b/1 active 1", "b/2 unhealthy 0", "b/3 active 1"},
		"status":            {"INSTANCE STATE SHARDS", "b/2 unhealthy 0"},
		"shards":            {"a/1 owned - 9 1 0", "b/1 owned - 9 1 3", "b/2 moving b/1 9 1 2", "b/3 stale-return - 9 1 1"},
		"shards --node b/1": {"b/1 owned - 9 1 3", "b/2 moving b/1 9 1 2"},
		"shards 2":          {"2 b/2 moving b/1 9 a/1 -", "9 a/1 b/2 join"},
		"shards 1":          {"stale-return: the app of node b/3 had the shard before and has not restarted: restart that app, or run: shardway app-restarted b/3"},
		"plan":              {"b/2 b/1 1 app-unhealthy planned"},
		"locate alice":      {"alice 1 b/3 10.0.0.2:8080 12"},
	} {
		code, out, errOut := run(t, line+" --admin "+addr)
		var lines []string
		for _, r := range rows(out) {
			lines = append(lines, strings.Join(r, " "))
		}
		for _, wanted := range want {
			if !slices.Contains(lines, wanted) {
				t.Errorf("%s: exit %d, %s, no line %q in\n%s", line, code, errOut, wanted, out)
			}
		}
		if line == "shards --node b/1" && strings.Contains(out, "b/3") {
			t.Errorf("%s shows another instance:\n%s", line, out)
		}
	}
	c := &cluster{done: make(chan api.Action, 2)}
	for line, want := range map[string]string{"drain b/2": "app instance b/2 is draining until `shardway uncordon b/2`", "drain b": "node b is draining until"} {
		if code, out, errOut := run(t, line+" --admin "+serve(t, c)); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit %d, %s, wrote %q, want %q", line, code, errOut, out, want)
		}
		if action := <-c.done; action.Verb != api.Drain || "drain "+action.Node != line {
			t.Errorf("%s requested %+v", line, action)
		}
	}
	if _, out, _ := run(t, "nodes --admin "+serve(t, &cluster{})); strings.Contains(out, "INSTANCE") {
		t.Errorf("a cluster with one instance for each node shows instances:\n%s", out)
	}
}
