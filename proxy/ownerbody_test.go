package proxy_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

const forwardedPost = "POST /x HTTP/1.1\r\nHost: h\r\nShardway-Map: 1 1\r\nShardway-Shard: 3\r\n"

// An ingress that is slow, or passes on what it should have read first, takes none of
// the owner's connections to the app by it.
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

// The rate of bodies counts between nodes too, for an ingress that does not see to it:
// a little later than there, so that it is the ingress that tells its client.
func TestOwnerEnforcesMinBodyRate(t *testing.T) {
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
