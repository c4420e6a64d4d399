package cli_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"shardway/admin"
)

// levelled is a cluster whose level can be raised.
type levelled struct {
	cluster
	state  admin.LevelState
	raised int
}

func (l *levelled) Level(context.Context) admin.LevelState { return l.state }

func (l *levelled) RaiseLevel(context.Context, string) (admin.LevelState, error) {
	l.raised++
	return l.state, nil
}

func TestLevelSaysWhatIsInForceAndWhoHoldsTheNextUp(t *testing.T) {
	all := []admin.NodeLevel{{Node: "a", Knows: 2, Heard: true}, {Node: "b", Knows: 2, Heard: true}}
	behind := []admin.NodeLevel{{Node: "a", Knows: 2, Heard: true}, {Node: "b", Knows: 1, Heard: true, Blocks: true}, {Node: "c", Blocks: true}, {Node: "d", Knows: 2}}
	for _, tc := range []struct {
		state admin.LevelState
		want  []string
	}{
		{admin.LevelState{InForce: 2, Next: 2, Nodes: all}, []string{"NODE KNOWS LEVEL 2", "a 2 in force", "level 2 is in force; no node knows a higher one"}},
		{admin.LevelState{InForce: 1, Next: 2, Wait: "59m30s", Nodes: all}, []string{"b 2 known", "level 1 is in force; level 2 will be raised in 59m30s, or now by: shardway level --raise"}},
		{
			admin.LevelState{InForce: 1, Next: 2, Wait: "1h", Behind: "b; c\x1b[2J", Nodes: behind},
			[]string{"a 2 known", "b 1 held up", "c - held up: not heard", "d 2 known", "level 1 is in force; level 2 is held up by b; c?[2J"},
		},
		{admin.LevelState{InForce: 1, Next: 1}, []string{"level 1 is in force; no leader tells what the nodes know"}},
	} {
		l := &levelled{state: tc.state}
		addr := serveAny(t, admin.Options{Cluster: l})
		for _, line := range []string{"level", "level --raise"} {
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
		_, out, _ := run(t, "level --json --admin "+addr)
		var got admin.LevelState
		if err := json.Unmarshal([]byte(out), &got); err != nil || !reflect.DeepEqual(got, tc.state) {
			t.Errorf("as JSON: %+v, %v, want %+v", got, err, tc.state)
		}
	}
}
