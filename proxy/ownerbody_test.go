package proxy_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

// stream is a stream of forwarded requests to a node, from an ingress that the test
// plays.
func (n *node) stream() *client {
	n.t.Helper()
	conn, err := n.connect(context.Background(), n.peer)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	if n.host == nil {
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	}
	return &client{Conn: conn, t: n.t, r: bufio.NewReader(conn)}
}

const forwardedPost = "POST /x HTTP/1.1\r\nHost: h\r\nShardway-Map: 1 1\r\nShardway-Shard: 3\r\n"

// An ingress that is slow, or passes on what it should have read first, takes none of
// the owner's connections to the app by it.
func TestOwnerReadsSmallBodiesBeforeItTakesAConnection(t *testing.T) {
	n := newNode(t, "owner", webApp(t, echo), func(o *proxy.Options) { o.UpstreamConns, o.ShardConns = 1, 1 })
	slow := n.stream()
	slow.send(forwardedPost + "Content-Length: 2\r\n\r\nh")
	until(t, "awaited", func() bool { return metric(t, n, "shardway_body_bytes") > 0 })
	if n := n.admitted.Load(); n != 0 {
		t.Errorf("%d were admitted whose bodies have not come", n)
	}
	if res, body := n.dial().get("/beside"); res.StatusCode != http.StatusOK {
		t.Errorf("beside it: %v %s", res.Status, body)
	}
	slow.send("i")
	if _, body := slow.answer("POST"); body != "POST /x hi" {
		t.Errorf("body = %q", body)
	}
}

// The rate of bodies counts between nodes too, for an ingress that does not see to it:
// a little later than there, so that it is the ingress that tells its client.
func TestOwnerAsksForTheRateOfBodies(t *testing.T) {
	for _, tc := range []struct {
		what   string
		length int
		piece  int // that comes each second
		ok     bool
	}{
		{"small, slow", 10_000, 100, false},
		{"large, slow", 200_000, 400, false},
		{"small, fast enough", 15_000, 600, true},
	} {
		t.Run(tc.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := simNode(t, newSim(t), "owner", simple)
				c, ended := n.stream(), make(chan struct{})
				began := time.Now()
				c.send(forwardedPost+"Content-Length: %d\r\n\r\n", tc.length)
				go func() {
					defer close(ended)
					for left := tc.length; left > 0; left -= tc.piece {
						time.Sleep(time.Second)
						if _, err := c.Write([]byte(strings.Repeat("x", min(tc.piece, left)))); err != nil {
							return
						}
					}
				}()
				res, body := c.answer("POST")
				took := time.Since(began)
				if tc.ok && res.StatusCode != http.StatusOK {
					t.Errorf("%v %s after %v", res.Status, body, took)
				}
				if !tc.ok && (res.StatusCode != http.StatusRequestTimeout || took <= 15*time.Second || took > 80*time.Second) {
					t.Errorf("%v after %v, want 408 after 15 s and what came", res.Status, took)
				}
				_ = c.Close()
				<-ended
			})
		})
	}
}
