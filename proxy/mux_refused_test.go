package proxy_test

import (
	"context"
	"testing"

	"shardway/peer/mux"
)

// A refused stream was not read by the owner. Its request is sent over a connection at once, whatever
// its method, and runs once. Streams that were accepted before continue.
func TestRefusedStreamFallsBackToConn(t *testing.T) {
	for _, method := range []string{"GET", "POST", "PUT"} {
		t.Run(method, func(t *testing.T) {
			app, asked, answer := heldApp(t)
			ingress, owner := pair(t, app)
			ctx, cancel := context.WithCancel(context.Background())
			t.Cleanup(cancel)
			budget := mux.NewBudget(1, nil)
			owner.plays(budget, func(l *mux.Stream) { owner.ServePeer(ctx, l, "other") })
			ingress.enableStreams()
			taken, refused := ingress.dial(), ingress.dial()
			for i, c := range []*client{taken, refused} {
				c.send("%s /%d HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 4\r\n\r\nbody", method, i)
				until(t, "it runs", func() bool { return asked.Load() == int32(i+1) })
			}
			if d, l, unsent := ingress.dials.Load(), ingress.lanes.Load(), metric(t, ingress, "shardway_retries_total", "unsent"); d != 1 || l != 2 || unsent != 1 || budget.InUse() != 1 {
				t.Errorf("%d connections, %d lanes of which %d are taken, and %v requests went again, want one of each but two lanes", d, l, budget.InUse(), unsent)
			}
			close(answer)
			for _, c := range []*client{taken, refused} {
				if res, body := c.answer(method); res.StatusCode != 200 || body != "ok" {
					t.Errorf("%s %q", res.Status, body)
				}
			}
			if asked.Load() != 2 || owner.admitted.Load() != 2 {
				t.Errorf("%d runs of two requests, %d of them admitted", asked.Load(), owner.admitted.Load())
			}
		})
	}
}
