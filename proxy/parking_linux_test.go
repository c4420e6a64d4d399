package proxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shardway/proxy"
)

// parkingNode starts a node whose idle connections are parked with the next sweep.
func parkingNode(t *testing.T, change ...func(*proxy.Options)) *node {
	t.Helper()
	n := newNode(t, "a", webApp(t, echo), change...)
	n.ParkAfter(0, 0)
	return n
}

// parked waits until this number of connections is parked.
func parked(n *node, many int) {
	n.t.Helper()
	until(n.t, fmt.Sprintf("%d connections are parked", many), func() bool { return n.Parked() == many })
}

// A client does not notice that its connection was parked, before its first request, between requests,
// or when requests arrive in pieces or together.
func TestParkedConnServesNextRequest(t *testing.T) {
	n := parkingNode(t)
	c := n.dial()
	const get = "GET %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n"
	for i := range 5 {
		parked(n, 1)
		if i%2 == 1 {
			c.send("G")
			parked(n, 0)
			c.send(get[1:], "/pieces")
		} else {
			c.send(get+get, "/one", "/two")
			if res, _ := c.answer("GET"); res.StatusCode != http.StatusOK {
				t.Fatalf("status %d, want 200", res.StatusCode)
			}
		}
		if res, _ := c.answer("GET"); res.StatusCode != http.StatusOK {
			t.Fatalf("status %d, want 200", res.StatusCode)
		}
	}
	parked(n, 1)
	_ = c.Close()
	parked(n, 0)
}

// A FIN or a reset of the client ends a parked connection.
func TestParkedConnEndsWithItsClient(t *testing.T) {
	for what, end := range map[string]func(c *net.TCPConn) error{
		"the end":         (*net.TCPConn).Close,
		"half of the end": (*net.TCPConn).CloseWrite,
		"a reset":         func(c *net.TCPConn) error { return errors.Join(c.SetLinger(0), c.Close()) },
	} {
		t.Run(what, func(t *testing.T) {
			n := parkingNode(t)
			c := n.dial()
			c.get("/")
			parked(n, 1)
			conn, ok := c.Conn.(*net.TCPConn)
			if !ok {
				t.Fatalf("a %T", c.Conn)
			}
			if err := end(conn); err != nil {
				t.Fatal(err)
			}
			until(t, "the node has no connection", func() bool { return n.Connections() == 0 })
			if what == "half of the end" {
				if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
					t.Errorf("%v, want the end", err)
				}
			}
		})
	}
}

// The idle timeout and the header timeout apply to a parked connection.
func TestParkedConnHasUsualTimeouts(t *testing.T) {
	const idle, head = time.Second, 200 * time.Millisecond
	n := parkingNode(t, func(o *proxy.Options) { o.IdleTimeout, o.HeaderTimeout = idle, head })
	began := time.Now()
	c := n.dial()
	parked(n, 1)
	if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want the end", err)
	}
	if took := time.Since(began); took < idle {
		t.Errorf("ended after %v, want %v at least", took, idle)
	}
	c = n.dial()
	parked(n, 1)
	c.send("GET / HTTP/1.1\r\n")
	if res, _ := c.answer("GET"); res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("status %d, want 408", res.StatusCode)
	}
}

// A drain closes the parked connections. Requests that clients have sent by then are answered.
func TestDrainClosesParkedConns(t *testing.T) {
	n := parkingNode(t)
	all := make([]*client, 50)
	for i := range all {
		all[i] = n.dial()
		all[i].get("/")
	}
	parked(n, len(all))
	ended := make(chan error, 1)
	go func() { ended <- n.Shutdown(context.Background()) }()
	all[0].send("GET /last HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	if res, _ := all[0].answer("GET"); res.StatusCode != http.StatusOK {
		t.Errorf("status %d, want 200", res.StatusCode)
	}
	for _, c := range all {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second)) // earlier than the idle timeout
		if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Fatalf("%v, want the end", err)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A request that arrives when its connection is told to close is answered, also if the connection is
// parked.
func TestRequestToParkedConnDuringDrainIsServed(t *testing.T) {
	n := parkingNode(t)
	for range 20 {
		c := n.dial()
		c.get("/")
		parked(n, 1)
		n.EndParked(func() { c.send("GET /last HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n") })
		if res, _ := c.answer("GET"); res.StatusCode != http.StatusOK {
			t.Fatalf("status %d, want 200", res.StatusCode)
		}
		if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%v, want the end", err)
		}
	}
}

// A parked connection counts towards --max-conns. The next connection waits for its place.
func TestParkedConnCountsTowardsMaxConns(t *testing.T) {
	n := parkingNode(t, func(o *proxy.Options) { o.MaxConns = 1 })
	first, second := n.dial(), n.dial() // one further connection is accepted and waits for room
	parked(n, 1)
	if _, err := first.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want the end: another one came", err)
	}
	if res, _ := second.get("/"); res.StatusCode != http.StatusOK {
		t.Errorf("status %d, want 200", res.StatusCode)
	}
}

// An immediate stop aborts parked connections.
func TestImmediateStopAbortsParkedConns(t *testing.T) {
	n := parkingNode(t)
	c := n.dial()
	parked(n, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := n.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
	if _, err := c.r.ReadByte(); err == nil {
		t.Error("the connection goes on")
	}
}

// Parked connections are closed to make room for others, the one that has been idle longest first.
func TestParkedConnsAreEvictedAtMaxConns(t *testing.T) {
	n := parkingNode(t, func(o *proxy.Options) { o.MaxConns = 3 })
	first := n.dial()
	first.get("/")
	parked(n, 1)
	var rest []*client
	for range 5 {
		c := n.dial()
		if res, _ := c.get("/"); res.StatusCode != http.StatusOK {
			t.Fatalf("status %d, want 200", res.StatusCode)
		}
		rest = append(rest, c)
	}
	if _, err := first.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want the end of the longest idle", err)
	}
	if res, _ := rest[len(rest)-1].get("/"); res.StatusCode != http.StatusOK {
		t.Errorf("status %d, want 200", res.StatusCode)
	}
}

// Many parked connections wake at the same time.
func TestManyParkedConnsWakeAtOnce(t *testing.T) {
	many, err := strconv.Atoi(cmpOr(os.Getenv("SHARDWAY_PARKED"), "500"))
	if err != nil {
		t.Fatal(err)
	}
	n := parkingNode(t, func(o *proxy.Options) { o.QueueWait = time.Minute }) // a busy machine may need more than 5 s
	all := make([]*client, many)
	for i := range all {
		all[i] = n.dial()
	}
	for round := range 3 {
		parked(n, many)
		for i, c := range all {
			_ = c.SetDeadline(time.Now().Add(time.Minute)) // the deadline of dial is for the whole test
			c.send("GET /%d HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k%d\r\n\r\n", round, i)
		}
		for i, c := range all {
			if res, _ := c.answer("GET"); res.StatusCode != http.StatusOK {
				t.Fatalf("client %d: status %d %s, want 200", i, res.StatusCode, res.Header.Get("Shardway-Error"))
			}
		}
	}
}

// Many clients connect, send a request, wait about as long as it takes to be parked, and disconnect,
// while descriptors are reused. Each client gets its own responses.
func TestReusedDescriptorsWakeRightConn(t *testing.T) {
	n := parkingNode(t, func(o *proxy.Options) { o.MaxConns = 16 })
	var wg sync.WaitGroup
	var answered, shed atomic.Int32
	for i := range 24 {
		wg.Go(func() {
			for round := range 40 {
				conn, err := net.Dial("tcp", n.addr)
				if err != nil {
					t.Error(err)
					return
				}
				r := bufio.NewReader(conn)
				for ask := range 3 {
					path := fmt.Sprintf("/%d/%d/%d", i, round, ask)
					if _, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", path); err != nil {
						break
					}
					var res *http.Response
					if res, err = http.ReadResponse(r, nil); err != nil { //nolint:bodyclose // read to its end
						break
					}
					body, _ := io.ReadAll(res.Body)
					if want := "GET " + path; string(body[:min(len(want), len(body))]) != want {
						t.Errorf("answer %q, want %q", body, want)
					}
					answered.Add(1)
					if (i+round+ask)%3 == 0 {
						_ = conn.SetReadDeadline(time.Now().Add(time.Duration(40+i) * time.Millisecond)) // about two sweeps
						_, _ = r.Peek(1)
						_ = conn.SetReadDeadline(time.Time{})
					}
				}
				if err != nil {
					shed.Add(1)
				}
				_ = conn.Close()
			}
		})
	}
	wg.Wait()
	t.Logf("%d answers, %d connections made room", answered.Load(), shed.Load())
	until(t, "the node has no connection", func() bool { return n.Connections() == 0 })
}
