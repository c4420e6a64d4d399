package node

import (
	"testing"

	"shardway/ack"
	ackagent "shardway/ack/agent"
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
