package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A request with Expect: 100-continue uses a connection of its own. The test also covers a body that
// arrives without the interim response, and a retry with a complete body.
func TestExpectContinueUsesOwnConn(t *testing.T) {
	var asked atomic.Int32
	app := webApp(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if asked.Add(1) == 1 {
			<-r.Context().Done() // the request breaks on its way back
			return
		}
		_, _ = w.Write(b)
	})
	ingress, owner := overStreams(pair)(t, app)
	breaks := owner.breakable()
	c := ingress.dial()
	const head = "GET %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"
	c.send(head, "/again")
	if res, _ := c.answer("GET"); res.StatusCode != 100 {
		t.Fatalf("%s, want to be asked", res.Status)
	}
	c.send("body")
	until(t, "it runs", func() bool { return asked.Load() == 1 })
	breaks()
	if res, body := c.answer("GET"); res.StatusCode != 200 || body != "body" || asked.Load() != 2 {
		t.Errorf("%s %q after %d runs, want it to go again", res.Status, body, asked.Load())
	}
	c.send(head+"body", "/at-once")
	res, body := c.answer("GET")
	if res.StatusCode == 100 {
		res, body = c.answer("GET")
	}
	if res.StatusCode != 200 || body != "body" {
		t.Errorf("%s %q", res.Status, body)
	}
	if d, w := ingress.dials.Load(), ingress.wanted.Load(); d != 2 || w != 0 {
		t.Errorf("%d connections are made and %d lanes asked for, want two, for one broke, and none", d, w)
	}
}

// breakable puts a proxy in front of the node. The returned function breaks the connections that
// exist.
func (n *node) breakable() (breaks func()) {
	n.t.Helper()
	ln, behind := listen(n.t), n.peer
	n.peer = ln.Addr().String()
	var mu sync.Mutex
	var all []net.Conn
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			all = append(all, conn)
			mu.Unlock()
			go splice(conn, behind)
		}
	}()
	breaks = func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range all {
			_ = c.Close()
		}
		all = nil
	}
	n.t.Cleanup(breaks)
	return breaks
}

// A resumed stream uses a connection of its own at its next owner, regardless of the last response for
// its path, because its next upstream connection is as long as the one before.
func TestResumedStreamUsesOwnConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStreams(t, false)
		w.first.acceptMuxSessions()
		w.next.acceptMuxSessions()
		w.front.enableStreams()
		w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		if l := w.front.lanes.Load(); l != 1 {
			t.Errorf("%d lanes, want one: nobody knew of a stream", l)
		}
		w.move(w.first, w.next)
		second := (<-w.legs).wants(t, "1", "1").begins(resumable, "id: 2\n\n")
		w.reads("id: 2\n\n")

		other := w.front.dial()
		other.send("GET /events HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		small := <-w.legs
		_, _ = io.WriteString(small.Conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
		if res, body := other.answer("GET"); res.StatusCode != 200 || body != "no" {
			t.Errorf("%s %q", res.Status, body)
		}
		_ = small.Close()
		_ = other.Close()
		synctest.Wait()
		lanes := w.front.wanted.Load()

		w.move(w.next, w.first)
		<-second.over
		third := (<-w.legs).wants(t, "2", "2").begins(resumable, "id: 3\n\n")
		_, _ = io.WriteString(third.Conn, "0\r\n\r\n")
		w.ends("id: 3\n\n", true)
		if l := w.front.wanted.Load() - lanes; l != 0 {
			t.Errorf("%d lanes are asked for by a further leg", l)
		}
	})
}

// A long response of unknown length counts as a streaming response, although its headers do not show
// that. While it is in progress and afterwards, similar requests use connections of their own.
func TestSlowResponseLeavesStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := newSim(t)
		goes := make(chan struct{})
		app := func(conn net.Conn, r *bufio.Reader) {
			if _, err := readHead(r); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
				<-goes
				_, _ = io.WriteString(conn, "0\r\n\r\n")
			}
		}
		owner, ingress := simNode(t, sim, "owner", app), simNode(t, sim, "ingress", app)
		ingress.knows("owner", owner)
		ingress.swap(1, 1, remote("owner", 1))
		owner.acceptMuxSessions()
		ingress.enableStreams()
		asks := func(wanted float64) *client {
			c := ingress.dial()
			c.send("GET /long HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
			synctest.Wait()
			time.Sleep(time.Second)
			if n := metric(t, ingress, "shardway_mux_streams_total"); n != wanted {
				t.Errorf("%v requests go by lanes, want %v", n, wanted)
			}
			return c
		}
		all := []*client{asks(1), asks(2)}
		time.Sleep(10 * time.Second)
		all = append(all, asks(2)) // on a connection, and it takes as long
		time.Sleep(11 * time.Second)
		close(goes)
		for _, c := range all {
			if res, body := c.answer("GET"); res.StatusCode != 200 || body != "first" {
				t.Errorf("%s %q", res.Status, body)
			}
		}
		all = append(all, asks(2))
		for _, c := range all {
			_ = c.Close()
		}
	})
}

// The headers of an event stream show that it is one. While the first one is in progress, the
// following ones use connections of their own and leave the multiplexed streams to small requests.
func TestEventStreamsLeaveStreams(t *testing.T) {
	over := make(chan struct{})
	app := webApp(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/events" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: x\n\n")
			_ = http.NewResponseController(w).Flush()
			<-over
		}
	})
	ingress, _ := overStreams(pair)(t, app)
	t.Cleanup(func() { close(over) })
	for i := range int32(8) {
		c := ingress.dial()
		c.send("GET /events HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
		if res, _ := c.head("GET"); res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
		if d, l := ingress.dials.Load(), ingress.lanes.Load(); d != i || l != 1 {
			t.Fatalf("%d connections and %d lanes after %d streams, want a lane for the first alone", d, l, i+1)
		}
	}
}
