package cli_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"shardway/admin"
	"shardway/admin/api"
	"shardway/admin/apitest"
)

// upgradable is a cluster whose upgrade can be finalized.
type upgradable struct {
	cluster
	state  api.UpgradeState
	raised int
}

func (l *upgradable) UpgradeStatus(context.Context) api.UpgradeState { return l.state }

func (l *upgradable) FinalizeUpgrade(context.Context, string) (api.UpgradeState, error) {
	l.raised++
	return l.state, nil
}

func TestUpgradeReportsVersionInForceAndBlockingNodes(t *testing.T) {
	all := []api.NodeUpgrade{{Node: "a", MaxFormatVersion: 2, HasHeartbeat: true}, {Node: "b", MaxFormatVersion: 2, HasHeartbeat: true}}
	behind := []api.NodeUpgrade{{Node: "a", MaxFormatVersion: 2, HasHeartbeat: true}, {Node: "b", MaxFormatVersion: 1, HasHeartbeat: true, BlocksUpgrade: true}, {Node: "c", BlocksUpgrade: true}, {Node: "d", MaxFormatVersion: 2}}
	for _, tc := range []struct {
		state api.UpgradeState
		want  []string
	}{
		{api.UpgradeState{CurrentVersion: 2, Next: 2, Nodes: all}, []string{"NODE SUPPORTS FORMAT VERSION 2", "a 2 in force", "format version 2 is in force; no node supports a higher one"}},
		{api.UpgradeState{CurrentVersion: 1, Next: 2, Wait: "59m30s", Nodes: all}, []string{"b 2 supported", "format version 1 is in force; format version 2 will be raised in 59m30s, or now by: shardway upgrade finalize"}},
		{
			api.UpgradeState{CurrentVersion: 1, Next: 2, Wait: "1h", Behind: "b; c\x1b[2J", Nodes: behind},
			[]string{"a 2 supported", "b 1 blocks", "c - blocks: no heartbeat", "d 2 supported", "format version 1 is in force; format version 2 is blocked by b; c?[2J"},
		},
		{api.UpgradeState{CurrentVersion: 1, Next: 1}, []string{"format version 1 is in force; no leader reports what the nodes support"}},
	} {
		l := &upgradable{state: tc.state}
		addr := serveAny(t, admin.Options{API: apitest.SetOf(l)})
		for _, line := range []string{"upgrade status", "upgrade finalize"} {
			code, out, errOut := run(t, line+" --admin "+addr)
			if code != 0 {
				t.Fatalf("%s: exit %d: %s", line, code, errOut)
			}
			var lines []string
			for _, row := range rows(out) {
				lines = append(lines, strings.Join(row, " "))
			}
			for _, want := range tc.want {
				if !slices.Contains(lines, want) {
					t.Errorf("%s: no %q in\n%s", line, want, out)
				}
			}
		}
		if l.raised != 1 {
			t.Errorf("raised %d times, want once", l.raised)
		}
		_, out, _ := run(t, "upgrade status --json --admin "+addr)
		var got api.UpgradeState
		if err := json.Unmarshal([]byte(out), &got); err != nil || !reflect.DeepEqual(got, tc.state) {
			t.Errorf("as JSON: %+v, %v, want %+v", got, err, tc.state)
		}
	}
}
