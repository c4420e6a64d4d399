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

// connecting is an app whose connections are made by connect, and how many there are:
// being made and made.
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

// atOnce is a crowd of which nobody has to come again because the listener's line is
// full.
func (n *node) atOnce(size int, path string) (all []*client) {
	n.t.Helper()
	for range size {
		all = append(all, n.sendManyRequests(1, "GET "+path+" HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")...)
		synctest.Wait()
	}
	return all
}

// Connects to an app do not show that its backlog is full: the kernel completes them
// while there is room, and drops the next. So there are few that are new, each until it
// has answered or had its time, however fast they are made.
func TestNewConnsToAppAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, all := connecting(t, func(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
			return dial(ctx)
		})
		crowd := n.atOnce(200, "/poll") // answered after half a minute
		if got := all.Load(); got != 16 {
			t.Errorf("%d connections were made at once, want 16", got)
		}
		time.Sleep(51 * time.Millisecond) // they are not new any more, and each that was taken lets one more be
		synctest.Wait()
		if got := all.Load(); got != 16+32 {
			t.Errorf("%d connections after they had their time, want 48", got)
		}
		served(t, crowd)
	})
}

// A dial that takes long is one that the kernel dropped, and tries again after a
// second: others go on beside it, fewer at once, and never without a bound.
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

// Who waits in line while connections to the app are made, and has waited for all that
// it may, is not told that the app takes none: it takes them as fast as they are asked
// for. A crowd that had waited for a lease was told so, and so was whoever asks an owner,
// which lets nobody wait for long.
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

// A node that has ended its connections to the app, and is asked once more before its
// port is closed, says nothing about the app: it refused as one whose app takes none, and
// the client was told that.
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
