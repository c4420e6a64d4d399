package node

import (
	"context"
	"testing"

	"shardway/ack"
	"shardway/node/disk"
)

// The first app instance of a node is absent if its address is no longer configured. Its process may still run,
// with old copies of shards. The node must not report it as an app that has started with the node.
func TestAbsentFirstInstanceCountsAsNoRestart(t *testing.T) {
	dir, err := disk.Open(t.TempDir(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	check := func(context.Context) error { return nil }
	for _, further := range [][]AppInstance{nil, {{Check: check}}} {
		w := newAppWatch(&Options{AfterRestart: true, Dir: dir, FurtherInstances: further}, ack.NewState)
		if isInProcess := len(further) == 0; w.IsInProcess() != isInProcess {
			t.Errorf("%d further instances: in process %v", len(further), w.IsInProcess())
		}
	}
}
