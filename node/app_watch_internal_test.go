package node

import (
	"context"
	"testing"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/node/disk"
)

// An app that closes its port and keeps a connection open runs on, so a refused connection does
// not show a restart. The refusal does show one if no connection is open.
func TestRefusedConnectionIsNoRestartWhileTheAppIsConnected(t *testing.T) {
	for _, connected := range []bool{true, false} {
		w := &appWatch{newestState: ack.NewState, detector: ackagent.NewAppWatch(""), hasConns: func() bool { return connected }, renewConns: func() {}}
		w.onChecked(w.beginAttempt(), "", nil)
		w.detector.Connected()
		w.detector.Applied(7, true)
		w.onRefused(w.detector.BeginAttempt(7))
		if restarted := w.detector.StartedAfter() == 7; restarted == connected {
			t.Errorf("connected %v: counts as a restart: %v", connected, restarted)
		}
	}
}

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
		w.detector.Applied(7, true)
		w.onStateApplied(ack.NewState(), true)
		if isInProcess := len(further) == 0; w.inProcess != isInProcess || (w.startedAfter() == 7) != isInProcess {
			t.Errorf("%d further instances: in process %v, started after %d", len(further), w.inProcess, w.startedAfter())
		}
	}
}
