package proxy_test

import (
	"errors"
	"testing"

	"shardway/peer/mux"
	"shardway/proxy"
)

// A mux session that breaks aborts many requests. The retry of each needs no retry budget, so the
// budget stays available for requests that an app has failed. A request whose stream fails alone needs
// budget.
func TestRetryAfterSessionLossNeedsNoBudget(t *testing.T) {
	for name, tc := range map[string]struct {
		cut    func(l *mux.Stream)
		status int
	}{
		"broken": {func(l *mux.Stream) { l.FailSession(errors.New("cut")) }, 200},
		"deaf":   {func(l *mux.Stream) { l.FailSession(proxy.ErrPathDead) }, 200},
		"alone":  {func(l *mux.Stream) { _ = l.SetLinger(0); _ = l.Close() }, 502},
	} {
		t.Run(name, func(t *testing.T) {
			app, asked, answer := heldApp(t)
			ingress, owner := overStreams(pair)(t, app)
			ingress.SpendRetries()
			c := ingress.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			until(t, "it runs", func() bool { return asked.Load() == 1 })
			first := ingress.lane.Load()
			tc.cut(first)
			if tc.status == 200 {
				until(t, "it runs again", func() bool { return asked.Load() == 2 && owner.running.Load() == 1 })
			}
			close(answer)
			if res, body := c.answer("GET"); res.StatusCode != tc.status {
				t.Errorf("%s %s, want %d", res.Status, body, tc.status)
			}
		})
	}
}

// The second loss of a stream needs retry budget like any other retry. Only the first one is free.
func TestRetryAfterStreamLossNeedsBudget(t *testing.T) {
	app, asked, _ := heldApp(t)
	ingress, owner := overStreams(pair)(t, app)
	breaks := owner.breakable()
	ingress.SpendRetries()
	c := ingress.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "it runs", func() bool { return asked.Load() == 1 })
	ingress.lane.Load().FailSession(errors.New("cut"))
	until(t, "it runs again", func() bool { return asked.Load() == 2 })
	breaks()
	if res, body := c.answer("GET"); res.StatusCode != 502 {
		t.Errorf("%s %s, want 502", res.Status, body)
	}
}
