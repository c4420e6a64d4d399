package leader

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// Message is an input of Leader.Step.
type Message interface{ message() }

type (
	// Tick reports that time has passed, about every 10 ms.
	Tick struct{}
	// TermRead reports the Raft term of the leader's node, which was read after the time After. It
	// must precede every HeartbeatReceived and Tick, so that the leader grants no lease after
	// another leader has been elected (reason 5 of docs/internals/protocol-reasons.md).
	TermRead struct {
		After time.Duration
		Term  uint64
	}
	// HeartbeatReceived is a heartbeat from the given address.
	HeartbeatReceived struct {
		ack.Heartbeat
		From string
	}
	// ConnClosed reports that the process (Node, Nonce) closed its heartbeat connection.
	ConnClosed struct {
		Node  shardmap.NodeID
		Nonce uint64
	}
	// StateApplied reports the newest state of this node's log.
	StateApplied struct{ State *ack.State }
	// BarrierApplied reports that all entries of earlier leaders are applied. Started is when
	// the first barrier after the election was issued; a Driver sets it.
	BarrierApplied struct{ Started time.Duration }
	// BarrierFailed reports that Raft refused a barrier. A Driver repeats it.
	BarrierFailed struct{}
	// SubmitFailed reports that a submitted entry certainly did not enter the log.
	SubmitFailed struct{}
	// Servers reports the Raft servers of the latest configuration in this node's log.
	Servers struct{ Voters, Nonvoters []string }
	// CrashEvidence reports that the heartbeat connection of a boot broke, and that a redial
	// was refused.
	CrashEvidence struct {
		Node shardmap.NodeID
		Boot uint64
		// Nonce is the nonce of the process. Zero means unknown, and counts only for a node
		// without a heartbeat in this term.
		Nonce uint64
		// RedialStartedAt is when the redial began. A redial from before the election proves
		// nothing.
		RedialStartedAt time.Duration
	}
	// ReleasesReceived contains the releases that the app of a node has made (see ack.Releases).
	ReleasesReceived struct{ ack.Releases }
	// IdleShards reports the shards of a node for which no request runs. A node sends it during a
	// gradual drain, and in answer to an IdleShardsQuery.
	IdleShards struct {
		Node shardmap.NodeID
		// MapEpoch is the epoch of the map by which the node routes requests.
		MapEpoch shardmap.Epoch
		Shards   []shardmap.Shard
		// IsAnswer is set if this is the response to an IdleShardsQuery. It may include shards for
		// which a gradual drain still waits, for example shards with event streams.
		IsAnswer bool
	}
	// NodeRemoved is the statement of an operator that a node has stopped permanently. It is
	// ignored for a live node, and any heartbeat voids it.
	NodeRemoved struct{ Node shardmap.NodeID }
	// GossipStatus reports that gossip lists a node as failed or left, or as alive again. It is only a hint: the leader
	// decides by heartbeats, and events contain which sign came first.
	GossipStatus struct {
		Node   shardmap.NodeID
		Failed bool
	}
	// MapRequested reports that an operator asks for a new map. The leader proposes the wanted map
	// without waiting for further changes. It ignores the request if no map is wanted.
	MapRequested struct{}
)

func (Tick) message()              {}
func (TermRead) message()          {}
func (HeartbeatReceived) message() {}
func (ConnClosed) message()        {}
func (StateApplied) message()      {}
func (BarrierApplied) message()    {}
func (BarrierFailed) message()     {}
func (SubmitFailed) message()      {}
func (Servers) message()           {}
func (CrashEvidence) message()     {}
func (ReleasesReceived) message()  {}
func (IdleShards) message()        {}
func (NodeRemoved) message()       {}
func (GossipStatus) message()      {}
func (MapRequested) message()      {}

// Effect is an output of Leader.Step that the caller must perform.
type Effect interface{ effect() }

type (
	// Reply answers a heartbeat.
	Reply struct {
		To shardmap.NodeID
		ack.Answer
	}
	// Submit appends an entry to the log, followed by a barrier whose result is not awaited
	// (rule 9).
	Submit struct {
		Entry []byte
		// Commit is set if the entry commits a map.
		Commit bool
		// RequestNumber is the number that ChangePolicy returned for a requested policy change. It
		// is zero if no operator requested the entry.
		RequestNumber uint64
	}
	// Barrier makes Raft apply all entries that earlier leaders committed, and bootstraps the
	// cluster if the log is empty. The caller replies with BarrierApplied or BarrierFailed.
	// Attempt counts from 1. Only a Driver returns it.
	Barrier struct{ Attempt int }
	// IdleShardsQuery asks a node which of its shards are idle. The response is an IdleShards.
	IdleShardsQuery struct {
		Node shardmap.NodeID
		// QueryNumber is the number of earlier queries to the node in the same change.
		QueryNumber int
		// OpenRound is set if the query is about the shards that the open round takes from the
		// node. The round may continue without the busy ones.
		OpenRound bool
	}
	// StepDown transfers leadership to another server.
	StepDown struct{ Reason string }
	// Event is for the log and the metrics. Nothing depends on it.
	Event struct {
		Kind  EventKind
		Node  shardmap.NodeID
		Shard shardmap.Shard
		Epoch shardmap.Epoch
		Cause ack.DropCause
		// Sign is the earliest sign of the failure.
		Sign FailureSign
		// Reporters are the members that cannot connect to the node, sorted.
		Reporters []shardmap.NodeID
		Moved     int
		// Joined and Left are the nodes that a round adds and excludes, sorted.
		Joined, Left []shardmap.NodeID
		// Deferred are the owners, sorted, that temporarily keep shards which another node
		// will own. DeferredShards is the number of these shards.
		Deferred       []shardmap.NodeID
		DeferredShards int
		// Reason is the reason of a round, or the rule by which a shard was taken.
		Reason string
		// Grace is how long the cluster waits for a restarting node.
		Grace time.Duration
	}
)

func (Reply) effect()           {}
func (Submit) effect()          {}
func (Barrier) effect()         {}
func (IdleShardsQuery) effect() {}
func (StepDown) effect()        {}
func (Event) effect()           {}

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events, and the fields that they set.
const (
	EventProposing        EventKind = iota + 1 // Moved, Joined, Left, Reason, Deferred, DeferredShards
	EventNodeExcluded                          // Node, Cause, Sign, Reporters
	EventCommitting                            // Epoch
	EventTakeover                              // Node, Reason: an owner that did not acknowledge
	EventDuplicate                             // Node, Reason: the two addresses
	EventNodeUnresponsive                      // Node
	EventNodeRecovered                         // Node
	EventRestart                               // Node, Grace: a restart began, or, with Grace zero, ended
	EventNoteRejected                          // Node, Shard: the note exceeds the limit of the commit
	EventNodeUnreachable                       // Node, Reporters: most members report that they cannot connect to it
	EventNodeReachable                         // Node: they do not any more
)
