package node

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"shardway/peer"
)

// line is a stream to a node that is kept for the next question: with a secret to make one is a
// handshake, which costs both sides more than the questions.
type line struct {
	mu   sync.Mutex // held by who asks
	node string
	conn *peer.Conn // nil: there is none
}

// ask asks a node what may be asked twice, and returns the value of its reply.
func (l *line) ask(ctx context.Context, n *Node, node string, q request) (json.RawMessage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil && l.node != node {
		l.drop()
	}
	if l.conn != nil {
		// It may have ended since, with the process there, or as that is of an earlier version.
		if v, err := l.askOnce(ctx, q); l.conn != nil || ctx.Err() != nil {
			return v, err
		}
	}
	c, err := n.port.Dial(ctx, node, peer.Control)
	if err != nil {
		return nil, dialError{err}
	}
	l.node, l.conn = node, c
	return l.askOnce(ctx, q)
}

// askOnce asks by the stream that there is. With another error than the other node's there is
// none any more.
func (l *line) askOnce(ctx context.Context, q request) (json.RawMessage, error) {
	v, err := askBy(ctx, l.conn, l.node, q)
	if _, said := errors.AsType[remoteError](err); err != nil && !said || ctx.Err() != nil {
		l.drop()
	}
	return v, err
}

func (l *line) drop() {
	closeStream(l.conn)
	l.conn = nil
}

// close ends the stream, if there is one.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.drop()
	}
}
