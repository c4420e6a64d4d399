package proxy_test

import (
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// leanApp is an app with resumable WebSockets that uses no goroutine per WebSocket.
func leanApp(t *testing.T) string {
	t.Helper()
	ln, ended := listen(t), make(chan struct{})
	var conns []net.Conn
	go func() { // until ln is closed
		defer close(ended)
		for head := make([]byte, 4<<10); ; {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
			if _, err = conn.Read(head); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
					"Shardway-WebSocket: keep\r\nSec-WebSocket-Accept: ICX+Yqv66kxgM0FcWaLWlFLwTAI=\r\n\r\n\x81\x02hi")
			}
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-ended
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return ln.Addr().String()
}

// settled returns the memory statistics after garbage collection.
func settled() (m runtime.MemStats) {
	for range 3 { // an object in a sync.Pool survives two collections
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m
}

// An idle resumable WebSocket does not keep the deep stack of its request. Once, it kept a stack of 8
// KiB with the headers of the request and the response. SHARDWAY_IDLE_SOCKETS sets the number of
// WebSockets. The test prints the memory of each one, for both nodes and both ends of its connections.
func TestIdleWebSocketsKeepNoDeepStack(t *testing.T) {
	many, err := strconv.Atoi(cmpOr(os.Getenv("SHARDWAY_IDLE_SOCKETS"), "8"))
	if err != nil {
		t.Fatal(err)
	}
	for way, start := range ways() {
		t.Run(way, func(t *testing.T) {
			front, owner := start(t, leanApp(t))
			open := func() {
				c := front.socket()
				if text := c.receiveText(); text != "hi" {
					t.Fatalf("message = %q", text)
				}
				c.r = nil
				c.sendText("hi")
			}
			open() // allocates everything that does not grow with the number of WebSockets
			before := settled()
			for range many {
				open()
			}
			until(t, "nobody stands in the flow, and all buffers are given back", func() bool {
				stacks := make([]byte, 64<<20)
				stacks = stacks[:runtime.Stack(stacks, true)]
				return !strings.Contains(string(stacks), "(*client).handleRequest(") && front.lent.Load() == 0 && owner.lent.Load() == 0
			})
			after := settled()
			kib := func(after, before uint64) float64 { return (float64(after) - float64(before)) / 1024 / float64(many) }
			t.Logf("%d idle sockets, each: heap %.1f KiB, stacks %.1f KiB", many,
				kib(after.HeapAlloc, before.HeapAlloc), kib(after.StackInuse, before.StackInuse))
		})
	}
}
