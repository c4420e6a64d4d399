package proxy_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// A trunk that was silent for a while is asked for a word before the next request goes by it.
// Each such request opened a further lane beside the idle one, until the trunk had no lane left
// and requests had to go by connections of their own.
func TestStreamsOfSilentSessionDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ingress, owner := simPair(t, simple)
		owner.acceptMuxSessions()
		ingress.enableStreams()
		c := ingress.dial()
		for range 5 {
			c.get("/")
			time.Sleep(2 * time.Second)
			if open := owner.Connections(); open != 1 {
				t.Fatalf("%d lanes are open, want the one that carried the first request", open)
			}
		}
		_ = c.Close()
	})
}
