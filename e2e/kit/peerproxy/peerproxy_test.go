//go:build linux

package peerproxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"shardway/e2e/kit/peerproxy"
)

// preface is the first part of a stream to the peer port.
func preface(k peerproxy.Kind) []byte {
	body := append([]byte{byte(k)}, "and more"...)
	return append(append([]byte("SHWY\x01"), 0, byte(len(body))), body...)
}

// layer is a stream layer that dials with a preface and removes it on the other side.
type layer struct {
	net.Listener
	via string
}

func (l layer) Dial(_ raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", l.via, timeout)
	if err == nil {
		_, err = conn.Write(preface(peerproxy.Raft))
	}
	return conn, err
}

func (l layer) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, len(preface(peerproxy.Raft))))
	}
	return conn, err
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

func through(t *testing.T, ln net.Listener) *peerproxy.Proxy {
	t.Helper()
	proxy, err := peerproxy.New("127.0.0.1:0", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	return proxy
}

// The test uses the transport of Raft through the proxy.
func TestHoldLogPassesHeartbeats(t *testing.T) {
	ln := listen(t)
	proxy := through(t, ln)
	transport := func(l net.Listener) *raft.NetworkTransport {
		nt := raft.NewNetworkTransport(layer{l, proxy.Addr()}, 2, 10*time.Second, io.Discard)
		t.Cleanup(func() { _ = nt.Close() })
		return nt
	}
	server, client := transport(ln), transport(listen(t))
	got := make(chan int, 10)
	go func() {
		for rpc := range server.Consumer() {
			if a, ok := rpc.Command.(*raft.AppendEntriesRequest); ok {
				got <- len(a.Entries)
				rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
			}
		}
	}()
	send := func(entries ...*raft.Log) error {
		// Fields that a heartbeat does not have are sent, too.
		a := &raft.AppendEntriesRequest{Term: 3, PrevLogEntry: 7, PrevLogTerm: 3, Entries: entries, LeaderCommitIndex: 7}
		return client.AppendEntries("b/disk", "any", a, new(raft.AppendEntriesResponse))
	}
	entry := &raft.Log{Index: 8, Term: 3, Data: []byte("map")}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(send(entry))
	if n := <-got; n != 1 {
		t.Fatalf("%d entries came, want 1", n)
	}
	proxy.HoldLog()
	must(send())
	if n := <-got; n != 0 {
		t.Fatalf("%d entries came with a heartbeat", n)
	}
	done := make(chan error)
	go func() { done <- send(entry) }()
	await(t, func() bool { return proxy.HeldStreams() == 1 })
	must(send())
	if n := <-got; n != 0 {
		t.Fatalf("%d entries came although they are held", n)
	}
	proxy.Release()
	must(<-done)
	if n := <-got; n != 1 || proxy.HeldStreams() != 0 {
		t.Errorf("%d entries came after the release, %d streams held", n, proxy.HeldStreams())
	}
}

func TestHoldKindsHoldsOnlyTheseKinds(t *testing.T) {
	ln := listen(t)
	proxy := through(t, ln)
	lines := make(chan string, 10)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				head := make([]byte, len(preface(peerproxy.Raft)))
				if _, err := io.ReadFull(conn, head); err != nil {
					return
				}
				for s := bufio.NewScanner(conn); s.Scan(); {
					lines <- fmt.Sprintf("%d %s", head[7], s.Text())
					_, _ = io.WriteString(conn, "ok\n")
				}
			}()
		}
	}()
	dial := func(k peerproxy.Kind) net.Conn {
		conn, err := net.Dial("tcp", proxy.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = conn.Write(preface(k))
		return conn
	}
	beats, forward := dial(peerproxy.Heartbeat), dial(peerproxy.Forward)
	proxy.HoldKinds(peerproxy.Heartbeat, peerproxy.Raft)
	_, _ = io.WriteString(beats, "one\n")
	await(t, func() bool { return proxy.HeldStreams() == 1 })
	_, _ = io.WriteString(forward, "two\n")
	if got := <-lines; got != "3 two" {
		t.Errorf("first line = %q, want the forwarded one", got)
	}
	proxy.Release()
	if got := <-lines; got != "2 one" {
		t.Errorf("released line = %q", got)
	}
	if s, err := bufio.NewReader(beats).ReadString('\n'); s != "ok\n" || err != nil {
		t.Errorf("answer = %q, %v", s, err)
	}
	if proxy.StreamCount(peerproxy.Heartbeat) != 1 || proxy.StreamCount(peerproxy.Raft) != 0 {
		t.Errorf("seen %d heartbeat and %d raft streams", proxy.StreamCount(peerproxy.Heartbeat), proxy.StreamCount(peerproxy.Raft))
	}
}

func TestCloseEndsHeldStreams(t *testing.T) {
	ln := listen(t)
	proxy := through(t, ln)
	conn, err := net.Dial("tcp", proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	proxy.HoldKinds(peerproxy.Forward)
	_, _ = conn.Write(append(preface(peerproxy.Forward), 'x'))
	await(t, func() bool { return proxy.HeldStreams() == 1 })
	if err := proxy.Close(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the stream is still open")
	}
}

// await polls for a condition.
func await(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("the condition never came")
		}
	}
}
