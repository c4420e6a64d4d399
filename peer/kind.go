package peer

import "fmt"

// Kind is the purpose of a stream. The values are part of the protocol.
type Kind uint8

// Kinds of streams. Zero is not a kind.
const (
	// Raft carries the log between consensus servers. Its dialer names the disk and the node.
	Raft Kind = iota + 1
	// Heartbeat carries heartbeats, acknowledgements and their responses.
	Heartbeat
	// Forward carries requests from an ingress node to an owner, one at a time.
	Forward
	// Control carries all other messages: queries before a cluster exists, and requests to the
	// leader. It is the only kind that a node without a cluster may use.
	Control
	// RequestSession is a multiplexed session (package mux) whose streams carry requests like those
	// of Forward. A node of an older version refuses it with RefusedUnsupportedKind.
	RequestSession
	_ // was WebSocketSession without a shared window pool; no node handles it
	// WebSocketSession is a multiplexed session whose streams carry resumable WebSockets. The
	// streams share a window pool.
	WebSocketSession
)

// kinds is one more than the last Kind.
const kinds = int(WebSocketSession) + 1

// forwards reports whether the stream carries requests.
func (k Kind) forwards() bool { return k == Forward || k == RequestSession || k == WebSocketSession }

func (k Kind) known() bool { return k >= Raft && k <= WebSocketSession }

func (k Kind) String() string {
	switch k {
	case Raft:
		return "raft"
	case Heartbeat:
		return "heartbeat"
	case Forward:
		return "forward"
	case Control:
		return "control"
	case RequestSession:
		return "request session"
	case WebSocketSession:
		return "WebSocket session"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}
