package event

import "fmt"

// Kind is the type of an event.
type Kind uint8

// Kinds of events. Every node reports the events of nodes and leaders as it observes them. A
// process that starts reports all members that it finds.
const (
	// NodeJoined, NodeLeft and NodeFailed mean that gossip reports that Node joined, left
	// gracefully, or failed.
	NodeJoined Kind = iota + 1
	NodeLeft
	NodeFailed
	// NodeRejoined means that Node joined again: the reporting process has seen it before. It is not reported after a
	// restart in place; see NodeRestarted.
	NodeRejoined
	// NodeRemoved means that Node is no longer a member in gossip or Raft.
	NodeRemoved
	// NodeVoter and NodeNonvoter mean that Node became a voter in Raft, or is no longer a voter.
	NodeVoter
	NodeNonvoter
	// NodeDrained means that Node is drained and owns no shards.
	NodeDrained
	// NodeRestarting means that Node restarts in place, and its shards wait for it. NodeRestarted
	// means that the restart is complete.
	NodeRestarting
	NodeRestarted
	// NodeDropped means that the leader removes Node from the map, for Reason. NoticedBy is the sign that came
	// first: heartbeat, refused-connection, serf, members, acknowledgement or operator. Only the leader reports it.
	NodeDropped
	// LeaderElected means that Node is the leader. LeaderLost means that Node is no longer the
	// leader, and no other leader is known.
	LeaderElected
	LeaderLost
	// MapProposed means that a new map is in the Raft log. MapAcknowledged means that the reporting
	// node has stopped and drained the shards that move away from it, and acknowledges the map to
	// the leader. MapCommitted means that the map is in force. All of them have a Change.
	MapProposed
	MapAcknowledged
	MapCommitted
	// MapAbandoned means that another proposal replaces the map before it was in force. Reason is the reason of that
	// proposal, and Change describes the map that was given up.
	MapAbandoned
	// ShardsMoved means that a map is in force in which shards have a different owner than in the map before it. It
	// has a Change, and Shards for readers that ask for them.
	ShardsMoved
	// JoinCompleted means that the process of the reporting node is part of the cluster; see Join. Each process reports it
	// once: with its first lease and a map that contains it, or, for a gateway, when it has caught up with the log.
	JoinCompleted
	// JoinRequested means that Node has requested to join, and waits for an approval. JoinAccepted, JoinRefused and
	// JoinExpired end this stage, for Reason. JoinSynchronized means that Node has caught up with the log, and
	// JoinActive that it owns shards, or is a gateway. StageMS is the duration of the previous stage.
	JoinRequested
	JoinAccepted
	JoinRefused
	JoinExpired
	JoinSynchronized
	JoinActive
	// AppUnhealthy and AppHealthy mean that the app of Node fails its health checks, or passes them
	// again. The node itself and the leader report it.
	AppUnhealthy
	AppHealthy
	// FindingRaised and FindingCleared mean that Finding applies from now on, or no longer applies.
	FindingRaised
	FindingCleared
	// ClusterStateChanged means that the cluster has another State from now on, for Reason, as the reporting node sees
	// it.
	ClusterStateChanged
	// WebSocketsMoved means that resumable WebSockets of clients of the reporting node lost their
	// upstream connections; see Sockets.
	WebSocketsMoved
	// NotReleased means that shards moved away from Node although its app had not released them.
	// Node reports it with the Reason; see Unreleased.
	NotReleased
	// ProcessFailed means that a process of the app of Node (--exec) did not become ready, or exited without being
	// stopped by the node, for Reason.
	ProcessFailed
	// ActionRequested means that a client of the admin API of the reporting node requested a change;
	// see AdminAction.
	ActionRequested
	// Lost replaces events that a reader cannot receive, for Reason. Only readers receive it; it is
	// never in a ring.
	Lost
)

var _ fmt.Stringer = Kind(0)

// names returns the published names by kind. It is a function because the package has no variables.
func names() []string {
	return []string{
		NodeJoined: "node-joined", NodeLeft: "node-left", NodeFailed: "node-failed", NodeRejoined: "node-rejoined", NodeRemoved: "node-removed",
		NodeVoter: "node-voter", NodeNonvoter: "node-nonvoter", NodeDrained: "node-drained",
		NodeRestarting: "node-restarting", NodeRestarted: "node-restarted", NodeDropped: "node-dropped",
		LeaderElected: "leader-elected", LeaderLost: "leader-lost",
		MapProposed: "map-proposed", MapAcknowledged: "map-acknowledged", MapCommitted: "map-committed", MapAbandoned: "map-abandoned",
		ShardsMoved: "shards-moved", JoinCompleted: "join-completed",
		JoinRequested: "join-requested", JoinAccepted: "join-accepted", JoinRefused: "join-refused", JoinExpired: "join-expired",
		JoinSynchronized: "join-synchronized", JoinActive: "join-active",
		AppUnhealthy: "app-unhealthy", AppHealthy: "app-healthy", FindingRaised: "finding-raised", FindingCleared: "finding-cleared", ClusterStateChanged: "cluster-state",
		WebSocketsMoved: "websockets-moved", NotReleased: "not-released", ProcessFailed: "process-failed", ActionRequested: "action", Lost: "lost",
	}
}

// Kinds returns all kinds.
func Kinds() []Kind {
	var all []Kind
	for k := NodeJoined; k <= Lost; k++ {
		all = append(all, k)
	}
	return all
}

// String returns the published name.
func (k Kind) String() string {
	if all := names(); k > 0 && int(k) < len(all) {
		return all[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MarshalText returns the published name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses a published name. It sets k to zero for an unknown name, because a reader must be able
// to read events of newer versions.
func (k *Kind) UnmarshalText(b []byte) error {
	*k = 0
	for i, name := range names() {
		if i > 0 && name == string(b) {
			*k = Kind(i)
		}
	}
	return nil
}
