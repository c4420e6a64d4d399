package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy"
	"shardway/proxy/route"
)

// eventStreamConn is a connection on which an app has received a request for an event stream.
type eventStreamConn struct {
	net.Conn
	head string        // headers of the request
	over chan struct{} // closed when the peer has closed the connection
}

// asker returns an app whose responses are written by the test.
func asker(legs chan<- *eventStreamConn) func(net.Conn, *bufio.Reader) {
	return func(conn net.Conn, r *bufio.Reader) {
		head, err := readHead(r)
		if err != nil {
			return
		}
		l := &eventStreamConn{Conn: conn, head: head, over: make(chan struct{})}
		legs <- l
		_, _ = io.Copy(io.Discard, r)
		close(l.over)
	}
}

// resumable is the header section of a resumable event stream.
const resumable = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nShardway-Stream: resume\r\n"

// chunk returns a chunk of a chunked response.
func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// begins sends the headers and the first events of a chunked event stream.
func (l *eventStreamConn) begins(head, events string) *eventStreamConn {
	_, _ = io.WriteString(l.Conn, head+"Transfer-Encoding: chunked\r\n\r\n")
	l.sends(events)
	return l
}

// sends sends more events.
func (l *eventStreamConn) sends(events string) {
	if events != "" {
		_, _ = io.WriteString(l.Conn, chunk(events))
	}
}

// wants compares the Last-Event-ID and resume headers of the request with the expected values. An
// empty string means that the header must be absent.
func (l *eventStreamConn) wants(t *testing.T, lastID, resumed string) *eventStreamConn {
	t.Helper()
	for name, want := range map[string]string{"Last-Event-Id": lastID, "Shardway-Stream-Resumed": resumed} {
		got, found := "", 0
		for line := range strings.SplitSeq(l.head, "\r\n") {
			if n, v, _ := strings.Cut(line, ": "); strings.EqualFold(n, name) {
				got, found = v, found+1
			}
		}
		if got != want || found > 1 || found == 1 && want == "" {
			t.Errorf("%s is %q (%d lines), want %q", name, got, found, want)
		}
	}
	return l
}

// streamWorld is an ingress, two owners of which the first has the shards, and the app of both owners.
type streamWorld struct {
	t                  *testing.T
	front, first, next *node
	legs               chan *eventStreamConn
	c                  *client
	body               io.Reader
	res                *reply
	moves              uint64        // number of moves so far
	drains             time.Duration // drain timeout of a move, after which running requests are aborted; zero: they end themselves
}

// newStreams starts the three nodes. If local is set, the ingress is the first owner.
func newStreams(t *testing.T, local bool, tune ...func(*proxy.Options)) *streamWorld {
	t.Helper()
	w := &streamWorld{t: t, legs: make(chan *eventStreamConn)}
	sim := newSim(t)
	w.first, w.next = simNode(t, sim, "first", asker(w.legs), tune...), simNode(t, sim, "next", asker(w.legs), tune...)
	if w.front = w.first; !local {
		w.front = simNode(t, sim, "front", asker(w.legs), tune...)
		w.front.swap(1, 1, remote("first", 1))
	}
	for _, n := range []*node{w.front, w.first, w.next} {
		n.knows("first", w.first)
		n.knows("next", w.next)
	}
	w.next.swap(1, 1, remote("first", 1))
	return w
}

const getEvents = "GET /events HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nLast-Event-ID: the client's\r\n\r\n"

// opens sends a client's request for a stream and returns its first upstream connection.
func (w *streamWorld) opens(request string) *eventStreamConn {
	w.t.Helper()
	w.c = w.front.dial()
	w.c.send("%s", request)
	return <-w.legs
}

// another returns the next upstream connection.
func (w *streamWorld) another() *eventStreamConn {
	w.t.Helper()
	select {
	case l := <-w.legs:
		return l
	case <-time.After(10 * time.Second):
		w.t.Fatal("no app is asked for a further leg")
		return nil
	}
}

// reads fails the test unless the client has received want by now.
func (w *streamWorld) reads(want string) {
	w.t.Helper()
	if w.body == nil {
		w.res, w.body = w.c.head("GET")
		if w.res.Header.Get("Shardway-Stream") != "" {
			w.t.Errorf("the client is told the app's word: %v", w.res.Header)
		}
	}
	got := make([]byte, len(want))
	if n, err := io.ReadFull(w.body, got); string(got[:n]) != want {
		w.t.Fatalf("the client got %q, %v; want %q", got[:n], err, want)
	}
}

// ends reads the rest of the stream and checks whether it ends completely or truncated.
func (w *streamWorld) ends(want string, whole bool) {
	w.t.Helper()
	if w.body == nil {
		w.reads("")
	}
	rest, err := io.ReadAll(w.body)
	if string(rest) != want || (err == nil) != whole {
		w.t.Errorf("the stream ended with %q, %v; want %q, whole: %v", rest, err, want, whole)
	}
	_ = w.c.Close()
	synctest.Wait()
	if n := w.first.running.Load() + w.next.running.Load(); n != 0 {
		w.t.Errorf("%d requests are still running", n)
	}
	if n := metric(w.t, w.front, "shardway_resumable_streams"); n != 0 {
		w.t.Errorf("%v streams are said to be open", n)
	}
}

// move moves the shards from one node to another, as a planned move does: the map is committed after
// all requests at the old owner have ended.
func (w *streamWorld) move(from, to *node) {
	w.t.Helper()
	w.moves++
	epoch := 1 + 2*w.moves
	nodes := map[*node]bool{w.front: true, w.first: true, w.next: true}
	for n := range nodes {
		n.swap(epoch-2, epoch-1, held(route.ReasonMoving))
	}
	if w.drains > 0 {
		time.Sleep(w.drains)
		from.CancelShards(allShards, "draining")
	}
	began := time.Now()
	for from.running.Load() > 0 {
		if time.Since(began) > time.Second {
			w.t.Fatal("the old owner still runs the stream")
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // until the new map is known and committed
	for n := range nodes {
		if n == to {
			n.swap(epoch, epoch, local(epoch))
		} else {
			n.swap(epoch, epoch, remote(to.id, epoch))
		}
	}
}

// both runs f twice: with the client's node as the owner, and with another node as the owner.
func both(t *testing.T, f func(w *streamWorld)) {
	t.Helper()
	for _, local := range []bool{false, true} {
		t.Run(fmt.Sprint("local ", local), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(newStreams(t, local)) })
		})
	}
}

// A resumable event stream continues at the next owner after the last complete event. Once, an event
// stream ended with the move of its shard, and all clients reconnected at once or after their retry
// time.
func TestEventStreamResumesAtNextOwner(t *testing.T) {
	both(t, func(w *streamWorld) {
		t := w.t
		l := w.opens(getEvents).wants(t, "the client's", "").begins(resumable, "id: 1\ndata: a\n\nid: 2\ndata: b\n\n")
		w.reads("id: 1\ndata: a\n\nid: 2\ndata: b\n\n")
		w.move(w.first, w.next)
		<-l.over
		l = (<-w.legs).wants(t, "2", "1").begins(resumable, "\xef\xbb\xbfid: 3\ndata: c\n\n")
		w.reads("id: 3\ndata: c\n\n")
		w.move(w.next, w.first)
		<-l.over
		l = (<-w.legs).wants(t, "3", "2").begins(resumable, "data: d\n\nid:\n\n")
		w.reads("data: d\n\nid:\n\n")
		w.move(w.first, w.next)
		<-l.over
		l = (<-w.legs).wants(t, "", "3").begins(resumable, "data: e\n\n")
		_, _ = io.WriteString(l.Conn, "0\r\n\r\n") // the app's end of the stream ends it for the client
		w.ends("data: e\n\n", true)
		if n := metric(t, w.front, "shardway_stream_resumptions_total", "resumed"); n != 3 {
			t.Errorf("%v resumptions are counted, want 3", n)
		}
		if n := metric(t, w.first, "shardway_aborted_requests_total") + metric(t, w.next, "shardway_aborted_requests_total"); n != 0 {
			t.Errorf("%v requests are said to be cut", n)
		}
	})
}

// An incomplete event of an owner that crashes is not forwarded, and the next owner sends the whole
// event. The same applies to an event without its blank line when the shard moves.
func TestIncompleteEventOfDeadOwnerIsDropped(t *testing.T) {
	both(t, func(w *streamWorld) {
		t := w.t
		l := w.opens(getEvents).begins(resumable, "id: 1\ndata: a\n\nid: 2\ndata: ha")
		w.reads("id: 1\ndata: a\n\n")
		synctest.Wait()
		_ = l.Close()
		l = (<-w.legs).wants(t, "1", "1").begins(resumable, "id: 2\ndata: half\n\nid: 3")
		w.reads("id: 2\ndata: half\n\n")
		synctest.Wait()
		w.move(w.first, w.next)
		<-l.over
		l = (<-w.legs).wants(t, "2", "2").begins(resumable, "id: 3\n\n")
		w.reads("id: 3\n\n")
		_, _ = io.WriteString(l.Conn, chunk("data: left open")+"0\r\n\r\n")
		w.ends("data: left open", true)
	})
}

// Each resume request has its own number. Once, an owner whose app broke off before its response sent
// the resume request again with the same number, and the app could not distinguish the two.
func TestEachResumeRequestHasItsNumber(t *testing.T) {
	both(t, func(w *streamWorld) {
		t := w.t
		w.opens(getEvents).begins(resumable, "id: 1\n\n")
		w.reads("id: 1\n\n")
		w.move(w.first, w.next)
		for _, n := range []string{"1", "2"} {
			_ = (<-w.legs).wants(t, "1", n).Close()
		}
		l := (<-w.legs).wants(t, "1", "3").begins(resumable, "id: 2\n\n")
		_, _ = io.WriteString(l.Conn, "0\r\n\r\n")
		w.ends("id: 2\n\n", true)
	})
}
