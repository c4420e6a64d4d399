//go:build linux

package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"shardway/e2e/kit/cluster"
)

// endlessDrain excludes the effect of the drain timeout: no test waits that long. A
// stream can only end by its grace period.
var endlessDrain = []string{"--drain-timeout", "2m", "--shutdown-timeout", "3m"}

// stream is a connection that stays open until a node ends it.
type stream struct {
	net.Conn
	r *bufio.Reader
}

// open opens a stream for a key at a node, and waits for the start of its response.
func open(t *testing.T, c *cluster.Cluster, at *cluster.Node, key, lines string) *stream {
	t.Helper()
	id := "stream " + key
	c.ExpectRequest(id)
	conn, err := net.Dial("tcp", at.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\nApp-Id: %s\r\n%s\r\n", key, id, lines)
	must(t, err)
	r := bufio.NewReader(conn)
	_, err = r.Peek(1)
	must(t, err)
	return &stream{conn, r}
}

const (
	events  = "App-Events: 5ms\r\n"
	sockets = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
)

// wantEvents reads an event stream to its end, which must be between two events.
func (s *stream) wantEvents(t *testing.T) {
	t.Helper()
	resp, err := http.ReadResponse(s.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err == nil || !strings.HasSuffix(string(b), "data: tick\n\n") {
		t.Errorf("an event stream ended with %q, %v; want the end of an event and a cut", tail(b), err)
	}
}

// wantClose reads a WebSocket to its end, which must be a Close frame.
func (s *stream) wantClose(t *testing.T, codes ...int) {
	t.Helper()
	if _, err := http.ReadResponse(s.r, nil); err != nil { //nolint:bodyclose // there is none
		t.Fatal(err)
	}
	b, _ := io.ReadAll(s.r)
	for _, code := range codes {
		if len(b) > 4 && b[0] == 0x88 && int(b[2])<<8|int(b[3]) == code {
			return
		}
	}
	t.Errorf("a WebSocket ended with %q, want a close frame with one of %v", tail(b), codes)
}

func tail(b []byte) []byte { return b[max(0, len(b)-80):] }

// TestStreamsDoNotDelayMoves opens an event stream and a WebSocket for keys of a node,
// through the node itself and through another one. A node joins, then their node gets
// SIGTERM: its shards move, although no drain ends. The lease is long, since a node that
// is paused for longer than its lease on a busy machine aborts all streams before the
// move.
func TestStreamsDoNotDelayMoves(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	c := start(t, 3, append([]string{"--lease", "10s", "--dead-after", "30s"}, endlessDrain...)...)
	node := c.Follower(t)
	keys := c.AwaitServing(t).Keys(node.ID, 1)
	var watched []func(*testing.T)
	for i, at := range []*cluster.Node{node, c.Others(node)[0]} {
		for j, key := range keys[i*len(keys)/2 : (i+1)*len(keys)/2] {
			if j%2 == 0 {
				watched = append(watched, open(t, c, at, key, events).wantEvents)
				continue
			}
			s := open(t, c, at, key, sockets)
			watched = append(watched, func(t *testing.T) { t.Helper(); s.wantClose(t, 1012) })
		}
	}
	traffic := c.Load(t, c.Others(node), cluster.Traffic{})
	traffic.AwaitStarted(t, seconds/2)
	c.Add(t)
	c.AwaitServing(t)
	if cut := c.Sum(t, []*cluster.Node{node}, "shardway_aborted_requests_total", "reason", "moved"); cut == 0 {
		t.Error("no stream was cut by the move")
	}
	node.Terminate(t)
	node.AwaitExit(t, 0)
	c.AwaitServing(t)
	traffic.AwaitStarted(t, seconds/2)
	for _, end := range watched {
		end(t)
	}
	traffic.Finish(t)
}

// TestStoppingNodeEndsForwardedStreams stops an ingress of endless streams whose keys do
// not move.
func TestStoppingNodeEndsForwardedStreams(t *testing.T) {
	t.Parallel() // it waits for the others most of the time
	c := start(t, 3, "--shutdown-timeout", "8s")
	node := c.Follower(t)
	other := c.Others(node)[0]
	keys := c.AwaitServing(t).Keys(other.ID, 1)
	socket, stream := open(t, c, node, keys[0], sockets), open(t, c, node, keys[1], events)
	node.Terminate(t)
	node.AwaitExit(t, 0)
	socket.wantClose(t, 1001)
	stream.wantEvents(t)
	c.AwaitServing(t)
}
