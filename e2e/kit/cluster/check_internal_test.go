//go:build linux

package cluster

import (
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// A node uses the last value of a flag that is set several times, so the rules of the checkers must
// use it, too.
func TestRulesUseLastValueOfFlag(t *testing.T) {
	c := &Cluster{opts: Options{Flags: []string{"--drain-timeout", "2s", "--lease", "1s", "--drain-timeout", "50ms"}}}
	rules := c.Rules()
	if rules.DrainTimeout != 50*time.Millisecond || rules.Lease != time.Second || rules.DeadAfter != 0 {
		t.Errorf("drain timeout %v, lease %v, dead-after %v, want 50ms, 1s, 0s", rules.DrainTimeout, rules.Lease, rules.DeadAfter)
	}
}

// A run without an end that another run of its request replaces must not hide a later unfinished run.
func TestEveryUnfinishedRunIsAwaited(t *testing.T) {
	succeeded := map[string]bool{"first": true, "second": true}
	runs := []history.Run{{ID: "first", App: "a"}, {ID: "first", App: "b", End: 2}, {ID: "failed", App: "b"}}
	if run := findUnfinished(runs, succeeded); run != nil {
		t.Errorf("%s is awaited, want none", run.ID)
	}
	runs = append(runs, history.Run{ID: "second", App: "b"})
	if run := findUnfinished(runs, succeeded); run == nil || run.ID != "second" {
		t.Errorf("%+v is awaited, want the request second", run)
	}
}
