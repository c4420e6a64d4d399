package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"shardway/admin/api"
	"shardway/peer"
)

const (
	// HandlerTimeout bounds the handling of each request, and the wait for the first request of a stream.
	HandlerTimeout = 10 * time.Second
	// idleTimeout bounds the time between two requests on one stream. Followers query the leader every
	// 2 to 4 s, and half as often in a cluster of a hundred nodes.
	idleTimeout = time.Minute
)

// Caller is the peer that has opened a control stream.
type Caller struct {
	Node, Disk string
	// Binding returns a value that is unique to this stream; see secret.Conn.
	Binding func() ([]byte, error)
}

// Handler handles a request and returns the value of the reply. ctx ends after HandlerTimeout.
type Handler func(ctx context.Context, from Caller, q Request) (any, error)

// Server handles the requests that other nodes send on control streams.
type Server struct {
	handlers map[Kind]Handler
	log      zerolog.Logger
}

// NewServer returns a Server with a table of handlers. The Server itself handles Batch.
func NewServer(handlers map[Kind]Handler, log zerolog.Logger) *Server {
	return &Server{handlers: handlers, log: log}
}

// ServeStream handles the requests of a stream in order, until the peer closes the stream or sends no request in
// time. A stream without a request is a redial: the peer only checks whether this node is reachable.
func (s *Server) ServeStream(ctx context.Context, c *peer.Conn) {
	defer closeStream(c)
	defer context.AfterFunc(ctx, func() { closeStream(c) })()
	from := Caller{Node: c.Node(), Disk: c.Peer().Disk, Binding: func() ([]byte, error) { return Binding(c) }}
	for within := HandlerTimeout; s.serveNext(ctx, c, from, within); within = idleTimeout {
	}
}

// serveNext handles the next request if it arrives within the given time, and reports whether another
// request may follow.
func (s *Server) serveNext(ctx context.Context, c *peer.Conn, from Caller, within time.Duration) bool {
	timeout := time.AfterFunc(within, func() { closeStream(c) })
	request, err := peer.ReadFrame(c, nil, maxFrame)
	if isInTime := timeout.Stop(); !isInTime || err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, HandlerTimeout)
	defer cancel()
	stopWatching := context.AfterFunc(ctx, func() { closeStream(c) })
	defer stopWatching()
	reply, err := json.Marshal(s.Answer(ctx, from, request))
	if err == nil {
		err = peer.WriteFrame(c, reply)
	}
	if err != nil {
		s.log.Debug().Err(err).Str("peer", c.Node()).Msg("response not sent")
	}
	return err == nil
}

// Answer decodes a request and returns the reply to it.
func (s *Server) Answer(ctx context.Context, from Caller, request []byte) Reply {
	var q Request
	if err := json.Unmarshal(request, &q); err != nil {
		return Reply{Error: "node: invalid request: " + err.Error()}
	}
	return s.reply(ctx, from, q)
}

// reply handles a request and returns its reply, which may contain an error.
func (s *Server) reply(ctx context.Context, from Caller, q Request) Reply {
	value, err := s.handle(ctx, from, q)
	if err != nil {
		return Reply{Error: err.Error(), Fault: faultOf(err)}
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return Reply{Error: err.Error()}
	}
	return Reply{Value: encoded}
}

// handle calls the handler for the kind of a request.
func (s *Server) handle(ctx context.Context, from Caller, q Request) (any, error) {
	if q.Kind == Batch {
		return s.handleBatch(ctx, from, q.Batch)
	}
	handler := s.handlers[q.Kind]
	if handler == nil {
		return nil, fmt.Errorf("node: unknown request %q: the other node may be newer", q.Kind)
	}
	return handler(ctx, from, q)
}

// handleBatch handles the requests of a Batch in order.
func (s *Server) handleBatch(ctx context.Context, from Caller, requests []Request) ([]Reply, error) {
	if len(requests) > MaxBatch {
		return nil, fmt.Errorf("%w: batch of %d requests, must be at most %d", api.ErrInvalid, len(requests), MaxBatch)
	}
	replies := make([]Reply, len(requests))
	for i, q := range requests {
		if q.Kind == Batch {
			return nil, fmt.Errorf("%w: batch within a batch", api.ErrInvalid)
		}
		replies[i] = s.reply(ctx, from, q)
	}
	return replies, nil
}

// Binding returns a value that is unique to a stream. It returns an error if the stream does not use TLS.
func Binding(c *peer.Conn) ([]byte, error) {
	encrypted, ok := c.NetConn().(interface{ Binding() ([]byte, error) })
	if !ok {
		return nil, errors.New("node: the stream is not encrypted, so no secret can be proven on it")
	}
	return encrypted.Binding()
}
