package consensus

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"shardway/peer"
)

// The pause after a failed attempt to connect doubles from dialPauseMin to dialPauseMax.
const (
	dialPauseMin = 10 * time.Millisecond
	dialPauseMax = 200 * time.Millisecond
)

// streamLayer is the Stream as one instance of the Raft library sees it. Its connections end with the
// instance; the Stream remains for the next one.
type streamLayer struct {
	stream *Stream
	ctx    context.Context //nolint:containedctx // cancels dials when the layer is closed
	cancel context.CancelFunc
}

// Addr returns the server ID.
func (l *streamLayer) Addr() net.Addr { return l.stream.Addr() }

// Accept returns the next connection.
func (l *streamLayer) Accept() (net.Conn, error) {
	select {
	case conn := <-l.stream.accepted:
		l.stream.mu.Lock()
		conn.layer = l
		l.stream.mu.Unlock()
		if l.ctx.Err() != nil {
			return nil, errors.Join(net.ErrClosed, conn.Close())
		}
		return conn, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close closes the connections of the layer.
func (l *streamLayer) Close() error {
	l.cancel()
	l.stream.closeMatching(func(conn *streamConn) bool { return conn.layer == l })
	return nil
}

// Dial connects to a server. It retries until timeout, because an error for a server that is just
// starting would cause a pause in the Raft library.
func (l *streamLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if string(address) == l.stream.serverID {
		return l.connectSelf()
	}
	node, disk, err := parseServerID(string(address))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	for pause := dialPauseMin; ; pause = min(2*pause, dialPauseMax) {
		retryNow := l.stream.retrySignal()
		conn, err := l.dialOnce(ctx, node, disk)
		if err == nil {
			return conn, nil
		}
		dialErr := &dialError{err: err, permanent: isPermanentRejection(err) || l.ctx.Err() != nil}
		if dialErr.permanent {
			return nil, dialErr
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-retryNow:
			timer.Stop()
			pause = dialPauseMin / 2
		case <-ctx.Done():
			timer.Stop()
			return nil, dialErr
		}
	}
}

// dialError is an error of Dial. Nothing was sent.
type dialError struct {
	err error
	// permanent is set if a retry cannot succeed.
	permanent bool
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// isPermanentRejection reports whether a rejection is permanent: the node has another disk.
func isPermanentRejection(err error) bool {
	var refused *peer.RefusedError
	return errors.As(err, &refused) && refused.Code == peer.RefusedWrongDisk
}

// dialOnce makes one attempt to connect.
func (l *streamLayer) dialOnce(ctx context.Context, node, disk string) (net.Conn, error) {
	if l.stream.Isolated() {
		return nil, errIsolated
	}
	conn, err := l.stream.dial(ctx, node, disk)
	if err != nil {
		return nil, err
	}
	tracked, err := l.stream.track(l, conn)
	if err != nil {
		return nil, err
	}
	return tracked, nil
}

// probe reports, by one attempt to connect, whether a server is reachable.
func (l *streamLayer) probe(address raft.ServerAddress, timeout time.Duration) error {
	node, disk, err := parseServerID(string(address))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	conn, err := l.dialOnce(ctx, node, disk)
	if err != nil {
		return err
	}
	return conn.Close()
}

// connectSelf connects the server to itself in memory, for TimeoutNow.
func (l *streamLayer) connectSelf() (net.Conn, error) {
	clientPipe, serverPipe := net.Pipe()
	client, err := l.stream.track(l, clientPipe)
	if err != nil {
		return nil, errors.Join(err, serverPipe.Close())
	}
	server, err := l.stream.track(l, serverPipe)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	select {
	case l.stream.accepted <- server:
		return client, nil
	case <-l.ctx.Done():
		return nil, errors.Join(net.ErrClosed, client.Close(), server.Close())
	}
}
