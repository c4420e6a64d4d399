//go:build linux

package recipes_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
)

// relay forwards connections of a client to a node. It stops in the middle of a long upload, so that a test can
// interfere there.
type relay struct {
	target string
	addr   string

	limit  int64         // number of bytes that the relay forwards before it stops
	paused chan struct{} // closed when the relay stops
	resume chan struct{} // closed by the test

	mu        sync.Mutex
	forwarded int64
}

// startRelay starts a relay that stops after limit bytes of the client. It ends with the test.
func startRelay(t *testing.T, target string, limit int64) *relay {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	r := &relay{target: target, addr: listener.Addr().String(), limit: limit, paused: make(chan struct{}), resume: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { r.forward(ctx, client) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		running.Wait()
	})
	return r
}

// forward copies the data of one connection in both directions. If one side closes it, the other side sees that.
func (r *relay) forward(ctx context.Context, client net.Conn) {
	node, err := new(net.Dialer).DialContext(ctx, "tcp", r.target)
	if err != nil {
		_ = client.Close()
		return
	}
	stop := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = node.Close()
	})
	defer stop()
	var responses sync.WaitGroup
	responses.Go(func() {
		_, _ = io.Copy(client, node)
		_ = client.Close()
	})
	_, _ = io.Copy(&relayWriter{ctx, r, node}, client)
	_ = node.Close()
	responses.Wait()
}

// relayWriter writes to a node until the relay stops.
type relayWriter struct {
	ctx  context.Context
	r    *relay
	node net.Conn
}

func (w *relayWriter) Write(data []byte) (int, error) {
	w.r.mu.Lock()
	before := w.r.forwarded
	w.r.forwarded += int64(len(data))
	reached := before < w.r.limit && w.r.forwarded >= w.r.limit
	w.r.mu.Unlock()
	if reached {
		close(w.r.paused)
		select {
		case <-w.r.resume:
		case <-w.ctx.Done():
			return 0, w.ctx.Err()
		}
	}
	return w.node.Write(data)
}
