package proxy_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

// connecting starts an app whose connections are dialed by connect. It returns the numbers of dials in
// progress and of completed dials.
func connecting(t *testing.T, connect func(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error)) (n *node, all *atomic.Int32) {
	t.Helper()
	all = new(atomic.Int32)
	return simNode(t, newSim(t), "a", simple, func(o *proxy.Options) {
		dial := o.DialUpstream
		o.ConnectTimeout, o.QueueWait, o.FirstByteTimeout = time.Hour, time.Hour, time.Hour
		o.DialUpstream = func(ctx context.Context) (net.Conn, error) {
			all.Add(1)
			return connect(ctx, dial)
		}
	}), all
}

// atOnce connects many clients, slowly enough that the backlog of the listener does not overflow and
// no client must retry.
func (n *node) atOnce(size int, path string) (all []*client) {
	n.t.Helper()
	for range size {
		all = append(all, n.sendManyRequests(1, "GET "+path+" HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")...)
		synctest.Wait()
	}
	return all
}

// The number of new connections to an app is limited, however fast they are established. A connection
// counts as new until its first response or a timeout. A completed connect does not show that the
// app's backlog has room: the kernel completes connects while there is room, and drops the next.
func TestNewConnsToAppAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, all := connecting(t, func(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
			return dial(ctx)
		})
		crowd := n.atOnce(200, "/poll") // answered after half a minute
		if got := all.Load(); got != 16 {
			t.Errorf("%d connections were made at once, want 16", got)
		}
		time.Sleep(51 * time.Millisecond) // connections are no longer new; each accepted one permits another dial
		synctest.Wait()
		if got := all.Load(); got != 16+32 {
			t.Errorf("%d connections after they had their time, want 48", got)
		}
		served(t, crowd)
	})
}

// A stuck dial was dropped by the kernel, which retries after a second. Other dials continue
// in the meantime, fewer at a time, and always with a limit.
func TestStuckDialsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		back := make(chan struct{})
		n, all := connecting(t, func(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
			<-back
			return dial(ctx)
		})
		crowd := n.atOnce(200, "/x")
		if got := all.Load(); got != 16 {
			t.Errorf("%d dials at first, want 16", got)
		}
		time.Sleep(260 * time.Millisecond)
		synctest.Wait()
		if got := all.Load(); got <= 16 || got > 16+8 {
			t.Errorf("%d dials when 16 were stuck, want half as many more at most", got)
		}
		time.Sleep(time.Minute)
		if got := all.Load(); got < 48 || got >= 48+16 {
			t.Errorf("%d dials that all are stuck, want 48 and no more than fit beside the last", got)
		}
		close(back)
		served(t, crowd)
	})
}

// A request that waits for a pending dial until its timeout is not told that the app refuses
// connections, because the app accepts them as fast as they are dialed. Once, requests that had waited
// for a lease got that response, and so did requests to an owner, which queues requests only briefly.
func TestPendingDialIsNotReportedAsAppFailure(t *testing.T) {
	for way, code := range map[string]string{"local": "queue-timeout", "forwarded": "upstream-busy"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := newSim(t)
				slow := func(o *proxy.Options) {
					dial := o.DialUpstream
					o.QueueWait = 500 * time.Millisecond
					o.DialUpstream = func(ctx context.Context) (net.Conn, error) {
						time.Sleep(time.Second)
						return dial(ctx)
					}
				}
				front := simNode(t, sim, "owner", simple, slow)
				if owner := front; way == "forwarded" {
					front = simNode(t, sim, "ingress", simple, slow)
					front.knows("owner", owner)
					front.swap(1, 1, remote("owner", 1))
				}
				late := 0
				for _, c := range front.atOnce(60, "/x") {
					res, body := c.answer("GET")
					if res.StatusCode != http.StatusOK {
						late++
						wantStatus(t, res, body, http.StatusServiceUnavailable, code)
					}
					_ = c.Close()
				}
				if late == 0 || late == 60 {
					t.Errorf("%d of 60 came too late, want some", late)
				}
			})
		})
	}
}

// A node that stops closes its upstream connections before its own port. A request that arrives in
// between says nothing about the app. Once, the node refused it as if its app were down, and the
// client got that response.
func TestNodeStopIsNotReportedAsAppFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		owner := simNode(t, sim, "owner", simple)
		front := simNode(t, sim, "ingress", simple, func(o *proxy.Options) { o.QueueWait = 500 * time.Millisecond })
		front.knows("owner", owner)
		front.swap(1, 1, remote("owner", 1))
		if err := owner.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		res, body := front.atOnce(1, "/x")[0].answer("GET")
		wantStatus(t, res, body, http.StatusServiceUnavailable, "queue-timeout")
	})
}
