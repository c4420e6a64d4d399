//go:build linux

package cluster

import (
	"testing"
	"time"
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
