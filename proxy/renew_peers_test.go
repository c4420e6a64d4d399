package proxy_test

import (
	"io"
	"net/http"
	"testing"
)

// Renewing peer connections aborts no request. A request in flight finishes on its connection, and the
// next requests use new connections.
func TestRenewedPeersAreDialedAgain(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	app := webApp(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			close(held)
			<-hold
		}
		_, _ = io.WriteString(w, "ok")
	})
	ingress, _ := sealedPair(t, app)
	c := ingress.dial()
	get := func(path string) {
		t.Helper()
		c.send("GET %s HTTP/1.1\r\nHost: a\r\nX-Shard-Key: k\r\n\r\n", path)
		res, body := c.head("GET")
		if b, _ := io.ReadAll(body); res.StatusCode != 200 || string(b) != "ok" {
			t.Errorf("GET %s = %d %q", path, res.StatusCode, b)
		}
	}
	get("/")
	if n := ingress.dials.Load(); n != 1 {
		t.Fatalf("%d dials, want 1", n)
	}
	go func() {
		<-held
		ingress.RenewPeers()
		close(hold)
	}()
	get("/hold") // over the existing connection
	get("/")
	get("/")
	if n := ingress.dials.Load(); n != 2 {
		t.Errorf("%d dials, want 2: one before and one after", n)
	}
	ingress.RenewPeers() // closes idle connections at once
	get("/")
	if n := ingress.dials.Load(); n != 3 {
		t.Errorf("%d dials, want 3", n)
	}
}

// Renewing the connections to one node does not affect connections to other nodes. The connection that
// was used last may not be idle yet.
func TestOnlyMatchingPeersAreRenewed(t *testing.T) {
	app := webApp(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	ingress, _ := sealedPair(t, app)
	c := ingress.dial()
	for _, step := range []struct {
		named bool
		want  int32
	}{{false, 1}, {false, 1}, {true, 2}} {
		ingress.RenewPeersWhere(func(node string) bool { return step.named && node != "" })
		c.send("GET / HTTP/1.1\r\nHost: a\r\nX-Shard-Key: k\r\n\r\n")
		res, body := c.head("GET")
		if b, _ := io.ReadAll(body); res.StatusCode != 200 || string(b) != "ok" {
			t.Errorf("GET = %d %q", res.StatusCode, b)
		}
		if n := ingress.dials.Load(); n != step.want {
			t.Errorf("%d dials after named: %v, want %d", n, step.named, step.want)
		}
	}
}
