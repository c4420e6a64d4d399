package node_test

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/proxy/wsframe"
	"shardway/shardmap"
)

// keptApp starts an app with resumable WebSockets, which ends each upstream connection on request.
func keptApp(w *world, p *process) {
	w.t.Helper()
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
			go keeps(conn)
		}
	}()
}

// keeps serves one upstream connection until it receives a Close frame.
func keeps(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	sum := sha1.Sum([]byte(req.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Shardway-WebSocket: keep\r\nSec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n") // a client that reads sees what is missing
	for {
		head := make([]byte, 6) // a masked frame
		if _, err := io.ReadFull(r, head); err != nil {
			return
		}
		said := make([]byte, head[1]&0x7f)
		if _, err := io.ReadFull(r, said); err != nil {
			return
		}
		if head[0]&15 == wsframe.OpClose && len(said) >= 2 {
			_, _ = conn.Write(wsframe.AppendClose(nil, int(said[0]^head[2])<<8|int(said[1]^head[3]), "", false)) // the connection ends even if the write fails
			return
		}
	}
}

// opensSocket makes a client of p open a WebSocket for a shard. closed is closed when the WebSocket ends.
func opensSocket(w *world, p *process, s shardmap.Shard) (closed chan struct{}) {
	w.t.Helper()
	key := ""
	for i := 0; key == "" || shardmap.ShardOf(key, shards) != s; i++ {
		key = fmt.Sprint("k", i)
	}
	conn, err := p.host.Dial(context.Background(), p.host.Addr(8080))
	if err != nil {
		w.t.Fatal(err)
	}
	_, _ = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", key) // the response shows a failure
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusSwitchingProtocols {
		w.t.Fatalf("a socket is answered %s", res.Status)
	}
	closed = make(chan struct{})
	go func(conn net.Conn) { // ends with the network
		defer close(closed)
		_, _ = io.Copy(io.Discard, conn)
	}(conn)
	return closed
}

// A drain with idle-first moves resumable WebSockets to another node at its start, while there are few, and aborts none. Once, they stayed
// until the drain's time was over, although they are no reason to wait.
func TestGentleDrainHasKeptSocketsHandOver(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		victim := w.follower()
		id := shardmap.NodeID(victim.name)
		for _, p := range w.all {
			keptApp(w, p)
		}
		var sockets []chan struct{}
		for s := range victim.node.State().Committed().Shards(id) {
			if len(sockets) < 3 {
				sockets = append(sockets, opensSocket(w, victim, s))
			}
		}
		began := time.Now()
		if err := victim.node.API().Do(w.t.Context(), api.Action{Verb: api.Drain, Node: victim.name, IdleFirst: "1m"}); err != nil {
			w.t.Fatal(err)
		}
		w.until("nothing is left there", func() bool { return !victim.node.State().Committed().IsMember(id) })
		if took := time.Since(began); took > 10*time.Second {
			w.t.Errorf("nothing is left there after %v, want a few looks", took)
		}
		time.Sleep(time.Second)
		for i, closed := range sockets {
			select {
			case <-closed:
				w.t.Errorf("socket %d was cut", i)
			default:
			}
		}
	})
}
