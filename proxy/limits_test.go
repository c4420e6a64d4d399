package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
)

func TestEachLimitHasItsResponse(t *testing.T) {
	small := func(o *proxy.Options) { o.MaxHeaderBytes, o.MaxHeaders, o.MaxURI, o.MaxBody = 2<<10, 20, 512, 1000 }
	const start = "POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n"
	for way, starts := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := starts(t, webApp(t, echo), small)
			for _, tc := range []struct {
				name, request string
				status        int
				code          string
			}{
				{"head", start + "A: " + strings.Repeat("a", 3000) + "\r\n\r\n", 431, "headers-too-large"},
				{"lines", start + strings.Repeat("A: b\r\n", 30) + "\r\n", 431, "headers-too-large"},
				{"line", "POST /" + strings.Repeat("a", 600) + " HTTP/1.1\r\nHost: h\r\n\r\n", 414, "uri-too-long"},
				{"endless line", "POST /" + strings.Repeat("a", 600), 414, "uri-too-long"},
				{"length", start + "Content-Length: 1001\r\n\r\n" + strings.Repeat("a", 1001), 413, "too-large"},
				{"chunks", start + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("64\r\n"+strings.Repeat("a", 100)+"\r\n", 11), 413, "too-large"},
			} {
				before := owner.admitted.Load()
				c := front.dial()
				c.send("%s", tc.request)
				res, body := c.answer("POST")
				wantStatus(t, res, body, tc.status, tc.code)
				c.closed()
				if tc.name != "chunks" && owner.admitted.Load() != before {
					t.Errorf("%s: reached the app", tc.name)
				}
			}
			// The fields that nodes add to headers of the maximum size have their own space.
			c := front.dial()
			c.send("%s", start+strings.Repeat("A: b\r\n", 17)+"Content-Length: 1000\r\n\r\n"+strings.Repeat("a", 1000))
			if res, body := c.answer("POST"); res.StatusCode != 200 || len(body) != 1000+len("POST / ") {
				t.Errorf("at the limits: %v %s", res.Status, body)
			}
		})
	}
}

// A client that keeps sending after rejected headers gets the response nevertheless: its data is
// discarded, for as long as the tests of CloseLinger in h1 show. Other clients are served in the meantime.
func TestHeaderFloodsAreRejected(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	for _, line := range []string{"A: " + strings.Repeat("a", 1000) + "\r\n", "A:\r\n"} {
		c := n.dial()
		refused := make(chan struct{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n")
			for more := strings.Repeat(line, 1000); err == nil; {
				select {
				case <-refused:
					return
				default:
					_, err = io.WriteString(c, more)
				}
			}
		}()
		res, body := c.answer("GET")
		wantStatus(t, res, body, 431, "headers-too-large")
		if res, _ := n.dial().get("/"); res.StatusCode != 200 {
			t.Errorf("an ordinary request: %v", res.Status)
		}
		close(refused)
		<-ended
		_ = c.Close()
	}
}

// A client that sends requests and does not read responses is read up to one buffer ahead.
func TestPipelineFloodsAreLimited(t *testing.T) {
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, webApp(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64<<10)) }))
			c := front.dial()
			flood := strings.Repeat("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", 1000)
			if err := c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			var err error
			for err == nil {
				_, err = io.WriteString(c, flood)
			}
			if n := owner.admitted.Load(); n > 500 {
				t.Errorf("%d requests were served to a client that reads nothing", n)
			}
			if res, _ := front.dial().get("/"); res.StatusCode != 200 {
				t.Errorf("an ordinary request: %v", res.Status)
			}
		})
	}
}

func TestUnconnectableAppIsWaitedForAndReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := simNode(t, newSim(t), "a", nil, func(o *proxy.Options) {
			o.DialUpstream = func(ctx context.Context) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		c := n.dial()
		c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		res, body := c.answer("GET")
		wantStatus(t, res, body, 504, "upstream-connect-timeout")
	})
}

func TestAppTimeoutsHaveTheirResponses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		silent := func(_ net.Conn, r *bufio.Reader) { _, _ = io.Copy(io.Discard, r) }
		half := func(conn net.Conn, r *bufio.Reader) {
			_, _ = readHead(r)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			_, _ = io.Copy(io.Discard, r)
		}
		slowHead := func(conn net.Conn, r *bufio.Reader) {
			_, _ = readHead(r)
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConte")
			_, _ = io.Copy(io.Discard, r)
		}
		times := func(o *proxy.Options) {
			o.FirstByteTimeout, o.UpstreamIdleTimeout, o.HeaderTimeout = 20*time.Second, 30*time.Second, 5*time.Second
		}
		for i, tc := range []struct {
			name   string
			app    func(net.Conn, *bufio.Reader)
			after  time.Duration
			status int
			code   string
		}{
			{"first byte", silent, 20 * time.Second, 504, "upstream-timeout"},
			{"head", slowHead, 5 * time.Second, 502, "upstream-broken"},
			{"idle", half, 30 * time.Second, 200, ""},
		} {
			owner := simNode(t, sim, fmt.Sprint("owner", i), tc.app, times)
			ingress := simNode(t, sim, fmt.Sprint("ingress", i), tc.app, times)
			ingress.knows("owner", owner)
			ingress.swap(1, 1, remote("owner", 1))
			for _, n := range []*node{owner, ingress} {
				began := time.Now()
				c := n.dial()
				c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
				res, r := c.head("POST")
				body, err := io.ReadAll(r)
				if res.StatusCode != tc.status || res.Header.Get("Shardway-Error") != tc.code || (err != nil) != (tc.code == "") {
					t.Errorf("%s by %s: %v %s, %v", tc.name, n.id, res.Status, body, err)
				}
				if took := time.Since(began); took < tc.after*15/16 || took > tc.after*17/16+time.Second {
					t.Errorf("%s by %s: after %v, want %v", tc.name, n.id, took, tc.after)
				}
				_ = c.Close()
			}
		}
	})
}
