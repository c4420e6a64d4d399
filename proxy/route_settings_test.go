package proxy_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/proxy/keylimit"
)

// askPath requests a path with key k and returns the response.
func (n *node) askPath(path string) *reply {
	n.t.Helper()
	c := n.dial()
	defer func() { _ = c.Close() }()
	res, _ := c.get(path)
	return res
}

// The owner applies the limit of the longest prefix that has one. Prefixes with limits have buckets of
// their own.
func TestRouteHasOwnKeyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		change := func(o *proxy.Options) {
			o.KeyLimit = keylimit.Limit{Interval: time.Hour, Burst: 4}
			o.Routes = []proxy.Route{
				{Prefix: "/api", KeyLimit: &keylimit.Limit{Interval: time.Hour, Burst: 2}},
				{Prefix: "/api/slow", FirstByteTimeout: time.Hour},
				{Prefix: "/api/free", KeyLimit: &keylimit.Limit{}},
			}
		}
		owner := simNode(t, sim, "owner", simple, change)
		ingress := simNode(t, sim, "ingress", simple, change)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		for i, step := range []struct {
			path string
			want int
		}{
			{"/api", 200},
			{"/api/slow/x", 200},
			{"/api/x", 429},
			{"/api/slow", 429},
			{"/%61pi/x", 429},
			{"/api/x?/api/free", 429},
			{"/api/free", 200},
			{"/api/free/x", 200},
			{"/api/free/y", 200},
			{"/x", 200},
			{"/apix", 200},
			{"/", 200},
			{"/free", 200},
			{"/y", 429},
			{"//api/x", 400},
			{"/API/x", 400},
			{"/api/FREE", 400},
			{"/x/../api", 400},
			{"/api%2Fx", 400},
			{"/api/free/..%2Fx", 400},
		} {
			if res := []*node{owner, ingress}[i%2].askPath(step.path); res.StatusCode != step.want {
				t.Errorf("request %d for %s: %s, want %d", i, step.path, res.Status, step.want)
			}
		}
	})
}

// The timeout of a route replaces that of the settings, in both directions, also on a connection that
// continues with other paths.
func TestRouteHasOwnFirstByteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		change := func(o *proxy.Options) {
			o.FirstByteTimeout = 2 * time.Second
			o.Routes = []proxy.Route{{Prefix: "/poll", FirstByteTimeout: time.Minute}, {Prefix: "/slow", FirstByteTimeout: 100 * time.Millisecond}}
		}
		owner := simNode(t, sim, "owner", simple, change)
		ingress := simNode(t, sim, "ingress", simple, change)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		for _, front := range []*node{owner, ingress} {
			if res := front.askPath("/poll"); res.StatusCode != 200 {
				t.Errorf("a slow path with a long timeout: %s", res.Status)
			}
			if res := front.askPath("/slow"); res.StatusCode != 504 {
				t.Errorf("a path with a short timeout: %s", res.Status)
			}
			if res := front.askPath("/x"); res.StatusCode != 200 {
				t.Errorf("another path: %s", res.Status)
			}
		}
		time.Sleep(time.Second) // the app still sleeps
	})
}

// The idle timeout of a route replaces that of the settings for its responses only, also on a connection
// to the app that has served another route.
func TestRouteHasOwnUpstreamIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		change := func(o *proxy.Options) {
			o.UpstreamIdleTimeout = 40 * time.Second
			o.Routes = []proxy.Route{{Prefix: "/chunks/short", UpstreamIdleTimeout: time.Second}, {Prefix: "/chunks/short/off", UpstreamIdleTimeout: -1}}
		}
		owner := simNode(t, sim, "owner", slowApp, change)
		ingress := simNode(t, sim, "ingress", slowApp, change)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		for _, front := range []*node{owner, ingress} {
			for _, tc := range []struct {
				path     string
				complete bool
			}{{"/chunks", true}, {"/chunks/short", false}, {"/chunks/short/off", true}, {"/chunks/short", false}, {"/chunks", true}} {
				c := front.dial()
				c.send("GET %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nConnection: close\r\n\r\n", tc.path)
				text, _ := io.ReadAll(c.r)
				if isComplete := strings.HasSuffix(string(text), "\r\n0\r\n\r\n"); isComplete != tc.complete || !strings.Contains(string(text), "begin") {
					t.Errorf("%s: %q", tc.path, text)
				}
			}
		}
		time.Sleep(time.Minute) // the app ends
	})
}
