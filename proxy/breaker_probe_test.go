package proxy_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/shardmap"
)

// dialed counts the dials to one address.
type dialed struct {
	now, most, all atomic.Int32
	down           atomic.Bool // all dials fail
}

// around calls dial with a delay and counts the call.
func (d *dialed) around(dial func() (net.Conn, error)) (net.Conn, error) {
	d.all.Add(1)
	if d.down.Load() {
		return nil, errors.New("nobody there")
	}
	n := d.now.Add(1)
	defer d.now.Add(-1)
	for most := d.most.Load(); n > most && !d.most.CompareAndSwap(most, n); most = d.most.Load() {
	}
	time.Sleep(50 * time.Millisecond) // in virtual time
	return dial()
}

// slowCluster is a Cluster that counts the dials to other nodes.
type slowCluster struct {
	proxy.Cluster
	d *dialed
}

func (c slowCluster) Dial(ctx context.Context, node string) (net.Conn, error) {
	return c.d.around(func() (net.Conn, error) { return c.Cluster.Dial(ctx, node) })
}

// dialedPair starts an ingress and the owner of all shards in a synctest bubble. It returns counters
// of the dials from the ingress to the owner, and from the owner to the app.
func dialedPair(t *testing.T, change ...func(*proxy.Options)) (ingress, owner *node, peers, app *dialed) {
	t.Helper()
	peers, app = new(dialed), new(dialed)
	sim := newSim(t)
	owner = simNode(t, sim, "owner", simple, append(change, func(o *proxy.Options) {
		dial := o.DialUpstream
		o.DialUpstream = func(ctx context.Context) (net.Conn, error) {
			return app.around(func() (net.Conn, error) { return dial(ctx) })
		}
	})...)
	ingress = simNode(t, sim, "ingress", simple, append(change, func(o *proxy.Options) {
		o.Cluster = slowCluster{o.Cluster, peers}
	})...)
	ingress.knows("owner", owner)
	ingress.swap(1, 1, remote("owner", 1))
	return ingress, owner, peers, app
}

// sendMany connects many clients and sends one request from each.
func (n *node) sendMany(size int) []*client {
	n.t.Helper()
	return n.sendManyRequests(size, "GET /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
}

// sendManyRequests is like sendMany with the given request.
func (n *node) sendManyRequests(size int, request string) []*client {
	n.t.Helper()
	var all []*client
	for range size {
		c := n.dial()
		c.send("%s", request)
		all = append(all, c)
	}
	return all
}

// served reads the responses of the clients and closes their connections.
func served(t *testing.T, crowd []*client) {
	t.Helper()
	for i, c := range crowd {
		if res, body := c.answer("GET"); res.StatusCode != http.StatusOK {
			t.Fatalf("answer %d = %s %s", i, res.Status, body)
		}
		_ = c.Close()
	}
}

// A burst of requests dials only a few connections at a time. Once, a thousand connections to one node
// dialed a thousand streams to the next node. Their handshakes used the whole machine, the peer port
// closed its oldest connections to make room, and heartbeats were among them: every node lost its
// lease.
func TestBurstDialsFewConnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ingress, _, peers, app := dialedPair(t)
		served(t, ingress.sendMany(500))
		for name, d := range map[string]*dialed{"the owner": peers, "the app": app} {
			if most := d.most.Load(); most > 16 {
				t.Errorf("%d connections to %s were made at once, want 16 at most", most, name)
			}
			if all := d.all.Load(); all > 100 {
				t.Errorf("%d connections to %s for 500 requests that each needed one for a moment", all, name)
			}
		}
	})
}

// While the app is down, one request probes it for all waiting requests. Once, each of 3000 waiting
// requests dialed five times a second. That wasted two thirds of a core, and with 9000 requests leases
// expired.
func TestBreakerSendsOneProbeForAllWaiters(t *testing.T) {
	const waiters, waits = 300, 10 * time.Second
	for way, front := range map[string]func(ingress, owner *node) *node{
		"local":  func(_, owner *node) *node { return owner },
		"remote": func(ingress, _ *node) *node { return ingress },
	} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ingress, owner, _, app := dialedPair(t, func(o *proxy.Options) { o.QueueWait = 2 * waits })
				n := front(ingress, owner)
				app.down.Store(true)
				crowd := n.sendMany(waiters)
				time.Sleep(time.Second) // until each has been refused
				if w := n.room.Stats().Waiting; w != waiters {
					t.Fatalf("%d wait, want %d", w, waiters)
				}
				before, dials := n.room.Stats().Released, app.all.Load()
				refused := metric(t, owner, "shardway_refused_total", "no-app")
				time.Sleep(waits)
				const most = int(waits/(200*time.Millisecond)) + 10
				if got := int(app.all.Load() - dials); got > most {
					t.Errorf("the app was dialed %d times in %v, want %d at most", got, waits, most)
				}
				if got := int(n.room.Stats().Released - before); got > most {
					t.Errorf("waiters were awakened %d times in %v, want %d at most", got, waits, most)
				}
				if got := int(metric(t, owner, "shardway_refused_total", "no-app") - refused); got > most {
					t.Errorf("the owner refused %d times in %v, want %d at most", got, waits, most)
				}
				app.down.Store(false)
				back := time.Now()
				served(t, crowd)
				if took := time.Since(back); took > time.Second {
					t.Errorf("the last one was served %v after the app was back", took)
				}
			})
		})
	}
}

// A new request that arrives while the app is known to be down does not probe it either.
func TestNewRequestsDoNotProbeDeadApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ingress, owner, _, app := dialedPair(t, func(o *proxy.Options) { o.QueueWait = time.Minute })
		for _, n := range []*node{owner, ingress} {
			app.down.Store(true)
			crowd := n.sendMany(10)
			time.Sleep(time.Second)
			dials := app.all.Load()
			for range 100 {
				crowd = append(crowd, n.sendMany(1)...)
				time.Sleep(10 * time.Millisecond)
			}
			if got := app.all.Load() - dials; got > 10 {
				t.Errorf("the app was dialed %d times while 100 requests came in a second to %s, want 10 at most", got, n.id)
			}
			app.down.Store(false)
			served(t, crowd)
		}
	})
}

// If the request that probes for all others is cancelled, another one takes over the probe.
func TestWaitersSurviveCancelOfProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ingress, _, _, app := dialedPair(t)
		app.down.Store(true)
		crowd := ingress.sendMany(10)
		synctest.Wait()
		for _, c := range crowd[:9] {
			time.Sleep(150 * time.Millisecond)
			_ = c.Close()
		}
		app.down.Store(false)
		served(t, crowd[9:])
	})
}

// A request that waits for an upstream connection follows a new table. Once, it did not detect that
// its shard had moved to another node, and kept waiting.
func TestConnWaiterRechecksNewTable(t *testing.T) {
	addr, seen := hanging(t)
	owner := newNode(t, "owner", addr, func(o *proxy.Options) { o.MaxUpstreamConns = 1 })
	other := newNode(t, "other", webApp(t, echo))
	other.swap(2, 2, local(2))
	owner.knows("other", other)
	first := owner.dial()
	first.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	<-seen
	second := owner.dial()
	second.send("GET /moved HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "it waits", func() bool { return owner.room.Stats().Waiting == 1 })
	owner.swap(2, 2, remote("other", 2))
	if res, body := second.answer("GET"); body != "GET /moved " {
		t.Errorf("answer = %s %q", res.Status, body)
	}
	owner.CancelShards(func(shardmap.Shard) bool { return true }, "draining")
}

// Requests that an owner refused are released gradually. Once, all of them were sent again at the
// moment when the log of this node was up to date.
func TestRefusedRequestsAreReleasedGradually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ingress, owner, _, _ := dialedPair(t)
		owner.swap(3, 4, remote("third", 3))
		crowd := ingress.sendMany(200)
		synctest.Wait()
		time.Sleep(time.Second)
		if w := ingress.room.Stats().Waiting; w != len(crowd) {
			t.Fatalf("%d wait, want %d", w, len(crowd))
		}
		before := ingress.room.Stats().Released
		owner.swap(5, 5, local(5))
		ingress.swap(5, 5, remote("owner", 5))
		served(t, crowd)
		if n := ingress.room.Stats().Released - before; n < 200 {
			t.Errorf("the ramp let %d go, want all 200", n)
		}
	})
}
