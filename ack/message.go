package ack

import (
	"time"

	"shardway/shardmap"
)

// Message is what a Leader can be told.
type Message interface{ message() }

type (
	// Tick tells that time has passed. One every 10 ms or so.
	Tick struct{}
	// TermRead tells the leader's node's own Raft term. Before is a moment before
	// it was read. It precedes every Heard and Tick (why 5).
	TermRead struct {
		Before time.Duration
		Term   uint64
	}
	// Heard is a heartbeat from the given address.
	HeartbeatReceived struct {
		Heartbeat
		From string
	}
	// Closed tells that the process behind (Node, Nonce) closed its heartbeat
	// connection.
	ConnClosed struct {
		Node  shardmap.NodeID
		Nonce uint64
	}
	// Applied brings the newest state of the leader's own log.
	StateApplied struct{ State *State }
	// BarrierApplied tells that all that earlier leaders committed is applied.
	// Started is when the first barrier was issued, after the election; a Turn fills
	// it in.
	BarrierApplied struct{ Started time.Duration }
	// BarrierFailed tells that Raft did not take a barrier. A Turn tries again.
	BarrierFailed struct{}
	// SubmitFailed tells that a Submit certainly did not enter the log.
	SubmitFailed struct{}
	// Voters names the Raft servers that vote, from the latest configuration in
	// the leader's own log.
	Voters struct{ Servers []string }
	// Evidence tells that the heartbeat connection of a boot broke and that a redial
	// was refused, which began at the given time: it counts only if that was after
	// the leader's election. Nonce is the process's, zero if it never said: that
	// counts only for a node that was not heard in this term.
	CrashEvidence struct {
		Node        shardmap.NodeID
		Boot, Nonce uint64
		Began       time.Duration
	}
	// Delivered brings what a node gives up shards with, from itself.
	ReleasesReceived struct{ Releases }
	// Idle are the shards of a node for which nothing runs there, by the map that it routes
	// by. The node is being emptied, or answers an AskIdle.
	IdleShards struct {
		Node   shardmap.NodeID
		Map    shardmap.Epoch
		Shards []shardmap.Shard
		// Staged: it answers an AskIdle. Such an answer may count shards as idle that a gentle
		// drain waits for, as those with event streams.
		Staged bool
	}
	// Remove is an operator's word that a node runs nothing any more. It says
	// nothing about a node that is heard, and any heartbeat voids it.
	NodeRemoved struct{ Node shardmap.NodeID }
)

func (Tick) message()              {}
func (TermRead) message()          {}
func (HeartbeatReceived) message() {}
func (ConnClosed) message()        {}
func (StateApplied) message()      {}
func (BarrierApplied) message()    {}
func (BarrierFailed) message()     {}
func (SubmitFailed) message()      {}
func (Voters) message()            {}
func (CrashEvidence) message()     {}
func (ReleasesReceived) message()  {}
func (IdleShards) message()        {}
func (NodeRemoved) message()       {}

// Effect is what a Leader wants done.
type Effect interface{ effect() }

type (
	// Reply answers a heartbeat.
	Reply struct {
		To shardmap.NodeID
		Answer
	}
	// Submit puts an entry into the log, then a barrier that nobody waits for
	// (rule 9). Commit tells a commit from what else there is, Asked a change of the
	// policy that somebody waits for: it is the number that Amend returned.
	Submit struct {
		Entry  []byte
		Commit bool
		Asked  uint64
	}
	// Barrier has Raft apply all that earlier leaders committed, and makes the
	// cluster if the log has none yet. It is answered by BarrierApplied or
	// BarrierFailed. Try counts from 1. Only a Turn asks for it.
	Barrier struct{ Try int }
	// AskIdle asks a node which of its shards are idle; the answer is an Idle. Number is the
	// number of questions put to it before in the same change.
	// With Held it is about the shards that the open round takes from the node: the round may
	// go on without those that are not idle.
	AskIdle struct {
		Node   shardmap.NodeID
		Number int
		Held   bool
	}
	// StepDown gives up leadership.
	StepDown struct{ Reason string }
	// Noted is an event for the log and the metrics.
	Event struct {
		Kind  EventKind
		Node  shardmap.NodeID
		Shard shardmap.Shard
		Epoch shardmap.Epoch
		Cause Cause
		Moved int
		// Joined and Left are the nodes that a round takes in and leaves out, sorted.
		Joined, Left []shardmap.NodeID
		// Deferred are the owners, sorted, that keep shards for now that another node is to
		// own; Busy is the number of these shards.
		Deferred []shardmap.NodeID
		Busy     int
		// Reason tells why a round began, or by which rule a shard was taken.
		Reason string
		// Grace is for how long an absent node is waited for.
		Grace time.Duration
	}
)

func (Reply) effect()    {}
func (Submit) effect()   {}
func (Barrier) effect()  {}
func (AskIdle) effect()  {}
func (StepDown) effect() {}
func (Event) effect()    {}

// NoteKind is the kind of a Noted event.
type EventKind uint8

// The events.
const (
	EventProposing   EventKind = iota + 1 // Moved, Joined, Left, Reason, Deferred, Busy
	EventDropped                          // Node, Cause
	EventCommitting                       // Epoch
	EventTakeover                         // Node, Reason: an owner that did not acknowledge
	EventDuplicate                        // Node, Reason: the two addresses
	EventSilent                           // Node
	EventBack                             // Node
	EventRestart                          // Node, Grace: it is absent, or, without Grace, not any more
	EventNoteDropped                      // Node, Shard: its note does not fit beside the others of the commit
)
