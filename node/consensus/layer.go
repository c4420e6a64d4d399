package consensus

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"shardway/peer"
)

const (
	dialPauseMin = 10 * time.Millisecond
	dialPauseMax = 200 * time.Millisecond
)

// layer is the Stream as one instance of the library sees it. Its connections end with the
// instance; the Stream remains for the next one.
type layer struct {
	s      *Stream
	ctx    context.Context //nolint:containedctx // cancels dials when the layer is closed
	cancel context.CancelFunc
}

// Addr returns the server ID.
func (l *layer) Addr() net.Addr { return l.s.Addr() }

// Accept returns the next connection.
func (l *layer) Accept() (net.Conn, error) {
	select {
	case c := <-l.s.accepts:
		l.s.mu.Lock()
		c.layer = l
		l.s.mu.Unlock()
		if l.ctx.Err() != nil {
			return nil, errors.Join(net.ErrClosed, c.Close())
		}
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the layer's connections.
func (l *layer) Close() error {
	l.cancel()
	l.s.closeAll(func(c *streamConn) bool { return c.layer == l })
	return nil
}

// Dial connects to a server. It retries until timeout, because an error for a server that is just
// starting would cause a pause in the library.
func (l *layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if string(address) == l.s.local {
		return l.connectSelf()
	}
	node, disk, err := split(string(address))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	for pause := dialPauseMin; ; pause = min(2*pause, dialPauseMax) {
		hurried := l.s.retrySignal()
		c, err := l.dialOnce(ctx, node, disk)
		if err == nil {
			return c, nil
		}
		d := &dialError{err: err, final: isFinal(err) || l.ctx.Err() != nil}
		if d.final {
			return nil, d
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-hurried:
			t.Stop()
			pause = dialPauseMin / 2
		case <-ctx.Done():
			t.Stop()
			return nil, d
		}
	}
}

// dialError is an error of Dial. Nothing was sent.
type dialError struct {
	err error
	// final means that a retry cannot succeed.
	final bool
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// isFinal reports whether a rejection is permanent: the node has another disk.
func isFinal(err error) bool {
	var r *peer.RefusedError
	return errors.As(err, &r) && r.Code == peer.RefusedDisk
}

// dialOnce makes one attempt to connect.
func (l *layer) dialOnce(ctx context.Context, node, disk string) (net.Conn, error) {
	if l.s.Isolated() {
		return nil, errIsolated
	}
	c, err := l.s.dial(ctx, node, disk)
	if err != nil {
		return nil, err
	}
	sc, err := l.s.track(l, c)
	if err != nil {
		return nil, err
	}
	return sc, nil
}

// probe reports, by one attempt to connect, whether a server is reachable.
func (l *layer) probe(address raft.ServerAddress, timeout time.Duration) error {
	node, disk, err := split(string(address))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	c, err := l.dialOnce(ctx, node, disk)
	if err != nil {
		return err
	}
	return c.Close()
}

// connectSelf connects the server to itself in memory, for TimeoutNow.
func (l *layer) connectSelf() (net.Conn, error) {
	a, b := net.Pipe()
	near, err := l.s.track(l, a)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	far, err := l.s.track(l, b)
	if err != nil {
		return nil, errors.Join(err, near.Close())
	}
	select {
	case l.s.accepts <- far:
		return near, nil
	case <-l.ctx.Done():
		return nil, errors.Join(net.ErrClosed, near.Close(), far.Close())
	}
}
