package control

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rs/zerolog"

	"shardway/peer"
)

// Client sends requests to other nodes.
type Client struct {
	port *peer.Port
	log  zerolog.Logger
}

// NewClient returns a Client that dials through port.
func NewClient(port *peer.Port, log zerolog.Logger) *Client { return &Client{port: port, log: log} }

// Call sends a request to a node on a new stream, and decodes the reply into value. If value is nil, it ignores the
// reply.
func (c *Client) Call(ctx context.Context, node string, q Request, value any) error {
	return c.CallFunc(ctx, node, func(*peer.Conn) (Request, error) { return q, nil }, value)
}

// CallLeader sends an operator's request to the leader that this node knows. See LeaderError.
func (c *Client) CallLeader(ctx context.Context, leader string, q Request, value any) error {
	return LeaderError(leader, c.Call(ctx, leader, q, value))
}

// CallFunc is like Call, but calls compose to create the request for the stream.
func (c *Client) CallFunc(ctx context.Context, node string, compose func(*peer.Conn) (Request, error), value any) error {
	raw, err := c.CallRaw(ctx, node, compose)
	if err != nil || value == nil {
		return err
	}
	if err = json.Unmarshal(raw, value); err != nil {
		return fmt.Errorf("node: reply of %q: %w", node, err)
	}
	return nil
}

// CallRaw opens a stream to a node, sends the request that compose creates for it, and returns the value
// of the reply.
func (c *Client) CallRaw(ctx context.Context, node string, compose func(*peer.Conn) (Request, error)) (json.RawMessage, error) {
	conn, err := c.port.Dial(ctx, node, peer.Control)
	if err != nil {
		return nil, DialError{err}
	}
	defer closeStream(conn)
	q, err := compose(conn)
	if err != nil {
		return nil, err
	}
	return callOn(ctx, conn, node, q)
}

// callOn sends a request on an open stream and returns the value of the reply. It closes the stream if ctx
// ends before the reply.
func callOn(ctx context.Context, conn *peer.Conn, node string, q Request) (json.RawMessage, error) {
	unhook := context.AfterFunc(ctx, func() { closeStream(conn) })
	defer unhook()
	b, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("node: ask %s: %w", q.Kind, err)
	}
	if err = peer.WriteFrame(conn, b); err != nil {
		return nil, StreamError{fmt.Errorf("node: ask %q: %w", node, err)}
	}
	if b, err = peer.ReadFrame(conn, nil, maxFrame); err != nil {
		return nil, StreamError{fmt.Errorf("node: ask %q: %w", node, err)}
	}
	var r Reply
	if err = json.Unmarshal(b, &r); err != nil {
		return nil, StreamError{fmt.Errorf("node: reply of %q: %w", node, err)}
	}
	if r.Error != "" {
		return nil, RemoteError{text: r.Error, fault: faults[r.Fault]}
	}
	return r.Value, nil
}

// closeStream closes a stream that is no longer used, and ignores the error.
func closeStream(c *peer.Conn) { _ = c.Close() }
