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

	"shardway/node"
	"shardway/shardmap"
)

// hangingApps starts an app on every node that accepts requests and never responds.
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

// clientResponse is the response that a client received.
type clientResponse struct {
	status int
	code   string
}

// ask sends a POST for a shard of owner to p, and returns the channel of its response.
func ask(w *world, p *process, owner, path string) <-chan clientResponse {
	w.t.Helper()
	return asking(w, p, http.MethodPost, owner, path)
}

// asking sends a request like ask, with another method.
func asking(w *world, p *process, method, owner, path string) <-chan clientResponse {
	w.t.Helper()
	key := ""
	for i := 0; ; i++ {
		key = fmt.Sprint("k", i)
		if p.node.State().Committed().Owner(shardmap.ShardOf(key, shards)) == shardmap.NodeID(owner) {
			break
		}
	}
	conn, err := p.host.Dial(context.Background(), p.host.Addr(8080))
	if err != nil {
		w.t.Fatal(err)
	}
	answered := make(chan clientResponse, 1)
	go func(conn net.Conn) { // ends with the network
		defer close(answered)
		_, _ = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\nContent-Length: 0\r\n\r\n", method, path, key)
		if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			answered <- clientResponse{res.StatusCode, res.Header.Get("Shardway-Error")}
			_ = res.Body.Close()
		}
	}(conn)
	return answered
}

// A node that is cut off receives no commit that would release its forwarded requests. It detects that the owner is unreachable, and
// responds to its client. It does not abort requests of an owner that is only slow.
func TestRequestsToAnOwnerOutOfReachAreFreed(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		hangingApps(w)
		l, p := w.leader(), w.follower()
		answered := ask(w, p, l.name, "/")
		for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(100 * time.Millisecond) {
			select {
			case res := <-answered:
				w.t.Fatalf("answered %v though the owner can be reached", res)
			default:
			}
		}
		w.net.Isolate(p.name)
		began := time.Now()
		if got := <-answered; got != (clientResponse{http.StatusBadGateway, "peer-unreachable"}) {
			w.t.Fatalf("answered %v, want 502 peer-unreachable", got)
		}
		if took := time.Since(began); took < 2500*time.Millisecond || took > 7*time.Second {
			w.t.Errorf("freed after %v, want a little more than dead-after", took)
		}
		w.net.Heal()
		w.untilSettled("a", "b", "c")
	})
}

// given counts the shards that p owns and does not own in the routing map of from. For both it also counts the shards whose requests,
// forwarded to p, are orphaned by the node's state.
func given(from *process, p string) (owned, others, ownedGone, othersGone int) {
	s := from.node.State()
	for sh := range shardmap.Shard(shards) {
		gone := 0
		if node.GoneFrom(s, sh, p) {
			gone = 1
		}
		if s.Committed().Owner(sh) == shardmap.NodeID(p) {
			owned, ownedGone = owned+1, ownedGone+gone
		} else {
			others, othersGone = others+1, othersGone+gone
		}
	}
	return owned, others, ownedGone, othersGone
}

// Requests forwarded to a node that a map excludes may never get a response: the commit releases them before the ingress detects the
// failure. Before the commit the node may still respond. A node that no map excludes responds to everything that it received: it finishes
// or refuses also requests of shards that have moved away.
func TestCommitReleasesRequestsForwardedToExcludedNode(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		hangingApps(w)
		l, p := w.leader(), w.follower()
		answered := ask(w, l, p.name, "/")
		time.Sleep(time.Second)
		if _, _, owned, others := given(l, p.name); owned != 0 || others != 0 {
			w.t.Errorf("of a node in the map %d own shards and %d others are given up, want none", owned, others)
		}
		w.net.Isolate(p.name)
		w.until("a map without it is proposed", func() bool { return l.node.State().IsDropped(shardmap.NodeID(p.name)) })
		if owned, _, gone, _ := given(l, p.name); owned == 0 || gone != 0 {
			w.t.Errorf("of %d shards that are still its own %d are given up, want some and none", owned, gone)
		}
		w.until("the silent node's shards are taken", func() bool { return l.node.State().Committed().ShardCount(shardmap.NodeID(p.name)) == 0 })
		time.Sleep(100 * time.Millisecond) // virtual time
		select {
		case got := <-answered:
			if got != (clientResponse{http.StatusBadGateway, "peer-unreachable"}) {
				w.t.Errorf("answered %v, want 502 peer-unreachable", got)
			}
		default:
			w.t.Error("not answered, though its owner is dropped")
		}
		if _, all, _, gone := given(l, p.name); all != shards || gone != shards {
			w.t.Errorf("of %d shards that are taken from it %d are given up, want all %d", all, gone, shards)
		}
		w.net.Heal()
		w.untilSettled("a", "b", "c")
		if _, _, owned, others := given(l, p.name); owned != 0 || others != 0 {
			w.t.Errorf("of a node that is back %d own shards and %d others are given up, want none", owned, others)
		}
	})
}
