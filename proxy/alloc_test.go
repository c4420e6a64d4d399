package proxy_test

import (
	"bufio"
	"bytes"
	"net"
	"testing"

	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/proxy/shardkey"
)

const plainHead = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 100\r\n\r\n"

// plainApp is an app that responds to every request with the same bytes, in one write for each element
// of answer. It allocates nothing.
func plainApp(t *testing.T, answer ...[]byte) string {
	t.Helper()
	return rawApp(t, func(conn net.Conn, _ *bufio.Reader) {
		buf := make([]byte, 8<<10)
		for {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			for _, part := range answer {
				if _, err := conn.Write(part); err != nil {
					return
				}
			}
		}
	})
}

func TestRequestsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool forgets things under the race detector")
	}
	body := bytes.Repeat([]byte("x"), 100)
	whole, apart := [][]byte{append([]byte(plainHead), body...)}, [][]byte{[]byte(plainHead), body}
	for _, tc := range []struct {
		name, request string
		answer        [][]byte
		keys          []string
		routes        []shardkey.Route
	}{
		{"GET", "GET /path?q=1 HTTP/1.1\r\nHost: example\r\nUser-Agent: test\r\nAccept: */*\r\nX-Shard-Key: alice\r\n\r\n", whole, nil, nil},
		{"GET of what comes in two", "GET / HTTP/1.1\r\nHost: example\r\nX-Shard-Key: alice\r\n\r\n", apart, nil, nil},
		{"POST", "POST /path HTTP/1.1\r\nHost: example\r\nX-Shard-Key: alice\r\nContent-Length: 5\r\n\r\nhello", whole, nil, nil},
		{"GET by its query", "GET /?a=b&us%65r=al%69ce+b&c&user=alice+b HTTP/1.1\r\nHost: example\r\n\r\n", whole, []string{"query:user"}, nil},
		{"GET of what is hidden from nobody", "GET /rooms/..%2f_hook%2573/a HTTP/1.1\r\nHost: example\r\nX-Shard-Key: alice\r\n\r\n", whole, nil, nil},
		{"GET by its path", "GET /rooms/al%69ce HTTP/1.1\r\nHost: example\r\n\r\n", whole, []string{"path:3", "cookie:sid", "path:2"}, nil},
		{"GET by a pattern", "GET /groups/a/b%2Fc/app.git/info HTTP/1.1\r\nHost: example\r\n\r\n", whole, []string{"path:/groups/{any}/{key%:[a-z/]+}/{repository:[a-z]+}.git/*"}, nil},
		{"GET by a pattern of several segments", "GET /groups/a/b/%61pp.git/info HTTP/1.1\r\nHost: example\r\n\r\n", whole, []string{"path:/groups/{key*}.git/*"}, nil},
		{"GET by joined keys", "GET /rooms/al%69ce?org=a%2Bb HTTP/1.1\r\nHost: acme.example\r\n\r\n", whole, []string{"host:1+path:2+query:org"}, nil},
		{"POST with a key that is minted", "POST /rooms HTTP/1.1\r\nHost: example\r\nContent-Length: 0\r\n\r\n", whole, nil, []shardkey.Route{{Prefix: "/rooms", Sources: []string{"mint"}}}},
	} {
		app := plainApp(t, tc.answer...)
		by := func(o *proxy.Options) {
			o.Shards = shards
			o.Keys, o.HookPath = keysOf(t, shardkey.Spec{Sources: tc.keys, Routes: tc.routes}), "/_hooks/v1"
		}
		single := newNode(t, "a", app, by)
		ingress, _ := pair(t, app, by)
		shared, _ := overStreams(pair)(t, app, by)
		inside := newNode(t, "inside", "", by, func(o *proxy.Options) {
			o.Handler = func(ctx *fasthttp.RequestCtx) { ctx.SetBody(body) }
		})
		for _, n := range []*node{single, ingress, shared, inside} {
			checkAllocs(t, tc.name, n, tc.request, body)
		}
	}
}

// checkAllocs fails if a request that the app answers with body allocates memory in the node.
func checkAllocs(t *testing.T, name string, n *node, text string, body []byte) {
	t.Helper()
	c := n.dial()
	request, buf := []byte(text), make([]byte, 8<<10)
	ask := func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		for n := 0; n == 0 || !bytes.HasSuffix(buf[:n], body); {
			m, err := c.Read(buf[n:])
			if n += m; err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 100 {
		ask()
	}
	// The sweep runs on a timer and allocates now and then.
	if allocs := testing.AllocsPerRun(2000, ask); allocs > 0 {
		t.Errorf("%s at %s allocates %v times", name, n.id, allocs)
	}
}

func TestRequestsOfServicesAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool forgets things under the race detector")
	}
	body := bytes.Repeat([]byte("x"), 100)
	app := plainApp(t, append([]byte(plainHead), body...))
	for name, request := range map[string]string{
		"by the host": "GET /path/alice HTTP/1.1\r\nHost: A.Chat.Example:80\r\n\r\n",
		"by the path": "GET /%73earch?q=alice HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"of default":  "GET / HTTP/1.1\r\nHost: example.com\r\nX-Shard-Key: alice\r\n\r\n",
	} {
		change := func(o *proxy.Options) {
			o.Shards, o.Services = shards, map[string]proxy.Settings{"chat": {}, "default": {}, "search": {}}
		}
		single := newNode(t, "a", app, change)
		single.useServices(t, ranges(), local(2))
		ingress, _ := startServices(t, pair, app, change)
		shared, _ := startServices(t, overStreams(pair), app, change)
		for _, n := range []*node{single, ingress, shared} {
			checkAllocs(t, name, n, request, body)
		}
	}
}
