package control

import (
	"errors"
	"fmt"

	"shardway/admin/api"
)

// ErrNotLeader is the error of a request that only a leader can handle, sent to a node that does not lead.
var ErrNotLeader = fmt.Errorf("%w: the node that received the request does not lead any more, or not yet; try again in a moment", api.ErrNotLeader)

// DialError reports that a node was unreachable, so it has not received the request.
type DialError struct{ error }

// Unwrap returns the error of the dial.
func (e DialError) Unwrap() error { return e.error }

// StreamError reports that no complete reply was received, although the request may have reached the node.
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

// LeaderError converts an error of a request to the leader. It treats an unreachable leader as no longer leading,
// because the other nodes will soon replace it. If the stream broke during the request, the leader may have
// performed it.
func LeaderError(leader string, err error) error {
	if _, ok := errors.AsType[DialError](err); ok {
		return fmt.Errorf("%w: node %q led a moment ago and is not reached (%w); try again in a moment", api.ErrNoLeader, leader, err)
	}
	if _, ok := errors.AsType[StreamError](err); ok {
		return fmt.Errorf("%w: node %q leads, or did a moment ago, and has not answered (%w)", api.ErrUnknown, leader, err)
	}
	return err
}
