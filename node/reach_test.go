package node_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"shardway/shardmap"
)

// hangingApps starts an app on every node that takes requests and answers none.
func hangingApps(w *world) {
	for _, p := range w.running() {
		ln, err := p.host.Listen(":9000")
		if err != nil {
			w.t.Fatal(err)
		}
		go func() { // ends with the network
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(io.Discard, conn) }()
			}
		}()
	}
}

// said is what a client was answered.
type said struct {
	status int
	code   string
}

// ask sends a POST for a shard of owner to p, and returns where its answer comes.
func ask(w *world, p *process, owner string) <-chan said {
	w.t.Helper()
	key := ""
	for i := 0; ; i++ {
		key = fmt.Sprint("k", i)
		if p.node.State().Committed().Owner(shardmap.Of(key, shards)) == shardmap.NodeID(owner) {
			break
		}
	}
	conn, err := p.host.Dial(context.Background(), p.host.Addr(8080))
	if err != nil {
		w.t.Fatal(err)
	}
	answered := make(chan said, 1)
	go func(conn net.Conn) { // ends with the network
		defer close(answered)
		_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\nContent-Length: 0\r\n\r\n", key)
		if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			answered <- said{res.StatusCode, res.Header.Get("Shardway-Error")}
			_ = res.Body.Close()
		}
	}(conn)
	return answered
}

// A node that is cut off sees no commit that would free what it has forwarded. It
// finds out itself that the owner cannot be reached, and says so to its client; an
// owner that only takes its time is left alone.
func TestRequestsToAnOwnerOutOfReachAreFreed(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		hangingApps(w)
		l, p := w.leader(), w.follower()
		answered := ask(w, p, l.name)
		for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(100 * time.Millisecond) {
			select {
			case res := <-answered:
				w.t.Fatalf("answered %v though the owner can be reached", res)
			default:
			}
		}
		w.net.Isolate(p.name)
		began := time.Now()
		if got := <-answered; got != (said{http.StatusBadGateway, "peer-unreachable"}) {
			w.t.Fatalf("answered %v, want 502 peer-unreachable", got)
		}
		if took := time.Since(began); took < 2500*time.Millisecond || took > 7*time.Second {
			w.t.Errorf("freed after %v, want a little more than dead-after", took)
		}
		w.net.Heal()
		w.untilSettled("a", "b", "c")
	})
}
