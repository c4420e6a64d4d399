package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/simnet"
	"shardway/proxy"
	"shardway/proxy/route"
)

// simNode starts a node and its app on a simulated host.
func simNode(t *testing.T, sim *simnet.Net, id string, app func(net.Conn, *bufio.Reader), change ...func(*proxy.Options)) *node {
	t.Helper()
	h := sim.Host(id)
	n := &node{t: t, id: id, host: h, addr: h.Addr(80), peer: h.Addr(90)}
	clients, err1 := h.Listen(":80")
	peers, err2 := h.Listen(":90")
	apps, err3 := h.Listen(":8000")
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	t.Cleanup(func() { time.Sleep(2 * time.Millisecond) }) // the server of an in-process app has a goroutine that sleeps for 1 ms: see newServer
	t.Cleanup(func() { _ = apps.Close() })
	go func() {
		for {
			conn, err := apps.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				app(conn, bufio.NewReader(conn))
			}()
		}
	}()
	first := func(o *proxy.Options) {
		o.DialUpstream = func(ctx context.Context) (c net.Conn, err error) { return h.Dial(ctx, h.Addr(8000)) }
	}
	n.start(clients, peers, append([]func(*proxy.Options){first}, change...))
	return n
}

// simple is an app that responds to every request with its method, path and body, to /slow after half
// a second and to /poll after half a minute.
func simple(conn net.Conn, r *bufio.Reader) {
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		switch req.URL.Path { // in virtual time
		case "/slow":
			time.Sleep(time.Second / 2)
		case "/poll":
			time.Sleep(30 * time.Second)
		}
		text := req.Method + " " + req.URL.Path + " " + string(body)
		res := http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text))}
		if res.Write(conn) != nil {
			return
		}
	}
}

// newSim creates the network of a synctest bubble. All goroutines must end with the test.
func newSim(t *testing.T) *simnet.Net {
	t.Helper()
	sim := simnet.New(simnet.Config{})
	t.Cleanup(sim.Close)
	return sim
}

func TestVirtualTimeRequestsLocalAndRemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		owner := simNode(t, sim, "owner", simple)
		ingress := simNode(t, sim, "ingress", simple)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		for _, n := range []*node{owner, ingress} {
			c := n.dial()
			for range 3 {
				c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
				if _, body := c.answer("POST"); body != "POST /x hi" {
					t.Errorf("body = %q", body)
				}
			}
			_ = c.Close()
		}
	})
}

func TestWaitingTakesExactlyQueueWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		n := simNode(t, sim, "a", simple, func(o *proxy.Options) { o.QueueWait = 10 * time.Second })
		for name, spoil := range map[string]func(){
			"held":     func() { n.swap(2, 3, held(route.ReasonMoving)) },
			"no lease": func() { n.swap(3, 3, local(3)); n.refuse.Store(int32(route.RefusedNoLease)) },
			"no owner": func() { n.swap(4, 4, remote("nobody", 3)) },
		} {
			spoil()
			began := time.Now()
			c := n.dial()
			res, _ := c.get("/")
			if took := time.Since(began); res.StatusCode != 503 || took != 10*time.Second {
				t.Errorf("%s: %v after %v", name, res.Status, took)
			}
			_ = c.Close()
		}
	})
}

// Without a lease, requests wait for the table that the node creates when its lease returns. None of
// ten thousand requests polls before that.
func TestWithoutLeaseRequestsWaitForTheNextTable(t *testing.T) {
	for name, lose := range map[string]func(*node){
		"at admission":          func(n *node) { n.refuse.Store(int32(route.RefusedNoLease)) },
		"before the first byte": func(n *node) { n.lease.Store(0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := newSim(t)
				n := simNode(t, sim, "a", simple, func(o *proxy.Options) { o.QueueWait = time.Minute })
				lose(n)
				c := n.dial()
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
				time.Sleep(9 * time.Second)
				if asked := n.asked.Load(); asked != 1 {
					t.Errorf("asked %d times while there was no lease, want once", asked)
				}
				n.refuse.Store(0)
				n.lease.Store(int64(time.Hour))
				began := time.Now()
				n.swap(1, 1, local(1))
				if res, _ := c.answer("POST"); res.StatusCode != 200 || time.Since(began) != 0 {
					t.Errorf("%v, %v after the lease came back", res.Status, time.Since(began))
				}
				_ = c.Close()
			})
		})
	}
}

func TestQueuedRequestContinuesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		n := simNode(t, sim, "a", simple)
		n.swap(1, 2, held(route.ReasonMoving))
		c := n.dial()
		began := time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			n.swap(2, 2, local(2))
		}()
		if res, _ := c.get("/"); res.StatusCode != 200 || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", res.Status, time.Since(began))
		}
		_ = c.Close()
	})
}

func TestSlowClientsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		n := simNode(t, sim, "a", simple)
		for _, tc := range []struct {
			what, sent string
			after      time.Duration
			status     int
		}{
			{"idle", "", 75 * time.Second, 0},
			{"in its head", "GET / HTTP/1.1\r\nHo", 10 * time.Second, 408},
			{"in its body", "POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 10\r\n\r\nhalf", 10 * time.Second, 408},
		} {
			began := time.Now()
			c := n.dial()
			c.send("%s", tc.sent)
			if tc.status != 0 {
				if res, _ := c.answer("POST"); res.StatusCode != tc.status {
					t.Errorf("%s: %v", tc.what, res.Status)
				}
			}
			c.closed()
			if took := time.Since(began); took < tc.after*15/16 || took > tc.after*17/16+time.Second {
				t.Errorf("%s: closed after %v, want %v", tc.what, took, tc.after)
			}
			_ = c.Close()
		}
	})
}

func TestOwnerCrashUnderLoadLosesNoSafeRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		owner := simNode(t, sim, "owner", simple)
		second := simNode(t, sim, "second", simple)
		ingress := simNode(t, sim, "ingress", simple)
		ingress.knows("owner", owner)
		ingress.knows("second", second)
		ingress.swap(1, 1, remote("owner", 1))
		var cs []*client
		for range 20 {
			c := ingress.dial()
			c.get("/") // each request leaves an idle stream to the owner in the pool
			cs = append(cs, c)
		}
		for _, c := range cs {
			c.send("GET /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		}
		owner.host.Crash()
		for _, c := range cs {
			c.send("POST /y HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
		}
		time.Sleep(800 * time.Millisecond)
		second.swap(2, 2, local(2))
		ingress.swap(2, 2, remote("second", 2))
		for i, c := range cs {
			if res, body := c.answer("GET"); res.StatusCode != 200 || body != "GET /x " {
				t.Errorf("GET %d = %v %q", i, res.Status, body)
			}
			if res, body := c.answer("POST"); res.StatusCode != 200 {
				t.Errorf("POST %d = %v %q", i, res.Status, body)
			}
			_ = c.Close()
		}
	})
}

func TestShutdownInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		n := simNode(t, sim, "a", func(_ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) })
		c := n.dial()
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if err := n.Shutdown(ctx); err == nil || time.Since(began) != 5*time.Second {
			t.Errorf("Shutdown = %v after %v", err, time.Since(began))
		}
		c.closed()
	})
}

func TestUpgradedConnectionEndsAfterItsShardMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		swallow := func(conn net.Conn, r *bufio.Reader) {
			if _, err := readHead(r); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: thing\r\n\r\n")
				_, _ = io.Copy(io.Discard, r)
			}
		}
		owner := simNode(t, sim, "owner", swallow)
		ingress := simNode(t, sim, "ingress", swallow)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		for _, n := range []*node{owner, ingress} {
			owner.swap(1, 1, local(1))
			c := n.dial()
			c.send(upgrade)
			if _, err := readHead(c.r); err != nil {
				t.Fatal(err)
			}
			owner.swap(1, 2, held(route.ReasonNoLease)) // no reason to end the request
			time.Sleep(time.Minute)
			if owner.running.Load() != 1 {
				t.Errorf("through %s: ended without its shard moving", n.id)
			}
			began := time.Now()
			owner.swap(2, 2, remote("other", 2))
			c.closed()
			synctest.Wait()
			if took := time.Since(began); took < 250*time.Millisecond || took > 400*time.Millisecond || owner.running.Load() != 0 {
				t.Errorf("through %s: ended after %v, want StreamGrace", n.id, took)
			}
			_ = c.Close()
		}
	})
}
