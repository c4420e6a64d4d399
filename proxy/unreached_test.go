package proxy_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"shardway/proxy"
)

// Where the app and the other nodes are is nothing for whoever asks.
func TestProblemsNameNoAddresses(t *testing.T) {
	gone := listen(t)
	app := gone.Addr().String()
	_ = gone.Close()
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
