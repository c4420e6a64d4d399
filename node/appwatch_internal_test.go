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
		w := &appWatch{newest: ack.NewState, watch: ackagent.NewAppWatch(""), connected: func() bool { return connected }, renew: func() {}}
		w.checked(w.begin(), "", nil)
		w.watch.Connected()
		w.watch.Applied(7, true)
		w.refused(w.watch.BeginAttempt(7))
		if restarted := w.watch.StartedAfter() == 7; restarted == connected {
			t.Errorf("connected %v: counts as a restart: %v", connected, restarted)
		}
	}
}
