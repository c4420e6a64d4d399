package node_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"shardway/shardmap"
)

// socketOf opens a WebSocket at p for a shard of owner.
func socketOf(w *world, p *process, owner string) net.Conn {
	w.t.Helper()
	key := ""
	for i := 0; key == "" || p.node.State().Committed().Owner(shardmap.ShardOf(key, shards)) != shardmap.NodeID(owner); i++ {
		key = fmt.Sprint("k", i)
	}
	conn, err := p.host.Dial(context.Background(), p.host.Addr(8080))
	if err != nil {
		w.t.Fatal(err)
	}
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", key)
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 101") {
		w.t.Fatalf("answered %q, %v", line, err)
	}
	return conn
}

// The mux session of a WebSocket shows that its owner is alive. An owner that stops responding is still detected, and then confirmed with a
// dial. Once, each ingress with a resumable WebSocket dialed its owner twice a second, also in an idle cluster.
func TestOwnersOfKeptSocketsAreNotDialed(t *testing.T) {
	three(t, func(w *world) {
		w.untilVoters(3)
		l, p := w.leader(), w.follower()
		keptApp(w, l)
		taken := func() int { // streams that the owner accepts in some idle time, such as greetings of voters
			time.Sleep(3 * time.Second)
			before := l.node.Accepted()
			time.Sleep(30 * time.Second)
			return int(l.node.Accepted() - before)
		}
		const few = 10
		usual := taken()
		conn := socketOf(w, p, l.name)
		if n := taken(); n > usual+few {
			w.t.Errorf("the owner has taken %d streams of others in half a minute, %d without a socket", n, usual)
		}
		if kept, trunks := p.node.Attached(), p.node.OutgoingWebSocketSessions(); kept != 1 || trunks != 1 {
			w.t.Fatalf("%d sockets by %d trunks, want one", kept, trunks)
		}
		p.node.RenewPeers() // the WebSocket stays on its mux session, which takes no new streams
		if n := taken(); n > usual+few {
			w.t.Errorf("after a renewal the owner has taken %d streams of others in half a minute, %d without a socket", n, usual)
		}
		w.net.Isolate(p.name)
		began := time.Now()
		w.until("the leg is over", func() bool { return p.node.Attached() == 0 })
		if took := time.Since(began); took > 7*time.Second {
			w.t.Errorf("freed after %v, want a little more than dead-after", took)
		}
		_ = conn.Close()
		w.net.Heal()
		w.untilSettled("a", "b", "c")
	})
}
