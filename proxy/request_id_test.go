package proxy_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"shardway/proxy"
)

// headOf is an app that responds with the header lines that it received.
func headOf(w http.ResponseWriter, r *http.Request) {
	for name, values := range r.Header {
		w.Header()["Saw-"+name] = values
	}
}

func TestRequestIDIsKeptOrGenerated(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, headOf))
			c := front.dial()
			seen := map[string]bool{}
			for _, line := range []string{"", "X-Request-Id: \r\n", ""} {
				c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n%s\r\n", line)
				res, _ := c.answer("GET")
				ids := res.Header.Values("Saw-X-Request-Id")
				if len(ids) != 1 || len(ids[0]) != 32 || strings.Trim(ids[0], "0123456789abcdef") != "" || seen[ids[0]] {
					t.Errorf("after %q the app saw %q, want 32 new hexadecimal digits", line, ids)
				}
				seen[strings.Join(ids, "")] = true
			}
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nx-request-id: mine\r\n\r\n")
			if res, _ := c.answer("GET"); res.Header.Get("Saw-X-Request-Id") != "mine" || len(res.Header.Values("Saw-X-Request-Id")) != 1 {
				t.Errorf("the app saw %q, want what the client said", res.Header.Values("Saw-X-Request-Id"))
			}
		})
	}
}

func TestRequestIDIsKeptOnRetry(t *testing.T) {
	ids := make(chan string, 2)
	addr := webApp(t, func(_ http.ResponseWriter, r *http.Request) {
		if ids <- r.Header.Get("X-Request-Id"); len(ids) == 1 {
			panic(http.ErrAbortHandler)
		}
	})
	n := newNode(t, "a", addr)
	if res, _ := n.dial().get("/"); res.StatusCode != 200 || len(ids) != 2 {
		t.Fatalf("%v, ran %d times", res.Status, len(ids))
	}
	if first, second := <-ids, <-ids; first != second {
		t.Errorf("ids %q and %q", first, second)
	}
}

func TestForwardedIsAddedOnlyIfConfigured(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: h:80\r\nX-Shard-Key: k\r\nForwarded: for=6.6.6.6\r\n\r\n"
	trust := func(o *proxy.Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} }
	asked := func(o *proxy.Options) { o.Forwarded = true }
	const mine = `for=127.0.0.1;host="h:80";proto=http`
	for way, start := range ways() {
		for name, tc := range map[string]struct {
			change []func(*proxy.Options)
			want   []string
		}{
			"not asked":   {nil, nil},
			"asked":       {[]func(*proxy.Options){asked}, []string{mine}},
			"and trusted": {[]func(*proxy.Options){asked, trust}, []string{"for=6.6.6.6", mine}},
		} {
			t.Run(way+" "+name, func(t *testing.T) {
				front, _ := start(t, webApp(t, headOf), tc.change...)
				c := front.dial()
				c.send(request)
				res, _ := c.answer("GET")
				if got := res.Header.Values("Saw-Forwarded"); strings.Join(got, "|") != strings.Join(tc.want, "|") {
					t.Errorf("the app saw %q, want %q", got, tc.want)
				}
			})
		}
	}
}
