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

// prefaceHeaderLen is the length of the first part of a preface: magic, version, and the length of the
// second part. The second part starts with the kind.
const prefaceHeaderLen = 4 + 1 + 2

// Proxy forwards connections to one address.
type Proxy struct {
	ln     net.Listener
	target string
	cancel context.CancelFunc
	conns  sync.WaitGroup

	// mu protects the following fields.
	mu           sync.Mutex
	shouldHold   func(kind Kind, message []byte) bool // nil means that no data is held
	holdChanged  chan struct{}                        // closed when shouldHold changes
	heldStreams  int                                  // number of streams that are held now
	streamCounts map[Kind]int                         // number of streams so far
}

// New listens at addr and forwards to target, which need not listen yet.
func New(addr, target string) (*Proxy, error) {
	ctx, cancel := context.WithCancel(context.Background())
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("peerproxy: %w", err)
	}
	proxy := &Proxy{ln: ln, target: target, cancel: cancel, holdChanged: make(chan struct{}), streamCounts: make(map[Kind]int)}
	proxy.conns.Go(func() { proxy.accept(ctx) })
	return proxy, nil
}

// Addr returns the address of the proxy.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Close ends every connection and returns after the last goroutine has ended.
func (p *Proxy) Close() error {
	p.cancel()
	err := p.ln.Close()
	p.conns.Wait()
	return err
}

// HoldKinds makes the proxy hold all data on streams of these kinds, until Release.
func (p *Proxy) HoldKinds(kinds ...Kind) {
	p.setHold(func(kind Kind, _ []byte) bool {
		return slices.Contains(kinds, kind)
	})
}

// HoldLog makes the proxy hold log entries and snapshots, until Release. It also holds all later data
// on the same stream.
func (p *Proxy) HoldLog() {
	p.setHold(func(kind Kind, message []byte) bool { return kind == Raft && carriesLog(message) })
}

// Release forwards all held data, and ends the effect of HoldKinds and HoldLog.
func (p *Proxy) Release() { p.setHold(nil) }

func (p *Proxy) setHold(shouldHold func(Kind, []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shouldHold = shouldHold
	close(p.holdChanged)
	p.holdChanged = make(chan struct{})
}

// HeldStreams returns the number of streams that are held now.
func (p *Proxy) HeldStreams() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heldStreams
}

// StreamCount returns the number of streams of a kind so far.
func (p *Proxy) StreamCount(kind Kind) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.streamCounts[kind]
}

// accept serves connections until the proxy is closed.
func (p *Proxy) accept(ctx context.Context) {
	for {
		conn, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.conns.Go(func() { p.serve(ctx, conn) })
	}
}

// serve forwards one connection. If the target refuses it, the dialing node gets a reset.
func (p *Proxy) serve(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	upstream, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
	if err != nil {
		if tcpConn, ok := conn.(*net.TCPConn); ok {
			_ = tcpConn.SetLinger(0)
		}
		return
	}
	defer func() { _ = upstream.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		_ = conn.Close()
		_ = upstream.Close()
	})()
	responsesDone := make(chan struct{})
	go func() {
		defer close(responsesDone)
		_, _ = io.Copy(conn, upstream)
		cancel() // the end of one side must close the other side at once
	}()
	_ = p.forward(ctx, upstream, conn)
	cancel()
	<-responsesDone
}

// forward copies the data of the dialing node from src to dst, in the pieces in which they arrive. It
// holds a piece as HoldKinds and HoldLog require.
func (p *Proxy) forward(ctx context.Context, dst io.Writer, src io.Reader) error {
	kind, preface, err := readPreface(src)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.streamCounts[kind]++
	p.mu.Unlock()
	if _, err := dst.Write(preface); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if holdErr := p.waitUntilReleased(ctx, kind, buf[:n]); holdErr != nil {
				return holdErr
			}
			if _, writeErr := dst.Write(buf[:n]); writeErr != nil {
				return writeErr
			}
		}
		if err != nil {
			return err
		}
	}
}

// readPreface reads the preface of a stream, and returns it with the kind of the stream.
func readPreface(src io.Reader) (kind Kind, preface []byte, err error) {
	header := make([]byte, prefaceHeaderLen)
	if _, err := io.ReadFull(src, header); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.BigEndian.Uint16(header[prefaceHeaderLen-2:]))
	if len(body) == 0 {
		return 0, nil, errors.New("peerproxy: preface without a kind")
	}
	if _, err := io.ReadFull(src, body); err != nil {
		return 0, nil, err
	}
	return Kind(body[0]), slices.Concat(header, body), nil
}

// errClosed ends a held stream when the proxy is closed.
var errClosed = errors.New("peerproxy: closed")

// waitUntilReleased blocks while the message must be held. It returns an error if the proxy is closed
// before that.
func (p *Proxy) waitUntilReleased(ctx context.Context, kind Kind, message []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	mustHold := func() bool { return p.shouldHold != nil && p.shouldHold(kind, message) }
	if !mustHold() {
		return nil
	}
	p.heldStreams++
	defer func() { p.heldStreams-- }()
	for mustHold() {
		changed := p.holdChanged
		p.mu.Unlock()
		var err error
		select {
		case <-changed:
		case <-ctx.Done():
			err = errClosed
		}
		p.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}
