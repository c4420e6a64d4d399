package identity

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/node/consensus"
	"shardway/node/diskhistory"
	"shardway/proxy"
	"shardway/proxy/route"
	"shardway/queue"
	"shardway/shardmap"
)

// owning is a cluster whose shards are all at node x, with a process in this boot.
type owning struct {
	proxy.Cluster

	boot  uint64
	table *route.Table
	dials atomic.Int32
	// asked receives each request. answer delays each response; nil means no delay.
	asked, answer chan struct{}
	closed        func() // is called when a connection is closed; may be nil
}

func (c *owning) Table() *route.Table                                  { return c.table }
func (c *owning) OpenStream(string) net.Conn                           { return nil }
func (c *owning) OpenWebSocketStream(context.Context, string) net.Conn { return nil }
func (c *owning) LeaseLeft() time.Duration                             { return time.Hour }
func (c *owning) Dial(context.Context, string) (net.Conn, error) {
	c.dials.Add(1)
	near, far := net.Pipe()
	go func() { // ends with the other end of the connection
		for r := bufio.NewReader(far); ; {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			if c.asked != nil {
				c.asked <- struct{}{}
				<-c.answer
			}
			_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") // the reader sees what is missing
		}
	}()
	return booted{near, c}, nil
}

// booted is a connection to a process in a boot.
type booted struct {
	net.Conn

	c *owning
}

func (b booted) Boot() uint64 { return b.c.boot }

func (b booted) Close() error {
	if b.c.closed != nil {
		b.c.closed()
	}
	return b.Conn.Close()
}

// follower is a node with a client, whose requests are forwarded to node x.
type follower struct {
	t       *testing.T
	c       *owning
	records *Records
	conn    net.Conn
	r       *bufio.Reader
}

func newFollower(t *testing.T, c *owning) *follower {
	t.Helper()
	c.table = route.NewTable(route.TableSpec{
		Generation: 1, Committed: 1, Proposed: 1, Shards: 4,
		Route: func(shardmap.Shard) route.Route { return route.Route{Kind: route.Remote, Node: "x", Epoch: 1} },
	})
	s := proxy.New(proxy.Options{Node: "y", Cluster: c, Log: zerolog.Nop(), QueueWait: 5 * time.Second, Queue: queue.New(queue.Options{Wait: 5 * time.Second})})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { defer close(served); _ = s.ServeClients(ctx, ln) }() // ends with ctx
	t.Cleanup(func() { cancel(); <-served })
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &follower{
		t: t, c: c, conn: conn, r: bufio.NewReader(conn),
		records: &Records{options: RecordsOptions{CloseOtherStreams: consensus.NewStream("y/d", nil).CloseOtherProcesses, SetPeerProcess: s.SetPeerProcess}, table: diskhistory.New(nil)},
	}
}

func (f *follower) asks() {
	_, _ = fmt.Fprint(f.conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n")
} // the response shows a failure

func (f *follower) answered() {
	f.t.Helper()
	res, err := http.ReadResponse(f.r, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		f.t.Fatalf("answered %s %s, %v", res.Status, body, err)
	}
	_ = res.Body.Close()
}

// dials returns the number of connections that the given number of requests need.
func (f *follower) dials(requests int) int32 {
	f.t.Helper()
	before := f.c.dials.Load()
	for range requests {
		f.asks()
		f.answered()
	}
	return f.c.dials.Load() - before
}

// rests waits until the connection of the last request is idle: the node reads the client's next request afterwards, which has no key and
// is not forwarded.
func (f *follower) rests() {
	f.t.Helper()
	_, _ = fmt.Fprint(f.conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n") // the response shows a failure
	res, err := http.ReadResponse(f.r, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err = io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusBadRequest {
		f.t.Fatalf("without a key answered %s, %v", res.Status, err)
	}
	_ = res.Body.Close()
}

// receives makes the node learn the identity that a process reports.
func (f *follower) receives(boot, nonce uint64) {
	f.t.Helper()
	if err := f.records.learn(diskhistory.Statement{Server: "x/d2", Boot: boot, Nonce: nonce, Term: 1, Last: 9}); err != nil {
		f.t.Fatal(err)
	}
}

// A process that reports boot 1, learns that its node had boot 7, and takes boot 8 is one process, whose messages may arrive out of order.
// Once, if the message with boot 1 arrived last, the proxy considered it the current process for good, and used no connection to boot 8
// twice.
func TestReorderedProcessReportIsIgnored(t *testing.T) {
	f := newFollower(t, &owning{boot: 8})
	f.dials(1) // creates a pool
	for i, boot := range []uint64{8, 1, 8} {
		f.receives(boot, 5)
		if n := f.dials(10); n > 0 {
			t.Errorf("%d new connections for ten requests after statement %d, of boot %d", n, i, boot)
		}
	}
}

// When such a process takes its new boot, the proxy follows: the connection that carried requests in the meantime is kept.
func TestTheBootThatAProcessTakesIsFollowed(t *testing.T) {
	f := newFollower(t, &owning{boot: 8, asked: make(chan struct{}), answer: make(chan struct{}, 11)})
	f.asks()
	<-f.c.asked
	f.receives(1, 5)
	f.receives(8, 5)
	f.c.answer <- struct{}{}
	f.answered()
	f.c.asked = nil
	if n := f.dials(1); n > 0 {
		t.Errorf("%d new connections after its first one came back, want none", n)
	}
}

// The process that accepts a connection is the current one, whatever an earlier process still reports. A report without changes has no
// effect.
func TestRepeatedProcessReportIsNotFollowedAgain(t *testing.T) {
	f := newFollower(t, &owning{boot: 9})
	f.receives(8, 5)
	f.dials(1)
	f.receives(8, 5) // a pool exists now, which received no report
	f.dials(1)
	f.receives(8, 5)
	if n := f.dials(1); n > 0 {
		t.Errorf("%d new connections to process 9 as process 8 says again what it said, want none", n)
	}
}

// Two simultaneous reports of processes are handled one after the other, with all effects of the first one before the second. Otherwise the
// proxy could follow the older process last, and for good.
func TestWhatIsLearntIsFollowedInItsOrder(t *testing.T) {
	f := newFollower(t, &owning{boot: 7})
	f.receives(7, 4)
	f.dials(1)
	f.rests()
	closed := 0
	f.c.closed = func() {
		closed++
		if f.records.learnMu.TryLock() {
			f.records.learnMu.Unlock()
			t.Error("another statement would be heard before this one is followed")
		}
	}
	f.receives(8, 5)
	f.c.closed = nil
	if closed != 1 {
		t.Errorf("%d connections to the process before were closed, want one", closed)
	}
}
