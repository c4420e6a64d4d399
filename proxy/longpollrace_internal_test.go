package proxy

import (
	"net"
	"testing"

	"shardway/proxy/cause"
	"shardway/proxy/connpool"
	"shardway/proxy/h1"
	"shardway/proxy/inflight"
	"shardway/proxy/route"
	"shardway/queue"
)

// A sweep cancels a run only if its response has not begun. The sweep loads the run, decides, and then
// cancels it. Once, a response that began in between was truncated and the client's connection
// aborted.
func TestRunIsCancelledOnlyBeforeItsResponse(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(s *inflight.Slot) // called after the run was loaded
		cut  bool
	}{
		"no response":    {func(*inflight.Slot) {}, true},
		"response began": {func(s *inflight.Slot) { s.SetFlags(inflight.ResponseBegun) }, false},
		"tunnel began":   {func(s *inflight.Slot) { s.SetFlags(inflight.ResponseBegun | inflight.Tunnel) }, false},
		"stream began":   {func(s *inflight.Slot) { s.SetFlags(inflight.ResponseBegun | inflight.Events) }, false},
		"run finished":   {func(s *inflight.Slot) { s.Finish() }, false},
		"next run began": {func(s *inflight.Slot) { s.Finish(); s.Begin(route.Local, 1, inflight.Safe, s.Conn.Load(), nil) }, false},
		"cut already": {func(s *inflight.Slot) {
			s.Cancel(cause.DrainTimeout, func(inflight.Run, string) bool { return true }, nil)
		}, true},
		"cut and finished": {func(s *inflight.Slot) {
			s.Cancel(cause.DrainTimeout, func(inflight.Run, string) bool { return true }, nil)
			s.Finish()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			defer func() { _, _ = near.Close(), far.Close() }()
			server := New(Options{Queue: queue.New(queue.Options{})})
			c := makeClient(server)
			c.slot.Begin(route.Local, 1, inflight.Safe, &connpool.Conn{Conn: h1.NewConn(near, h1.Options{})}, nil)
			r := c.slot.Load()
			tc.then(&c.slot)
			before := c.slot.Load()
			cancelBeforeResponse(&c.slot, r, cause.Leaving, server.metrics)
			after := c.slot.Load()
			if cut := after.Cause != cause.None; cut != tc.cut {
				t.Errorf("cut = %v, want %v", cut, tc.cut)
			}
			if before.Cause != cause.None && after.Cause != before.Cause {
				t.Errorf("cause = %v, want %v", after.Cause, before.Cause)
			}
			if tc.cut && c.slot.SetFlags(inflight.ResponseBegun) {
				t.Error("a response begins though the run was cut")
			}
		})
	}
}
