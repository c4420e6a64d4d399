package proxy_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// A session that was silent is pinged before the next request uses it. Once, each such request opened
// another stream in addition to the idle one, until the session had no stream left and requests had to
// use connections.
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
