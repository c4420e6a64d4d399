package appinstance

import (
	"testing"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/node/disk"
)

// An app that closes its port and keeps a connection open runs on, so a refused connection does
// not show a restart. The refusal does show one if no connection is open.
func TestRefusedConnectionIsNoRestartWhileTheAppIsConnected(t *testing.T) {
	for _, connected := range []bool{true, false} {
		w := &Watch{newestState: ack.NewState, detector: ackagent.NewAppWatch(""), HasConns: func() bool { return connected }, RenewConns: func() {}}
		w.onChecked(w.beginAttempt(), "", nil)
		w.detector.Connected()
		w.detector.Applied(7, true)
		w.onRefused(w.detector.BeginAttempt(7))
		if restarted := w.detector.StartedAfter() == 7; restarted == connected {
			t.Errorf("connected %v: counts as a restart: %v", connected, restarted)
		}
	}
}

// An app in the process of the node starts with it. Any other app may have run before, with old copies of
// shards.
func TestOnlyAppInProcessStartsWithTheNode(t *testing.T) {
	dir, err := disk.Open(t.TempDir(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	for _, inProcess := range []bool{true, false} {
		w := NewWatch(Options{Dir: dir, NewestState: ack.NewState, InProcess: inProcess})
		w.detector.Applied(7, true)
		w.OnStateApplied(ack.NewState(), true)
		if w.IsInProcess() != inProcess || (w.startedAfter() == 7) != inProcess {
			t.Errorf("in process %v, want %v: started after %d", w.IsInProcess(), inProcess, w.startedAfter())
		}
	}
}
