package proxy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"

	"shardway/proxy"
	"shardway/shardmap"
)

// handlerWays yields the routes to an app in the owner's process: directly, and through another node.
func handlerWays() iter.Seq2[string, func(t *testing.T, h fasthttp.RequestHandler, change ...func(*proxy.Options)) (front, owner *node)] {
	return func(yield func(string, func(t *testing.T, h fasthttp.RequestHandler, change ...func(*proxy.Options)) (front, owner *node)) bool) {
		for name, start := range ways() {
			if !yield(name, func(t *testing.T, h fasthttp.RequestHandler, change ...func(*proxy.Options)) (*node, *node) {
				t.Helper()
				return start(t, "", append([]func(*proxy.Options){func(o *proxy.Options) { o.Handler = h }}, change...)...)
			}) {
				return
			}
		}
	}
}

// report responds with a description of the request.
func report(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.Set("Saw-Key", string(ctx.Request.Header.Peek("Shardway-Key")))
	ctx.Response.Header.Set("Saw-Epoch", string(ctx.Request.Header.Peek("Shardway-Epoch")))
	_, _ = fmt.Fprintf(ctx, "%s %s %s %d %s", ctx.Method(), ctx.RequestURI(), ctx.Host(), len(ctx.PostBody()), ctx.PostBody())
}

func TestHandlerGetsValidatedRequest(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			n, _ := start(t, report)
			c := n.dial()
			for _, tc := range []struct{ name, request, want string }{
				{"GET", "GET /x?q=1 HTTP/1.1\r\nHost: h\r\nX-Shard-Key: alice\r\n\r\n", "GET /x?q=1 h 0 "},
				{"POST", "POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: alice\r\nContent-Length: 5\r\n\r\nhello", "POST /x h 5 hello"},
				{"empty POST", "POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: alice\r\nContent-Length: 0\r\n\r\n", "POST /x h 0 "},
				{"chunks", "POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: alice\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "POST /x h 11 hello world"},
				{"trailers stay behind", "POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: alice\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nSaw-Key: eve\r\n\r\n", "POST /x h 1 x"},
				{"long", "POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: alice\r\nContent-Length: 307200\r\n\r\n" + long, "POST /x h 307200 " + long},
				{"a long head", "GET /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: alice\r\nLong: " + long[:40000] + "\r\n\r\n", "GET /x h 0 "},
				{"a host in the path", "GET //eve/x?u=://y HTTP/1.1\r\nHost: h\r\nX-Shard-Key: alice\r\n\r\n", "GET //eve/x?u=://y h 0 "},
				{"forged", "GET /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: alice\r\nShardway-Epoch: 99\r\n\r\n", "GET /x h 0 "},
			} {
				c.send("%s", tc.request)
				res, body := c.answer("GET")
				if res.StatusCode != 200 || body != tc.want || res.Header.Get("Saw-Key") != "alice" || res.Header.Get("Saw-Epoch") != "1" || len(res.Header["Date"]) != 1 {
					t.Fatalf("%s: %s %v %.200q, want %.200q", tc.name, res.Status, res.Header, body, tc.want)
				}
			}
		})
	}
}

// A client that expects 100 (Continue) gets it when the handler reads the body, and not before.
func TestHandlerRequestsBody(t *testing.T) {
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			n, _ := start(t, report)
			c := n.dial()
			c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
			if line, err := c.r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
				t.Fatalf("first line = %q, %v", line, err)
			}
			_, _ = c.r.ReadString('\n')
			c.send("hello")
			if res, body := c.answer("POST"); res.StatusCode != 200 || body != "POST /x h 5 hello" {
				t.Fatalf("%s %q", res.Status, body)
			}
		})
	}
}

// A truncated or oversized body never reaches the handler as a complete one. Without this check,
// fasthttp would use the error text as the body.
func TestHandlerNeverGetsTruncatedBody(t *testing.T) {
	var calls atomic.Int32
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			n, owner := start(t, func(*fasthttp.RequestCtx) { calls.Add(1) })
			c := n.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
			_ = c.Close()
			c = n.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
			res, body := c.answer("POST")
			wantStatus(t, res, body, 400, "bad-request")
			c = n.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 5000000\r\n\r\n")
			res, body = c.answer("POST")
			wantStatus(t, res, body, 413, "too-large")
			until(t, "all is over", func() bool { return owner.running.Load() == 0 })
			if calls.Load() != 0 {
				t.Errorf("the handler was called %d times", calls.Load())
			}
		})
	}
}

func TestHandlerResponseIsSent(t *testing.T) {
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			n, _ := start(t, func(ctx *fasthttp.RequestCtx) {
				switch string(ctx.Path()) {
				case "/cookie":
					var k fasthttp.Cookie
					k.SetKey("a")
					k.SetValue("b")
					ctx.Response.Header.SetCookie(&k)
					ctx.SetStatusCode(201)
				case "/none":
					ctx.SetStatusCode(204)
				case "/stream":
					ctx.SetBodyStreamWriter(func(w *bufio.Writer) {
						for i := range 3 {
							_, _ = fmt.Fprintf(w, "part %d;", i)
							_ = w.Flush()
						}
					})
				case "/trailers":
					_ = ctx.Response.Header.SetTrailer("Sum")
					ctx.SetBodyStream(io.MultiReader(strings.NewReader("x"), atEnd(func() { ctx.Response.Header.Set("Sum", "1") })), -1)
				case "/sized":
					ctx.SetBodyStream(io.MultiReader(strings.NewReader("12345"), strings.NewReader("678")), 8)
				case "/error":
					ctx.Error("no", 404)
				case "/split":
					ctx.Response.Header.SetBytesV("X", []byte("a\r\nSet-Cookie: evil=1"))
				case "/big":
					ctx.SetBody(bytes.Repeat([]byte("b"), 1<<20))
				}
			})
			c := n.dial()
			for _, tc := range []struct {
				path, body string
				status     int
			}{
				{"/cookie", "", 201},
				{"/none", "", 204},
				{"/stream", "part 0;part 1;part 2;", 200},
				{"/trailers", "x", 200},
				{"/sized", "12345678", 200},
				{"/error", "no", 404},
				{"/split", "", 200},
				{"/big", strings.Repeat("b", 1<<20), 200},
			} {
				res, body := c.get(tc.path)
				if res.StatusCode != tc.status || body != tc.body {
					t.Fatalf("%s: %s %v %.100q", tc.path, res.Status, res.Header, body)
				}
				if tc.path == "/cookie" && res.Header.Get("Set-Cookie") != "a=b" || tc.path == "/split" && res.Header.Get("Set-Cookie") != "" ||
					tc.path == "/trailers" && res.Trailer.Get("Sum") != "1" {
					t.Errorf("%s: %v %v", tc.path, res.Header, res.Trailer)
				}
				c.send("HEAD %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", tc.path)
				if res, body := c.answer("HEAD"); res.StatusCode != tc.status || body != "" {
					t.Fatalf("HEAD %s: %s %.100q", tc.path, res.Status, body)
				}
			}
		})
	}
}

// The handler of a HEAD request sets the Content-Length of the corresponding GET. It may be absent.
func TestHandlerSetsContentLengthForHEAD(t *testing.T) {
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			n, _ := start(t, func(ctx *fasthttp.RequestCtx) {
				if string(ctx.Path()) == "/sized" {
					ctx.Response.SkipBody = true
					ctx.Response.Header.SetContentLength(1000)
				}
			})
			c := n.dial()
			for path, want := range map[string]int64{"/sized": 1000, "/unsized": -1} {
				c.send("HEAD %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", path)
				if res, _ := c.answer("HEAD"); res.StatusCode != 200 || res.ContentLength != want {
					t.Errorf("%s: %s, Content-Length %d, want %d", path, res.Status, res.ContentLength, want)
				}
			}
		})
	}
}

// atEnd is an empty reader that calls a function on its first Read.
type atEnd func()

func (f atEnd) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// The in-flight count of a shard decreases when the handler has returned, not when the client
// disconnects. Otherwise, the next owner could run the shard at the same time (G1). The handler learns
// of a disconnect and of a cancellation by Done.
func TestInflightCountLastsUntilHandlerReturns(t *testing.T) {
	for _, how := range []string{"client leaves", "shard is drained", "lease is lost"} {
		t.Run(how, func(t *testing.T) {
			called, told, returns := make(chan struct{}), make(chan struct{}), make(chan struct{})
			n := newNode(t, "a", "", func(o *proxy.Options) {
				o.Handler = func(ctx *fasthttp.RequestCtx) {
					if string(ctx.Path()) == "/after" {
						return
					}
					close(called)
					<-ctx.Done()
					close(told)
					<-returns
					if ctx.Err() == nil {
						t.Error("Done, and no Err")
					}
				}
			})
			c := n.dial()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
			<-called // a request that is cancelled before would be sent again
			if got := n.running.Load(); got != 1 {
				t.Fatalf("%d run", got)
			}
			switch how {
			case "client leaves":
				_ = c.Close()
			case "shard is drained":
				if got := n.CancelShards(func(shardmap.Shard) bool { return true }, "draining"); got != 1 {
					t.Fatalf("%d were cut", got)
				}
			case "lease is lost":
				if got := n.CancelUpstream("lease lost"); got != 1 {
					t.Fatalf("%d were cut", got)
				}
			}
			<-told
			for range 100 {
				runtime.Gosched()
			}
			if n.running.Load() != 1 {
				t.Fatal("the count fell before the handler had returned")
			}
			close(returns)
			until(t, "the count falls", func() bool { return n.running.Load() == 0 })
			switch how {
			case "shard is drained":
				res, body := c.answer("POST")
				wantStatus(t, res, body, 502, "shard-moved")
			case "lease is lost":
				res, body := c.answer("POST")
				wantStatus(t, res, body, 502, "upstream-broken")
			}
			// The cancelled connection is not reused, and the next request has its own Done channel.
			if res, body := n.dial().get("/after"); res.StatusCode != 200 {
				t.Errorf("the next: %s %s", res.Status, body)
			}
		})
	}
}

// A cancellation also ends a response stream and work that Begin counts. A cancelled stream is visibly
// truncated.
func TestHandlerStreamsAreCancelled(t *testing.T) {
	for _, kind := range []string{"writer", "task", "events"} {
		t.Run(kind, func(t *testing.T) {
			ended := make(chan struct{})
			n := newNode(t, "a", "", func(o *proxy.Options) {
				o.Handler = func(ctx *fasthttp.RequestCtx) {
					over := ctx.Done() // the context is valid only until the handler returns
					write := func(w *bufio.Writer) {
						_, _ = w.WriteString("data: first\n\n")
						_ = w.Flush()
						<-over
						close(ended)
					}
					if kind == "events" {
						ctx.SetContentType("text/event-stream")
					}
					if kind != "task" {
						ctx.SetBodyStreamWriter(write)
						return
					}
					pr, pw := io.Pipe()
					task := proxy.Begin(ctx)
					go func() {
						defer task.End()
						w := bufio.NewWriter(pw)
						write(w)
						_ = pw.CloseWithError(w.Flush())
					}()
					ctx.SetBodyStream(pr, -1)
				}
			})
			c := n.dial()
			c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			_, r := c.head("GET")
			first := make([]byte, len("data: first\n\n"))
			if _, err := io.ReadFull(r, first); err != nil {
				t.Fatal(err)
			}
			if n.running.Load() != 1 {
				t.Fatalf("%d run", n.running.Load())
			}
			n.CancelShards(func(shardmap.Shard) bool { return true }, "draining")
			<-ended
			if rest, err := io.ReadAll(r); err == nil {
				t.Errorf("a stream that was cut looks whole: %q", rest)
			}
			until(t, "the count falls", func() bool { return n.running.Load() == 0 })
		})
	}
}

func TestFailingHandlerGetsErrorResponse(t *testing.T) {
	for way, start := range handlerWays() {
		t.Run(way, func(t *testing.T) {
			var log bytes.Buffer
			n, owner := start(t, func(ctx *fasthttp.RequestCtx) {
				switch string(ctx.Path()) {
				case "/panic":
					panic("no such thing")
				case "/hijack":
					ctx.HijackSetNoResponse(true)
					ctx.Hijack(func(net.Conn) { t.Error("the connection was handed over") })
				case "/switch":
					ctx.SetStatusCode(101)
				case "/raw":
					if _, err := ctx.Conn().Write([]byte("HTTP/1.1 200 OK\r\n\r\n")); err == nil {
						t.Error("the connection could be written to")
					}
				case "/short":
					ctx.SetBodyStream(strings.NewReader("123"), 5)
				case "/reader":
					ctx.SetBodyStream(failing{}, -1)
				}
			}, func(o *proxy.Options) { o.Log = zerolog.New(zerolog.SyncWriter(&log)) })
			c := n.dial()
			for path, says := range map[string]string{"/panic": "panicked", "/hijack": "--upstream", "/switch": "101"} {
				res, body := c.get(path)
				if wantStatus(t, res, body, 500, "app-failed"); !strings.Contains(body, says) {
					t.Errorf("%s: %s", path, body)
				}
			}
			if res, _ := c.get("/raw"); res.StatusCode != 200 {
				t.Errorf("raw: %s", res.Status)
			}
			for _, path := range []string{"/short", "/reader"} {
				c := n.dial()
				c.send("GET %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", path)
				res, r := c.head("GET")
				if b, err := io.ReadAll(r); err == nil && res.StatusCode == 200 {
					t.Errorf("%s looks whole: %q", path, b)
				}
			}
			until(t, "nothing runs", func() bool { return owner.running.Load() == 0 })
			if !strings.Contains(log.String(), "no such thing") || !strings.Contains(log.String(), "handler_test.go") {
				t.Errorf("no stack in the log: %s", log.String())
			}
		})
	}
}

// failing is a reader that panics in the middle of a stream.
type failing struct{}

func (failing) Read([]byte) (int, error) { panic(errors.New("no such disk")) }

// A reused in-process connection does not reuse the Done channel of its last request.
func TestHandlerContextEndsWithRequest(t *testing.T) {
	seen := make(map[<-chan struct{}]bool)
	n := newNode(t, "a", "", func(o *proxy.Options) {
		o.Handler = func(ctx *fasthttp.RequestCtx) {
			seen[ctx.Done()] = true
			if ctx.Done() == nil || ctx.Err() != nil {
				t.Errorf("Done = %v, Err = %v", ctx.Done(), ctx.Err())
			}
		}
	})
	c := n.dial()
	for range 10 {
		if res, body := c.get("/"); res.StatusCode != 200 {
			t.Fatalf("%s %s", res.Status, body)
		}
	}
	if len(seen) != 1 {
		t.Errorf("%d seats were made for one connection", len(seen))
	}
}

// A handler that calls runtime.Goexit, as tests do, does not leave its request in the in-flight count.
func TestHandlerThatCallsGoexit(t *testing.T) {
	n := newNode(t, "a", "", func(o *proxy.Options) {
		o.Handler = func(*fasthttp.RequestCtx) { runtime.Goexit() }
	})
	c := n.dial()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	c.closed()
	until(t, "the count falls", func() bool { return n.running.Load() == 0 })
}

// The first-byte timeout limits the time of the handler.
func TestHandlerTimesOut(t *testing.T) {
	n := newNode(t, "a", "", func(o *proxy.Options) {
		o.FirstByteTimeout = time.Millisecond
		o.Handler = func(ctx *fasthttp.RequestCtx) { <-ctx.Done() }
	})
	res, body := n.dial().get("/")
	wantStatus(t, res, body, 504, "upstream-timeout")
}

// fasthttp's TimeoutHandler responds while its inner handler continues. The inner handler keeps the
// memory of its request, and Done is closed.
func TestHandlerWithTimeoutError(t *testing.T) {
	ended := make(chan string, 1)
	n := newNode(t, "a", "", func(o *proxy.Options) {
		o.Handler = fasthttp.TimeoutHandler(func(ctx *fasthttp.RequestCtx) {
			body := ctx.PostBody()
			<-ctx.Done()
			ended <- string(body)
		}, time.Millisecond, "too late")
	})
	c := n.dial()
	c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 5\r\n\r\nhello")
	res, body := c.answer("POST")
	if res.StatusCode != 408 || body != "too late" || <-ended != "hello" {
		t.Errorf("%s %q", res.Status, body)
	}
}
