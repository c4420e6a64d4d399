package proxy_test

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/secret"
	"shardway/proxy"
)

// A request that waited behind dials to an unresponsive node gets the timeout as the reason. Once, it
// got "no connection", as for a node that is unreachable.
func TestProblemReportsConnectTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		quiet, err := sim.Host("b").Listen(":90") // accepts connections and sends nothing
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = quiet.Close() }()
		n := simNode(t, sim, "a", simple, func(o *proxy.Options) {
			o.QueueWait, o.ConnectTimeout = 20*time.Millisecond, 200*time.Millisecond
		})
		trust, err := secret.Derive(secret.List{secret.Generate(time.Now())}, n.id)
		if err != nil {
			t.Fatal(err)
		}
		n.seal.Store(secret.NewTLSWrapper(trust))
		n.knows("b", &node{peer: quiet.Addr().String()})
		n.swap(1, 1, remote("b", 1))
		const dials = 16
		for range dials {
			c := n.dial()
			defer func() { _ = c.Close() }()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		}
		synctest.Wait()
		if got := n.dials.Load(); got != dials {
			t.Errorf("%d connections are being made, want %d, as many as may be", got, dials)
		}
		c := n.dial()
		defer func() { _ = c.Close() }()
		res, body := c.get("/")
		wantStatus(t, res, body, 503, "peer-unreachable")
		if !strings.Contains(body, "no connection was made in time") {
			t.Errorf("nothing says why: %s", body)
		}
	})
}

// Problem responses contain no addresses of the app or of other nodes.
func TestProblemsContainNoAddresses(t *testing.T) {
	app := refusingAddr(t)
	short := func(o *proxy.Options) { o.QueueWait = 20 * time.Millisecond }
	alone := newNode(t, "a", app, short)
	ingress, owner := pair(t, app, short)
	dead := newNode(t, "b", "", short)
	dead.knows("owner", &node{peer: app})
	dead.swap(1, 1, remote("owner", 1))
	for name, n := range map[string]*node{"app": alone, "app of another node": ingress, "node": dead} {
		res, body := n.dial().get("/")
		if res.StatusCode/100 != 5 {
			t.Errorf("%s: %d", name, res.StatusCode)
		}
		_, port, _ := net.SplitHostPort(app)
		_, peer, _ := net.SplitHostPort(owner.peer)
		for _, text := range []string{port, peer, "127.0.0.1"} {
			if strings.Contains(body, text) {
				t.Errorf("%s: the answer names %s: %s", name, text, body)
			}
		}
		if name == "app" && !strings.Contains(body, "connection refused") {
			t.Errorf("%s: nothing says why: %s", name, body)
		}
	}
}
