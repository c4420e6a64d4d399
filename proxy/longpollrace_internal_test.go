package proxy

import (
	"net"
	"testing"

	"shardway/proxy/connpool"
	"shardway/proxy/h1"
	"shardway/proxy/route"
	"shardway/queue"
)

// A sweep cancels a run only if its response has not begun. The sweep loads the run, decides, and then
// cancels it. Once, a response that began in between was truncated and the client's connection
// aborted.
func TestRunIsCancelledOnlyBeforeItsResponse(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(s *slot) // called after the run was loaded
		cut  bool
	}{
		"no response":      {func(*slot) {}, true},
		"response began":   {func(s *slot) { s.setFlags(slotResponseBegun) }, false},
		"tunnel began":     {func(s *slot) { s.setFlags(slotResponseBegun | slotTunnel) }, false},
		"stream began":     {func(s *slot) { s.setFlags(slotResponseBegun | slotEvents) }, false},
		"run finished":     {func(s *slot) { s.finish() }, false},
		"next run began":   {func(s *slot) { s.finish(); s.begin(route.Local, 1, slotSafe, s.conn.Load(), nil) }, false},
		"cut already":      {func(s *slot) { s.cancel(causeDrainTimeout, func(run, string) bool { return true }, nil) }, true},
		"cut and finished": {func(s *slot) { s.cancel(causeDrainTimeout, func(run, string) bool { return true }, nil); s.finish() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer func() { _, _ = near.Close(), far.Close() }()
			server := New(Options{Queue: queue.New(queue.Options{})})
			c := makeClient(server)
			c.slot.begin(route.Local, 1, slotSafe, &connpool.Conn{Conn: h1.NewConn(near, h1.Options{})}, nil)
			r := c.slot.load()
			tc.then(&c.slot)
			before := c.slot.load()
			server.cancelBeforeResponse(c, r, causeLeaving)
			after := c.slot.load()
			if cut := after.cause != causeNone; cut != tc.cut {
				t.Errorf("cut = %v, want %v", cut, tc.cut)
			}
			if before.cause != causeNone && after.cause != before.cause {
				t.Errorf("cause = %v, want %v", after.cause, before.cause)
			}
			if tc.cut && c.slot.setFlags(slotResponseBegun) {
				t.Error("a response begins though the run was cut")
			}
		})
	}
}
