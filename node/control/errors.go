package control

import (
	"errors"
	"fmt"

	"shardway/admin/api"
)

// ErrNotLeader is the reply of a node that does not lead to a request that only a leader can handle.
var ErrNotLeader = fmt.Errorf("%w: the node that received the request does not lead any more, or not yet; try again in a moment", api.ErrNotLeader)

// DialError means that a node was not reachable, so it has not received the request.
type DialError struct{ error }

// Unwrap returns the error of the dial.
func (e DialError) Unwrap() error { return e.error }

// StreamError means that the request may have reached the node, but no complete reply was received.
type StreamError struct{ error }

// Unwrap returns the error of the stream.
func (e StreamError) Unwrap() error { return e.error }

// RemoteError is an error that another node returned.
type RemoteError struct {
	text  string
	fault error
}

// Error returns the text of the other node.
func (e RemoteError) Error() string { return e.text }

// Unwrap returns the error of package api that the other node's error wraps, or nil.
func (e RemoteError) Unwrap() error { return e.fault }

// LeaderError converts an error of a request to the leader. An unreachable leader no longer leads: the
// other nodes will notice that soon. If the stream broke during the request, the leader may have performed
// it.
func LeaderError(leader string, err error) error {
	if _, ok := errors.AsType[DialError](err); ok {
		return fmt.Errorf("%w: node %q led a moment ago and is not reached (%w); try again in a moment", api.ErrNoLeader, leader, err)
	}
	if _, ok := errors.AsType[StreamError](err); ok {
		return fmt.Errorf("%w: node %q leads, or did a moment ago, and has not answered (%w)", api.ErrUnknown, leader, err)
	}
	return err
}
