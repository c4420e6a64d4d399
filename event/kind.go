package event

import "fmt"

// Kind says what happened.
type Kind uint8

// The kinds. Those of nodes and of leaders are told by every node as it sees them; a
// process that starts tells of all who are there.
const (
	// NodeJoined, NodeLeft, NodeFailed: gossip shows Node as there, gone by its own
	// word, or gone.
	NodeJoined Kind = iota + 1
	NodeLeft
	NodeFailed
	// NodeRemoved: neither gossip nor Raft know Node any more.
	NodeRemoved
	// NodeVoter, NodeNonvoter: Node has a vote in Raft, or has it no more.
	NodeVoter
	NodeNonvoter
	// NodeDrained: Node is to own nothing, and owns nothing.
	NodeDrained
	// NodeAbsent: Node restarts in place, and its shards wait for it. NodeReturned: it
	// is back.
	NodeAbsent
	NodeReturned
	// NodeDropped: the leader takes Node out of the map, for Reason. Only it tells.
	NodeDropped
	// LeaderElected, LeaderLost: Node leads, or does not and nobody else is known to.
	LeaderElected
	LeaderLost
	// MapProposed: a change of the map is in the log. MapAcknowledged: the node that
	// tells it has stopped and drained what moves away from it, and says so to the
	// leader. MapCommitted: the change is in force. All have Change.
	MapProposed
	MapAcknowledged
	MapCommitted
	// AppSick, AppWell: the app at Node fails its checks, or passes them again. The
	// node itself tells, and the leader.
	AppSick
	AppWell
	// FindingOn, FindingOff: Finding holds now, or does not any more.
	FindingOn
	FindingOff
	// SocketsMoved: kept sockets of clients at the node that tells have lost their legs, and
	// found others or not; see Sockets.
	SocketsMoved
	// NotReleased: shards moved away from Node, which tells it, though its app had not
	// released them, for Reason; see Unreleased.
	NotReleased
	// Acted: somebody asked the admin port of the node that tells for a change; see Deed.
	Acted
	// Lost stands for events that a reader cannot have, for Reason. Only readers see it.
	Lost
)

var _ fmt.Stringer = Kind(0)

// names is a table in a function: it costs no package state.
func names() []string {
	return []string{
		NodeJoined: "node-joined", NodeLeft: "node-left", NodeFailed: "node-failed", NodeRemoved: "node-removed",
		NodeVoter: "node-voter", NodeNonvoter: "node-nonvoter", NodeDrained: "node-drained",
		NodeAbsent: "node-absent", NodeReturned: "node-returned", NodeDropped: "node-dropped",
		LeaderElected: "leader-elected", LeaderLost: "leader-lost",
		MapProposed: "map-proposed", MapAcknowledged: "map-acknowledged", MapCommitted: "map-committed",
		AppSick: "app-sick", AppWell: "app-well", FindingOn: "finding-on", FindingOff: "finding-off",
		SocketsMoved: "sockets-moved", NotReleased: "not-released", Acted: "action", Lost: "lost",
	}
}

// Kinds lists every kind.
func Kinds() []Kind {
	var all []Kind
	for k := NodeJoined; k <= Lost; k++ {
		all = append(all, k)
	}
	return all
}

// String returns the name that is published.
func (k Kind) String() string {
	if all := names(); k > 0 && int(k) < len(all) {
		return all[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MarshalText writes the name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a name. One that a newer program uses becomes zero: whoever reads
// events of several versions shall not stumble over one.
func (k *Kind) UnmarshalText(b []byte) error {
	*k = 0
	for i, name := range names() {
		if i > 0 && name == string(b) {
			*k = Kind(i)
		}
	}
	return nil
}
