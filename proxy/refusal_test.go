package proxy_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
)

func TestRefusedRequestIsRetriedWithBody(t *testing.T) {
	for _, reason := range []route.Refusal{route.RefusedNotOwner, route.RefusedQueued, route.RefusedNoLease} {
		ingress, owner := pair(t, webApp(t, echo))
		owner.refuse.Store(int32(reason))
		c := ingress.dial()
		c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 5\r\n\r\nhello")
		until(t, "refused", func() bool { return metric(t, ingress, "shardway_refused_by_owner_total", reason.String()) > 0 })
		owner.refuse.Store(0)
		if _, body := c.answer("POST"); body != "POST /x hello" {
			t.Errorf("%v: body = %q", reason, body)
		}
		if _, body := c.get("/next"); body != "GET /next " {
			t.Errorf("%v: next = %q", reason, body)
		}
	}
}

func TestIngressWaitsForTheOwnersEpochs(t *testing.T) {
	ingress, owner := pair(t, webApp(t, echo))
	owner.swap(3, 4, remote("third", 3)) // the owner has a newer table
	c := ingress.dial()
	c.send("GET /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "refused", func() bool { return metric(t, ingress, "shardway_refused_by_owner_total", "not-owner") == 1 })
	until(t, "it waits for its log", func() bool { return ingress.room.Stats().Waiting == 1 })
	third := newNode(t, "third", webApp(t, echo))
	third.swap(3, 4, local(3))
	ingress.knows("third", third)
	ingress.swap(3, 4, remote("third", 3))
	if n := metric(t, ingress, "shardway_refused_by_owner_total", "not-owner"); n != 1 {
		t.Errorf("asked %v times while behind, want once", n)
	}
	if res, _ := c.answer("GET"); res.Header.Get("Saw-Shardway-Node") != "third" {
		t.Errorf("served by %q", res.Header.Get("Saw-Shardway-Node"))
	}
}

func TestOwnerBehindWaitsForItsLog(t *testing.T) {
	ingress, owner := pair(t, webApp(t, echo))
	ingress.swap(2, 2, remote("owner", 2))
	owner.swap(1, 2, held(route.ReasonMoving))
	c := ingress.dial()
	c.send("GET /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	until(t, "the owner waits for its log", func() bool { return owner.awaiting.Load() > 0 })
	owner.swap(2, 2, local(2))
	if _, body := c.answer("GET"); body != "GET /x " {
		t.Errorf("body = %q", body)
	}
	if n := metric(t, owner, "shardway_refused_total", "held"); n != 0 {
		t.Errorf("refused %v times, want none", n)
	}
}

// An owner with an old log and without a lease refuses forwarded requests at once. Once, the disk of a
// leader hung, and it was in this state for two seconds. A third of the requests that waited for its
// shards were there when the shards were taken over, and got the response that they may have run.
func TestOwnerBehindWithoutLeaseRefusesAtOnce(t *testing.T) {
	ingress, owner := pair(t, webApp(t, echo))
	ingress.swap(2, 2, remote("owner", 2))
	owner.swap(1, 2, held(route.ReasonMoving))
	owner.lease.Store(0)
	c := ingress.dial()
	c.send("POST /x HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 2\r\n\r\nhi")
	until(t, "refused", func() bool { return metric(t, owner, "shardway_refused_total", "no-lease") > 0 })
	owner.lease.Store(int64(time.Hour))
	owner.swap(2, 2, local(2))
	if _, body := c.answer("POST"); body != "POST /x hi" {
		t.Errorf("body = %q", body)
	}
	if n := metric(t, owner, "shardway_refused_total", "held"); n != 0 {
		t.Errorf("waited for its log %v times, want none", n)
	}
}

func TestForwardedRequestIsNeverForwarded(t *testing.T) {
	var served atomic.Int32
	third := newNode(t, "third", webApp(t, func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	ingress, owner := pair(t, webApp(t, echo), func(o *proxy.Options) { o.QueueWait = 100 * time.Millisecond })
	owner.knows("third", third)
	owner.swap(1, 1, remote("third", 1))
	res, body := ingress.dial().get("/")
	wantStatus(t, res, body, 503, "queue-timeout")
	if served.Load() != 0 || owner.dials.Load() != 0 {
		t.Error("the owner forwarded it")
	}
}

func TestPeerStreamTakesOnlyForwardedRequests(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	conn, err := net.Dial("tcp", n.peer)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	c := &client{Conn: conn, t: t, r: bufio.NewReader(conn)}
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
	res, body := c.answer("GET")
	wantStatus(t, res, body, 421, "misrouted")
	c.closed()
}

// A refused request must not leave body bytes that would be read as the next request.
func TestBodyOfARefusedRequestIsNeverARequest(t *testing.T) {
	var evil atomic.Int32
	n := newNode(t, "a", webApp(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "evil") {
			evil.Add(1)
		}
		echo(w, r)
	}))
	n.refuse.Store(int32(route.RefusedQueued))
	smuggled := "GET /evil HTTP/1.1\r\nHost: h\r\nShardway-Map: 1 1\r\nShardway-Shard: 1\r\nX-Shard-Key: k\r\n\r\n"
	for _, size := range []int{0, 9 << 10, 60 << 10, 300 << 10} {
		for _, chunked := range []bool{false, true} {
			conn, err := net.Dial("tcp", n.peer)
			if err != nil {
				t.Fatal(err)
			}
			body := strings.Repeat("x", size) + strings.Repeat(smuggled, 20)
			frame := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
			if chunked {
				frame = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
			}
			go func() {
				_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nShardway-Map: 1 1\r\nShardway-Shard: 1\r\n%s", frame)
			}()
			c := &client{Conn: conn, t: t, r: bufio.NewReader(conn)}
			if res, _ := c.answer("POST"); res.StatusCode != 421 || res.Header.Get("Shardway-Refused") != "held" || res.Header.Get("Shardway-Map") != "1 1" {
				t.Errorf("size %d: %v %v", size, res.Status, res.Header)
			}
			if size > 64<<10 {
				c.closed()
			} else {
				n.refuse.Store(0)
				c.send("GET /next HTTP/1.1\r\nHost: h\r\nShardway-Map: 1 1\r\nShardway-Shard: 1\r\n\r\n")
				if _, body := c.answer("GET"); body != "GET /next " {
					t.Errorf("size %d: next = %q", size, body)
				}
				n.refuse.Store(int32(route.RefusedQueued))
			}
			_ = conn.Close()
		}
	}
	if evil.Load() != 0 {
		t.Errorf("%d requests out of bodies reached the app", evil.Load())
	}
}

func TestUnreadBodyAfterResponseIsNeverARequest(t *testing.T) {
	n := newNode(t, "a", webApp(t, echo))
	c := n.dial()
	evil := strings.Repeat("GET /evil HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n", 100)
	c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(evil), evil)
	res, body := c.answer("POST")
	wantStatus(t, res, body, 400, "no-key")
	if _, body := c.get("/next"); body != "GET /next " {
		t.Errorf("next = %q", body)
	}
}

// A large body is sent to another node only after that node has admitted the request.
func TestRefusalOfALargeBodyCostsNothing(t *testing.T) {
	got := make(chan int, 1)
	ingress, owner := pair(t, webApp(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.Header.Get("Expect") != "" {
			t.Error("the app saw the proxy's own Expect")
		}
		got <- len(b)
	}))
	before := owner.admitted.Load()
	owner.refuse.Store(int32(route.RefusedQueued))
	c := ingress.dial()
	big := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // 1 MiB
	go func() {
		c.send("POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: %d\r\n\r\n", len(big))
		_, _ = c.Write(big)
	}()
	until(t, "refused thrice", func() bool { return metric(t, ingress, "shardway_refused_by_owner_total", "held") >= 3 })
	if d := ingress.dials.Load(); d > 2 {
		t.Errorf("%d streams were used up", d)
	}
	owner.refuse.Store(0)
	if res, body := c.answer("POST"); res.StatusCode != 200 {
		t.Errorf("answer = %v %s", res.Status, body)
	}
	if n := <-got; n != len(big) {
		t.Errorf("the app got %d bytes, want %d", n, len(big))
	}
	if owner.admitted.Load() != before+1 {
		t.Error("admitted more than once")
	}
}
