package proxy_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"shardway/proxy"
)

// onceThenGone starts an app that responds to a GET, keeps the connection, and closes its listener and
// the connection when a PUT arrives on it.
func onceThenGone(t *testing.T) string {
	t.Helper()
	ln := listen(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		r := bufio.NewReader(conn)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		if _, err := http.ReadRequest(r); err == nil {
			_ = ln.Close()
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-ended
	})
	return ln.Addr().String()
}

// A PUT that breaks on a reused connection may have run nevertheless. If the owner reported that it
// has not run, it would run again at another node.
func TestPutThatMayHaveRunIsNeverReportedAsNotRun(t *testing.T) {
	ingress, owner := pair(t, onceThenGone(t), func(o *proxy.Options) { o.QueueWait = 300 * time.Millisecond })
	c := ingress.dial()
	c.get("/")
	c.send("PUT / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
	res, body := c.answer("PUT")
	wantStatus(t, res, body, 502, "upstream-broken")
	if !strings.Contains(body, "may have run") {
		t.Errorf("body = %s", body)
	}
	if n := metric(t, owner, "shardway_refused_total"); n != 0 {
		t.Errorf("the owner refused it %v times", n)
	}
}

// A second dial that fails must not make a request that may have run at an unreachable owner look like
// one that was never sent.
func TestLostOwnerIsNotReportedAsUnsent(t *testing.T) {
	peers := listen(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := peers.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		serveOnce(conn)
		_ = peers.Close()
	}()
	t.Cleanup(func() {
		_ = peers.Close()
		<-ended
	})
	ingress := newNode(t, "ingress", "", func(o *proxy.Options) { o.QueueWait = 200 * time.Millisecond })
	ingress.knows("owner", &node{peer: peers.Addr().String()})
	ingress.swap(1, 1, remote("owner", 1))
	c := ingress.dial()
	c.get("/")
	c.send("PUT / HTTP/1.1\r\nHost: h\r\nX-Shard-Key: k\r\nContent-Length: 0\r\n\r\n")
	res, body := c.answer("PUT")
	wantStatus(t, res, body, 502, "peer-unreachable")
	if !strings.Contains(body, "may have run") {
		t.Errorf("body = %s", body)
	}
}

// serveOnce answers one request and reads another one.
func serveOnce(conn net.Conn) {
	r := bufio.NewReader(conn)
	if _, err := http.ReadRequest(r); err != nil {
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	_, _ = http.ReadRequest(r)
}
