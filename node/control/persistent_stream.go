package control

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"shardway/peer"
)

// PersistentStream keeps a stream to a node open for the next request. With a cluster secret, a new stream
// needs a handshake, which costs both nodes more than the requests. The zero value has no stream.
type PersistentStream struct {
	mu   sync.Mutex // held during a call; protects the following fields
	node string
	conn *peer.Conn // nil means that there is no stream
}

// Call sends a request that the node may handle twice, and returns the value of the reply. It dials
// through c if no stream to the node is open.
func (s *PersistentStream) Call(ctx context.Context, c *Client, node string, q Request) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.node != node {
		s.closeLocked()
	}
	if s.conn != nil {
		// The stream may have closed since the last call, for example because the other process exited.
		if v, err := s.callOnceLocked(ctx, q); s.conn != nil || ctx.Err() != nil {
			return v, err
		}
	}
	conn, err := c.port.Dial(ctx, node, peer.Control)
	if err != nil {
		return nil, DialError{err}
	}
	s.node, s.conn = node, conn
	return s.callOnceLocked(ctx, q)
}

// callOnceLocked sends a request on the open stream. It closes the stream after any error except an error
// that the other node returned. mu must be held.
func (s *PersistentStream) callOnceLocked(ctx context.Context, q Request) (json.RawMessage, error) {
	v, err := callOn(ctx, s.conn, s.node, q)
	if _, remote := errors.AsType[RemoteError](err); err != nil && !remote || ctx.Err() != nil {
		s.closeLocked()
	}
	return v, err
}

// closeLocked closes the open stream. mu must be held.
func (s *PersistentStream) closeLocked() {
	closeStream(s.conn)
	s.conn = nil
}

// Close closes the stream, if there is one.
func (s *PersistentStream) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.closeLocked()
	}
}

// Expire makes the next request on the stream fail, as if the other node had closed the stream before the
// reply. It reports whether there is a stream. Only tests use it.
func (s *PersistentStream) Expire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		return false
	}
	_ = s.conn.SetReadDeadline(time.Now())
	return true
}
