package proxy_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

const forwardedPost = "POST /x HTTP/1.1\r\nHost: h\r\nShardway-Map: 1 1\r\nShardway-Shard: 3\r\n"

// A slow ingress, or one that forwards a body before it has read it, occupies no upstream connection
// of the owner.
func TestOwnerReadsSmallBodyBeforeTakingConn(t *testing.T) {
	n := newNode(t, "owner", webApp(t, echo), func(o *proxy.Options) { o.MaxUpstreamConns, o.MaxShardConns = 1, 1 })
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

// The owner enforces the minimum body rate as well, for an ingress that does not. Its limit is
// slightly later, so that normally the ingress responds to its client.
func TestOwnerEnforcesMinBodyRate(t *testing.T) {
	for _, tc := range []struct {
		what   string
		length int
		piece  int // bytes per second
		ok     bool
	}{
		{"small, slow", 10_000, 100, false},
		{"large, slow", 200_000, 400, false},
		{"small, fast enough", 15_000, 600, true},
	} {
		t.Run(tc.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := simNode(t, newSim(t), "owner", simple)
				c, began := n.stream(), time.Now()
				c.send(forwardedPost+"Content-Length: %d\r\n\r\n", tc.length)
				ended := c.trickle(tc.length, tc.piece)
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
