package peer

import "fmt"

// Kind says what a stream is for. The numbers are part of the protocol.
type Kind uint8

// The kinds of streams. Zero is none.
const (
	// Raft carries the log between consensus servers. Its dialer names the
	// disk as well as the node.
	Raft Kind = iota + 1
	// Heartbeat carries heartbeats, acknowledgements and their answers.
	Heartbeat
	// Forward carries requests from an ingress node to an owner.
	Forward
	// Control carries everything else: questions before a cluster exists, and
	// what a node passes to the leader. It alone is open to a node that
	// belongs to no cluster yet.
	Control
	// Trunk carries requests as Forward does, many side by side. A node of an older
	// version refuses it with RefusedKind.
	Trunk
	_ // was Legs, whose lanes shared nothing: nobody handles it
	// Legs carries what Trunk does: those requests that become kept sockets and stay. Its lanes
	// share bytes.
	Legs
)

// kinds is one more than the last Kind.
const kinds = int(Legs) + 1

// forwards reports whether requests come over it.
func (k Kind) forwards() bool { return k == Forward || k == Trunk || k == Legs }

func (k Kind) known() bool { return k >= Raft && k <= Legs }

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
	case Trunk:
		return "trunk"
	case Legs:
		return "legs"
	default:
		return fmt.Sprintf("Kind(%d)", uint8(k))
	}
}
