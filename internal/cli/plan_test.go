package cli_test

import (
	"context"
	"strings"
	"testing"

	"shardway/admin/api"
)

// planned is a cluster with a planned map.
type planned struct {
	*cluster
	plan api.Plan
}

func (c *planned) Plan(context.Context) (api.Plan, error) { return c.plan, nil }

func TestPlanShowsWhatTheNextMapMoves(t *testing.T) {
	c := &planned{cluster: &cluster{}, plan: api.Plan{
		Epoch: 12, Pause: "30m",
		Moves:   []api.PlannedMoves{{From: "a", To: "b", Why: "leave", Proposed: true, Shards: []uint32{0, 1}}, {To: "b", Why: "orphan", Shards: []uint32{2}}},
		Resumed: []api.PlannedMoves{{From: "b", To: "a", Why: "pin", Shards: []uint32{3}}},
	}}
	code, out, errOut := run(t, "plan --admin="+serveCluster(t, c))
	var lines []string
	for _, r := range rows(out) {
		lines = append(lines, strings.Join(r, " "))
	}
	want := []string{
		"the map after epoch 12 moves 3 shards", "FROM TO SHARDS WHY STATE", "a b 2 leave proposed", "orphaned b 1 orphan planned", "",
		"planned moves are paused for 30m; without that it would move 1 shard", "FROM TO SHARDS WHY STATE", "b a 1 pin planned",
	}
	if code != 0 || strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("exit %d, %s, wrote %q, want %q", code, errOut, lines, want)
	}
	c.plan = api.Plan{Epoch: 12}
	if code, out, errOut := run(t, "plan --admin="+serveCluster(t, c)); code != 0 || out != "the map after epoch 12 moves nothing\n" {
		t.Errorf("exit %d, %s, wrote %q", code, errOut, out)
	}
}
