package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/proxy/wsframe"
)

// full is a connection whose peer reads nothing until it is opened.
type full struct {
	net.Conn
	open   chan struct{}
	closed context.Context
	close  context.CancelFunc
	until  atomic.Pointer[time.Time]
}

func (f *full) SetWriteDeadline(t time.Time) error {
	f.until.Store(&t)
	return f.Conn.SetWriteDeadline(t)
}

func (f *full) Close() error {
	f.close()
	return f.Conn.Close()
}

func (f *full) Write(p []byte) (int, error) {
	if p[0] == 'G' { // the request
		return f.Conn.Write(p)
	}
	late := time.NewTimer(time.Hour)
	defer late.Stop()
	if t := f.until.Load(); t != nil && !t.IsZero() {
		late.Reset(time.Until(*t))
	}
	select {
	case <-f.open:
		return f.Conn.Write(p)
	case <-late.C:
		return 0, os.ErrDeadlineExceeded
	case <-f.closed.Done():
		return 0, net.ErrClosed
	}
}

// An app that reads slowly and has a full connection gets the usual time for our Close frame. Once, it
// had 50 ms; then the upstream connection broke, and the next one began with a gap.
func TestFullAppIsHandedOver(t *testing.T) {
	var open chan struct{}
	inSockets(t, func() *chat {
		open = make(chan struct{})
		return &chat{}
	}, func(t *socketTest) {
		c := t.front.socket()
		t.propose()
		time.Sleep(time.Second)
		if t.a.running.Load() != 1 {
			t.Error("the leg is over, and the app has not been told")
		}
		close(open)
		t.until("the old owner is done", func() bool { return t.a.running.Load() == 0 })
		t.own(t.b)
		t.until("a second leg", func() bool { return len(t.app.upgradeRequests()) == 2 })
		if h := t.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != "" {
			t.Errorf("a completed hand-over has a gap: %v", h)
		}
		_ = c.Close()
	}, func(o *proxy.Options) {
		dial := o.DialUpstream
		o.DialUpstream = func(ctx context.Context) (net.Conn, error) {
			conn, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			f := &full{Conn: conn, open: open}
			f.closed, f.close = context.WithCancel(context.Background())
			return f, nil
		}
	})
}

// An owner that hands a WebSocket over on its own detects that the client's node crashes in the meantime.
// Once, it did not detect that if the app ignored the Close frame, and the shard waited for
// drain-timeout.
func TestOwnerDetectsLostIngress(t *testing.T) {
	inSockets(t, func() *chat {
		return &chat{goodbye: func(conn net.Conn, _ int) bool {
			_, _ = io.Copy(io.Discard, conn)
			return true
		}}
	}, func(t *socketTest) {
		if t.local {
			return
		}
		c := t.front.socket()
		c.sendText("one")
		t.until("got", t.app.has(1))
		t.a.swap(t.epoch-1, t.epoch, held(route.ReasonMoving))
		time.Sleep(1500 * time.Millisecond) // until the app has received the Close frame
		if t.a.running.Load() != 1 {
			t.Fatal("the leg is over")
		}
		began := time.Now()
		t.front.host.Vanish()
		t.front.host.Restart() // the restarted host responds with resets
		_, _ = t.app.conn(0).Write(message(0x81, false, "x"))
		t.until("released", func() bool { return t.a.running.Load() == 0 })
		if took := time.Since(began); took > time.Second {
			t.Errorf("noticed after %v", took)
		}
		_ = c.Close()
	})
}

// If a shard is orphaned and the lease expires inside a message, the message is discarded, as after
// any broken upstream connection. Once, it was treated as a message that is too late for a move, and
// the client was closed.
func TestRestOfMessageIsDiscardedAfterOrphanedShard(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		whole := append(message(0x01, true, "bro"), message(0x80, true, "ken")...)
		c.sendText("one")
		c.send("%s", whole[:3])
		t.until("got", t.app.has(1))
		t.orphan()
		time.Sleep(500 * time.Millisecond) // until the app has received the beginning of the message
		t.a.CancelUpstream("lapsed")
		time.Sleep(10 * time.Millisecond)
		t.own(t.b)
		c.send("%s", whole[3:])
		c.sendText("two")
		t.until("got", t.app.has(2))
		t.app.wantGot("one", "two")
		_ = c.Close()
	})
}

// The rest of a message is also discarded when the owner crashes during a move.
func TestRestOfMessageIsDiscardedAfterBrokenMove(t *testing.T) {
	inSockets(t, plainChat, func(t *socketTest) {
		c := t.front.socket()
		whole := append(message(0x01, true, "bro"), message(0x80, true, "ken")...)
		c.sendText("one")
		c.send("%s", whole[:10])
		t.until("got", t.app.has(1))
		t.propose()
		time.Sleep(500 * time.Millisecond)
		if t.local {
			t.a.CancelUpstream("lapsed")
		} else {
			t.a.host.Crash()
		}
		time.Sleep(10 * time.Millisecond)
		t.own(t.b)
		c.send("%s", whole[10:])
		c.sendText("two")
		t.until("got", t.app.has(2))
		t.app.wantGot("one", "two")
		if h := t.app.upgradeRequests()[1]; h.Get("Shardway-WebSocket-Gap") != "1" {
			t.Errorf("%v", h)
		}
		_ = c.Close()
	})
}

// An incomplete message of the app at drain-timeout closes both ends, like one of the client, because
// no other app instance can complete it.
func TestLateAppMessageClosesBothEnds(t *testing.T) {
	for _, cut := range []bool{false, true} {
		t.Run(fmt.Sprint("cut=", cut), func(t *testing.T) {
			var code int
			inSockets(t, func() *chat {
				return &chat{goodbye: func(conn net.Conn, c int) bool {
					code = c
					_, _ = io.Copy(io.Discard, conn)
					return true
				}}
			}, func(t *socketTest) {
				c := t.front.socket()
				c.sendText("one")
				t.until("got", t.app.has(1))
				_, _ = t.app.conn(0).Write(message(0x01, false, "half"))
				time.Sleep(10 * time.Millisecond)
				t.propose()
				if cut {
					time.Sleep(2 * time.Second)
					t.a.CancelShards(allShards, "draining")
				}
				t.until("released", func() bool { return t.a.running.Load() == 0 })
				t.own(t.b)
				c.wantClosedFor(1012, "a message was not whole when the shard had moved")
				if n := len(t.app.upgradeRequests()); n != 1 || code != 1012 {
					t.Errorf("%d legs, the app was told %d", n, code)
				}
				_ = c.Close()
			})
		})
	}
}

// The headers of WebSocket resumption are exchanged between Shardway and the app only. They are
// removed from a response that rejects the first request as well.
func TestFirstRejectionHasNoCloseHeader(t *testing.T) {
	inSockets(t, func() *chat {
		return &chat{answer: func(int, http.Header) string {
			return "HTTP/1.1 403 Forbidden\r\nShardway-WebSocket: keep\r\nShardway-WebSocket-Close: 4001\r\nX-Else: 1\r\nContent-Length: 2\r\n\r\nno"
		}}
	}, func(t *socketTest) {
		c := t.front.dial()
		c.send("%s", socketRequest)
		res, body := c.answer("GET")
		if res.StatusCode != 403 || body != "no" || res.Header.Get("X-Else") != "1" {
			t.Errorf("%v %q", res, body)
		}
		for name := range res.Header {
			if strings.HasPrefix(strings.ToLower(name), "shardway-websocket") {
				t.Errorf("the client is told %s", name)
			}
		}
		_ = c.Close()
	})
}

// owner adds a node that the test plays. Its serve function receives the connections on which other
// nodes forward requests.
func (w *socketTest) owner(id string, serve func(conn net.Conn, r *bufio.Reader)) *node {
	w.Helper()
	h := w.sim.Host(id)
	ln, err := h.Listen(":90")
	if err != nil {
		w.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer func() { _ = conn.Close() }()
				serve(conn, bufio.NewReader(conn))
			})
		}
	})
	w.Cleanup(func() {
		_ = ln.Close()
		h.Crash()
		all.Wait()
	})
	return &node{id: id, host: h, peer: h.Addr(90)}
}

// A response that an owner generates without contacting its app does not count as an attempt: the
// attempt number stays, and no gap is possible. An ambiguous failure counts.
func TestOwnerRefusalIsNotCountedAsAttempt(t *testing.T) {
	for code, ran := range map[string]bool{
		"upstream-busy": false, "shard-busy": false, "misrouted": false, "queue-timeout": false, "queue-full": false,
		"upstream-broken": true, "upstream-timeout": true, "shard-moved": true, "of-a-newer-version": true,
	} {
		t.Run(code, func(t *testing.T) {
			inSockets(t, plainChat, func(t *socketTest) {
				if t.local {
					return
				}
				var mu sync.Mutex
				var heads []http.Header
				played := t.owner("c", func(conn net.Conn, r *bufio.Reader) {
					for {
						req, err := http.ReadRequest(r)
						if err != nil {
							return
						}
						mu.Lock()
						heads = append(heads, req.Header)
						n := len(heads)
						mu.Unlock()
						if n == 1 {
							_, _ = io.WriteString(conn, "HTTP/1.1 503 No\r\nShardway-Error: "+code+"\r\nContent-Length: 0\r\n\r\n")
							continue
						}
						_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nShardway-WebSocket: kept\r\n"+
							"Sec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n")
						_, _, _ = readMessage(r)
						_, _ = conn.Write(wsframe.AppendClose(nil, 4000, "", false))
						return
					}
				})
				t.front.knows("c", played)
				c := t.front.socket()
				t.propose()
				t.until("the old owner is done", func() bool { return t.a.running.Load() == 0 })
				t.front.swap(t.epoch, t.epoch, remote("c", t.epoch))
				c.sendText("x")
				c.wantClosed(4000)
				number, gap := "1", ""
				if ran {
					number, gap = "2", "1"
				}
				if len(heads) != 2 || heads[1].Get("Shardway-WebSocket-Resumed") != number || heads[1].Get("Shardway-WebSocket-Gap") != gap {
					t.Errorf("heads: %v; want the number %s, and the gap %q", heads, number, gap)
				}
				_ = c.Close()
			})
		})
	}
}

// A handler that replaces the upstream connection of a WebSocket may run late, when the stream from
// the other node already carries another request. Once, it aborted that request.
func TestRelayIsNotReplacedTwice(t *testing.T) {
	var asked, goOn chan struct{}
	inSockets(t, func() *chat {
		asked, goOn = make(chan struct{}), make(chan struct{})
		return &chat{answer: func(n int, _ http.Header) string {
			asked <- struct{}{}
			<-goOn
			if n == 0 {
				return "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
			}
			return "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
		}}
	}, func(t *socketTest) {
		if t.local {
			return
		}
		const id = "0123456789abcdef0123456789abcdef"
		forwarded := "Shardway-Map: 1 1\r\nShardway-Shard: 3\r\n"
		c := t.a.stream()
		c.send("%s", strings.Replace(socketRequest, "Shardway-WebSocket: mine\r\nShardway-WebSocket-Gap: 1\r\n", forwarded+"Shardway-WebSocket: "+id+"\r\nShardway-WebSocket-Resumed: 1\r\n", 1))
		<-asked
		late := t.a.CutOnlyUpstreamConn(id)
		goOn <- struct{}{}
		if res, _ := c.answer("GET"); res.StatusCode != 401 {
			t.Fatalf("%v", res)
		}
		c.send("GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", forwarded)
		<-asked
		late()
		goOn <- struct{}{}
		if res, body := c.answer("GET"); res.StatusCode != 200 || body != "hi" {
			t.Errorf("%v %q", res, body)
		}
		_ = c.Close()
	})
}
