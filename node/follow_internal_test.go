package node

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
	"shardway/node/past"
	"shardway/proxy"
	"shardway/queue"
	"shardway/shardmap"
)

// owning is a cluster all of whose shards are at node x, whose process is in this boot.
type owning struct {
	proxy.Cluster

	boot  uint64
	table *proxy.Table
	dials atomic.Int32
}

func (c *owning) Table() *proxy.Table                  { return c.table }
func (c *owning) Lane(string) net.Conn                 { return nil }
func (c *owning) Leg(context.Context, string) net.Conn { return nil }
func (c *owning) LeaseLeft() time.Duration             { return time.Hour }
func (c *owning) Dial(context.Context, string) (net.Conn, error) {
	c.dials.Add(1)
	near, far := net.Pipe()
	go func() { // ends with its other end
		for r := bufio.NewReader(far); ; {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") // its reader sees what is missing
		}
	}()
	return booted{near, c.boot}, nil
}

// booted is a connection to a process in a boot.
type booted struct {
	net.Conn

	boot uint64
}

func (b booted) Boot() uint64 { return b.boot }

// A process that says its boot 1, is told that its node had boot 7, and takes 8 is one process,
// whose messages overtake each other. One of boot 1 that came last had the proxy take that for
// the present one, for good: it used no connection to boot 8 twice.
func TestWhatIsOvertakenIsNotFollowed(t *testing.T) {
	c := &owning{boot: 8, table: proxy.NewTable(proxy.TableSpec{
		Generation: 1, Committed: 1, Proposed: 1, Shards: 4,
		Route: func(shardmap.Shard) proxy.Route { return proxy.Route{Kind: proxy.Remote, Node: "x", Epoch: 1} },
	})}
	s := proxy.New(proxy.Options{Node: "y", Cluster: c, Log: zerolog.Nop(), QueueWait: 5 * time.Second, Room: queue.New(queue.Options{Wait: 5 * time.Second})})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { defer close(served); _ = s.ServeClients(ctx, ln) }() // it is told to end
	defer func() { cancel(); <-served }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	dials := func(requests int) int32 {
		before := c.dials.Load()
		for range requests {
			_, _ = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\n\r\n") // the answer tells
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("answered %s %s, %v", res.Status, body, err)
			}
			_ = res.Body.Close()
		}
		return c.dials.Load() - before
	}
	a := &acquaintance{n: &Node{stream: consensus.NewStream("y/d", nil), proxy: s, log: zerolog.Nop()}, table: past.New(nil)}
	says := func(boot uint64) {
		if err := a.learn(past.Statement{Server: "x/d2", Boot: boot, Nonce: 5, Term: 1, Last: 9}); err != nil {
			t.Fatal(err)
		}
	}
	dials(1) // there is a pool
	for i, boot := range []uint64{8, 1, 8} {
		says(boot)
		if n := dials(10); n > 0 {
			t.Errorf("%d new connections for ten requests after statement %d, of boot %d", n, i, boot)
		}
	}
}
