//go:build linux

package peerproxy

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
)

// Kind is the kind of a stream: the byte after the fixed part of the preface.
type Kind byte

// The kinds of streams, as in package peer.
const (
	Raft Kind = iota + 1
	Heartbeat
	Forward
	Control
)

// prefaceHead is the length of magic, version and the length of the rest, which starts
// with the kind.
const prefaceHead = 4 + 1 + 2

// Proxy forwards connections to one address.
type Proxy struct {
	ln     net.Listener
	target string
	cancel context.CancelFunc
	conns  sync.WaitGroup

	mu      sync.Mutex
	hold    func(kind Kind, message []byte) bool // nil means that nothing is held
	changed chan struct{}                        // closed when hold changes
	held    int
	seen    map[Kind]int
}

// New listens at addr and forwards to target, which need not listen yet.
func New(addr, target string) (*Proxy, error) {
	ctx, cancel := context.WithCancel(context.Background())
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("peerproxy: %w", err)
	}
	proxy := &Proxy{ln: ln, target: target, cancel: cancel, changed: make(chan struct{}), seen: make(map[Kind]int)}
	proxy.conns.Go(func() { proxy.accept(ctx) })
	return proxy, nil
}

// Addr returns the address of the proxy.
func (r *Proxy) Addr() string { return r.ln.Addr().String() }

// Close ends every connection and returns after the last goroutine has ended.
func (r *Proxy) Close() error {
	r.cancel()
	err := r.ln.Close()
	r.conns.Wait()
	return err
}

// HoldKinds holds all data on streams of these kinds.
func (r *Proxy) HoldKinds(kinds ...Kind) {
	r.set(func(kind Kind, _ []byte) bool {
		return slices.Contains(kinds, kind)
	})
}

// HoldLog holds log entries and snapshots. A stream with one of these is held from there
// on.
func (r *Proxy) HoldLog() {
	r.set(func(kind Kind, message []byte) bool { return kind == Raft && carriesLog(message) })
}

// Release forwards all held data, and holds nothing more.
func (r *Proxy) Release() { r.set(nil) }

func (r *Proxy) set(hold func(Kind, []byte) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold = hold
	close(r.changed)
	r.changed = make(chan struct{})
}

// Held returns the number of streams that are held now.
func (r *Proxy) Held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

// Seen returns the number of streams of a kind so far.
func (r *Proxy) Seen(kind Kind) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[kind]
}

func (r *Proxy) accept(ctx context.Context) {
	for {
		conn, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.conns.Go(func() { r.serve(ctx, conn) })
	}
}

// serve forwards one connection. If the target refuses, the client gets a reset.
func (r *Proxy) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	up, err := new(net.Dialer).DialContext(ctx, "tcp", r.target)
	if err != nil {
		if t, ok := conn.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		return
	}
	defer func() { _ = up.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		_ = conn.Close()
		_ = up.Close()
	})()
	back := make(chan struct{})
	go func() {
		defer close(back)
		_, _ = io.Copy(conn, up)
		cancel() // whichever side ended, the other one must see it at once
	}()
	_ = r.forward(ctx, up, conn)
	cancel()
	<-back
}

// forward forwards the data of the dialer, in the pieces in which they arrive.
func (r *Proxy) forward(ctx context.Context, to io.Writer, from io.Reader) error {
	head := make([]byte, prefaceHead+1)
	if _, err := io.ReadFull(from, head); err != nil {
		return err
	}
	kind := Kind(head[prefaceHead])
	rest := make([]byte, int(binary.BigEndian.Uint16(head[prefaceHead-2:]))-1)
	if _, err := io.ReadFull(from, rest); err != nil {
		return err
	}
	r.mu.Lock()
	r.seen[kind]++
	r.mu.Unlock()
	if _, err := to.Write(slices.Concat(head, rest)); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if held := r.waitUntilReleased(ctx, kind, buf[:n]); held != nil {
				return held
			}
			if _, broken := to.Write(buf[:n]); broken != nil {
				return broken
			}
		}
		if err != nil {
			return err
		}
	}
}

// errClosed ends a held stream when the proxy is closed.
var errClosed = errors.New("peerproxy: closed")

// waitUntilReleased returns when the message may pass.
func (r *Proxy) waitUntilReleased(ctx context.Context, kind Kind, message []byte) error {
	counted := false
	defer func() {
		if counted {
			r.mu.Lock()
			r.held--
			r.mu.Unlock()
		}
	}()
	for {
		r.mu.Lock()
		if r.hold == nil || !r.hold(kind, message) {
			r.mu.Unlock()
			return nil
		}
		if !counted {
			r.held++
			counted = true
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return errClosed
		}
	}
}
