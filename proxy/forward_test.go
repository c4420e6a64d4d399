package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"shardway/proxy"
	"shardway/shardmap"
)

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	for _, name := range []string{
		"Shardway-Shard", "Shardway-Service", "Shardway-Epoch", "Shardway-Node", "Shardway-Key", "Shardway-Minted", "Shardway-Map", "Shardway-Evil", "Shardway-Continue",
		"Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Connection", "Keep-Alive", "X-Named", "Expect", "Te",
		"X-Forwarded-Port", "X_Forwarded_For", "X_Forwarded_Port", "X-Real-Ip", "X_Real_Ip",
	} {
		for _, v := range r.Header.Values(name) {
			w.Header().Add("Saw-"+name, v)
		}
	}
	w.Header().Set("Saw-Host", r.Host)
	_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, body)
}

func TestRequestsAndResponsesPassThrough(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, echo))
			c := front.dial()
			for i := range 3 {
				path := fmt.Sprintf("/a/%d?", i)
				if _, body := c.get(path); body != "GET "+path+" " {
					t.Errorf("body = %q", body)
				}
				c.send("POST /p HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 5\r\n\r\nhello")
				if _, body := c.answer("POST"); body != "POST /p hello" {
					t.Errorf("body = %q", body)
				}
				c.send("POST /p HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
				if _, body := c.answer("POST"); body != "POST /p abc" {
					t.Errorf("body = %q", body)
				}
				c.send("HEAD /h HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
				if res, _ := c.answer("HEAD"); res.StatusCode != 200 {
					t.Errorf("HEAD = %v", res.Status)
				}
			}
		})
	}
}

func TestPipelinedRequestsGetResponsesInOrder(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, echo))
			c := front.dial()
			var all strings.Builder
			for i := range 20 {
				fmt.Fprintf(&all, "POST /%d HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nab", i)
			}
			c.send("%s", all.String())
			for i := range 20 {
				if _, body := c.answer("POST"); body != fmt.Sprintf("POST /%d ab", i) {
					t.Fatalf("answer %d = %q", i, body)
				}
			}
		})
	}
}

func TestAppSeesShardEpochNodeAndKey(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, webApp(t, echo))
			owner.swap(1, 1, local(7))
			c := front.dial()
			c.send("GET / HTTP/1.1\r\nHost: example\r\nX-Shard-Key: alice\r\nShardway-Epoch: 99\r\nShardway-Evil: x\r\nShardway-Map: 5 5\r\n" +
				"X-Forwarded-For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX_Real_IP: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nVia: 1.0 old\r\nConnection: X-Named, keep-alive\r\nX-Named: 1\r\nKeep-Alive: 5\r\n\r\n")
			res, _ := c.answer("GET")
			want := map[string]string{
				"Shardway-Shard": fmt.Sprint(shardmap.ShardOf("alice", shards)), "Shardway-Epoch": "7", "Shardway-Node": "owner", "Shardway-Key": "alice",
				"Shardway-Map": "", "Shardway-Evil": "", "Via": "1.0 old, 1.1 shardway", "X-Forwarded-For": "127.0.0.1",
				"X-Forwarded-Host": "example", "X-Forwarded-Proto": "http", "X-Real-Ip": "", "X_Real_Ip": "", "Forwarded": "", "Connection": "", "X-Named": "", "Keep-Alive": "", "Host": "example",
			}
			for name, v := range want {
				if got := strings.Join(res.Header.Values("Saw-"+name), ", "); got != v {
					t.Errorf("app saw %s: %q, want %q", name, got, v)
				}
			}
		})
	}
}

func TestInternalHeadersOfAppAreRemoved(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Shardway-Refused", "held")
				w.Header().Set("Shardway-Map", "9 9")
				w.Header().Set("Shardway-Error", "queue-full")
				w.WriteHeader(421)
			}))
			res, _ := front.dial().get("/")
			if res.StatusCode != 421 {
				t.Errorf("status = %d, want the app's own 421", res.StatusCode)
			}
			for _, name := range []string{"Shardway-Refused", "Shardway-Map", "Shardway-Error"} {
				if v := res.Header.Get(name); v != "" {
					t.Errorf("%s: %s reached the client", name, v)
				}
			}
		})
	}
}

func TestDebugHeadersNameNodeAndShard(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, _ := start(t, webApp(t, echo), func(o *proxy.Options) { o.DebugHeaders = true })
			res, _ := front.dial().get("/")
			if res.Header.Get("Shardway-Node") != "owner" || res.Header.Get("Shardway-Shard") != fmt.Sprint(shardmap.ShardOf("k", shards)) {
				t.Errorf("headers = %v", res.Header)
			}
		})
	}
}

func TestRequestWithoutKeyIsRejected(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	c := n.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	res, body := c.answer("GET")
	wantStatus(t, res, body, 400, "no-key")
	if !strings.Contains(body, "X-Shard-Key") {
		t.Errorf("body %s does not say what was looked for", body)
	}
	if res.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("Content-Type = %q", res.Header.Get("Content-Type"))
	}
	if _, body := c.get("/after"); body != "GET /after " {
		t.Errorf("the connection did not live on: %q", body)
	}
}

func TestMalformedRequestIsRejectedAndNothingAfterItIsRead(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, webApp(t, echo))
			for _, head := range []string{
				"GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
				"GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key : k\r\n\r\n",
				"GET / HTTP/1.1\r\nX-Shard-Key: k\r\n\r\n",
				"GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
			} {
				c := front.dial()
				c.send("%sGET /evil HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", head)
				res, body := c.answer("GET")
				wantStatus(t, res, body, 400, "bad-request")
				c.closed()
			}
			if owner.admitted.Load() != 0 {
				t.Error("something was admitted")
			}
		})
	}
}
