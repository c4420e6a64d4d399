package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"shardway/proxy"
)

// hookSpellings returns ways to write a path at or below /hooks/v1 that some server treats as this
// path.
func hookSpellings() []string {
	return []string{
		"/hooks/v1", "/hooks/v1/", "/hooks/v1/release", "/hooks/v1?x=1", "/Hooks/V1/release", "/HOOKS/v1",
		"/%68ooks/v1", "/hooks%2Fv1", "/hooks%2fv1/release", "/%2568ooks/v1", "/%25252525252568ooks/v1", "/%25%36%38ooks/v1", "/hooks/%761",
		"//hooks/v1", "/hooks//v1", "///hooks////v1/release", "/./hooks/v1", "/hooks/./v1", "/%2e/hooks/v1", "/hooks/%252e/v1",
		"/x/../hooks/v1", "/x/%2e%2e/hooks/v1", "/hooks/x/../v1", "/hooks/v1/../v1", "/x/..%2fhooks/v1", "/a/b/../../hooks/v1", "/hooks/v1/..", "/hooks/v1/%2e%2e/x",
		"/hooks;a=b/v1", "/;/hooks/v1", "/hooks/v1;x", "/hooks/;x/v1/release", "/x/..;/hooks/v1", "/%3b/hooks/v1", "/;%2fx/hooks/v1", "/hooks%3bx/v1",
		`/hooks\v1`, `/\hooks\v1`, "/hooks%5Cv1", "/hooks%255cv1", `/x\..\hooks/v1`,
		"//evil/hooks/v1", `/\evil/hooks/v1`, "/http://h/hooks/v1", "//h:80/hooks/v1/release", "/%2fevil/hooks/v1",
		"/hooks%00/v1", "/hooks/v1%00x", "/hooks/v1%3Fx", "/hooks/v1%23x", "/hoo%0aks/v1", "/hooks/%09v1",
		"/hook%C5%BF/v1", "/hoo%E2%84%AAs/v1", "/%EF%BD%88ooks/v1", "/hooks%c0%afv1", "/%25u0068ooks/v1", "/hooks%EF%BC%8Fv1",
		"/%e0%81%a8ooks/v1", "/hooks%e0%80%afv1", "/%f0%80%81%a8ooks/v1", "/hooks%f0%80%80%afv1", "/%f8%80%80%81%a8ooks/v1", "/%fc%80%80%80%81%a8ooks/v1", "/%e0%81%25a8ooks/v1",
		"/%f0%8f%bd%88ooks/v1", "/hooks%E2%81%84v1", "/hooks%E2%88%95v1",
		"/hooks./v1", "/hooks%20/v1", "/x/..%20/hooks/v1", "/hooks/x/.%2e./v1", "/hooks%2e%20./v1/release", "/.../hooks/v1", "/hooks/v1.", "/hooks%C2%A0/v1", "/hooks/v1%E3%80%80",
		"/ho%ffoks/v1", "/hooks%80/v1", "/hooks%c0/v1", "/hooks%c0%2fv1", "/hooks%0b/v1", "/hooks/v1%08", "/%7fhooks/v1", "/h%c2%adooks/v1", "/%EF%BB%BFhooks/v1", "/hooks%E2%80%8B/v1", "/%ff/hooks/v1", "/%25%ff68ooks/v1",
	}
}

// A client cannot reach the hooks of the app, in any spelling that the app may accept for their path.
// This applies to the owner and to other nodes.
func TestClientsCannotReachHooks(t *testing.T) {
	for way, start := range ways() {
		for _, told := range []string{"both", "owner"} {
			t.Run(way+" "+told, func(t *testing.T) {
				var seen atomic.Pointer[string]
				app := webApp(t, func(w http.ResponseWriter, r *http.Request) { seen.Store(&r.RequestURI); w.WriteHeader(http.StatusOK) })
				first := true // the owner is the first node
				front, _ := start(t, app, func(o *proxy.Options) {
					if told == "both" || first {
						o.HookPath = "/hooks/v1"
					}
					first = false
				})
				c := front.dial()
				for _, path := range hookSpellings() {
					c.send("POST %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nShardway-Hook: release\r\nContent-Length: 2\r\n\r\n{}", path)
					res, body := c.answer("POST")
					if res.StatusCode == http.StatusBadRequest { // no server accepts it as a request target
						t.Errorf("%s is no target: %s", path, body)
						c = front.dial()
						continue
					}
					if at := seen.Swap(nil); at != nil {
						t.Errorf("%s reached the app as %s", path, *at)
						continue
					}
					wantStatus(t, res, body, http.StatusNotFound, "not-found")
				}
			})
		}
	}
}

// A path that no server treats as a hook path is forwarded to the app.
func TestOtherPathsReachTheApp(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo), func(o *proxy.Options) { o.HookPath = "/hooks/v1" })
	c := n.dial()
	for _, path := range []string{
		"/", "/hooks", "/hooks/", "/hooks/v", "/hooks/v10", "/hooksv1", "/hooks-v1", "/x/hooks/v1", "/api/hooks/v1?a", "/api/a%20b/hooks/v1", "/groups/a%2Fb/hooks/v1",
		"/x//hooks/v1", "/hooks/x/v1", "/?/hooks/v1", "/a/../b", "/hooks;/v2", "/v1/../hooks", "/h%C3%B6oks/v1", "/hoo%6b/s/v1",
		"/%E6%97%A5%E6%9C%AC/hooks/v1", "/hooks%20v1", "/hooks/.v1", "/hoo%ff/v1", "/hooks.json/v1", "/ho%e9%e9oks/v1x",
	} {
		if res, body := c.get(path); res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", path, res.StatusCode, body)
		}
	}
}

// Only nodes can send Shardway-Hook. A client's field with this name, in any spelling that a server
// may accept, is dropped, including in the trailer section.
func TestClientsCannotSendShardwayHook(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, r *http.Request) {
				for name := range r.Header {
					if strings.Contains(strings.ToLower(name), "hook") || strings.Contains(strings.ToLower(name), "minted") {
						t.Errorf("the app sees %s", name)
					}
				}
				_, _ = io.Copy(io.Discard, r.Body)
				if len(r.Trailer) > 0 {
					t.Errorf("the app sees the trailers %v", r.Trailer)
				}
				w.WriteHeader(http.StatusOK)
			}))
			c := front.dial()
			for _, name := range []string{"Shardway-Hook", "shardway-HOOK", "Shardway_Hook", "SHARDWAY_HOOK", "Shardway.Hook", "Shardway~hook", "Shardway-Minted", "Shardway_Minted"} {
				c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%s: acquire\r\n\r\n", name)
				if res, body := c.answer("GET"); res.StatusCode != http.StatusOK {
					t.Errorf("%s: %d %s", name, res.StatusCode, body)
				}
			}
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nShardway-Hook: acquire\r\n\r\n")
			if res, body := c.answer("POST"); res.StatusCode != http.StatusOK {
				t.Errorf("a trailer, which is dropped: %d %s", res.StatusCode, body)
			}
		})
	}
}
