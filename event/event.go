package event

import (
	"time"

	"shardway/verdict"
)

// Event is one thing that happened. Its JSON is published: names stay as they are, and
// fields may be added. What does not belong to its kind is left out.
type Event struct {
	// ID names the event among those of all processes, for reading on after it.
	ID string `json:"id"`
	// Seq counts the events of the process from 1.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"` // by the clock of the node that tells
	Kind Kind      `json:"kind"`
	// At is the node that tells it, Boot that node's.
	At   string `json:"at"`
	Boot uint64 `json:"boot"`
	// Epoch is that of the map it is about, else of the one in force; Term the Raft term.
	Epoch uint64 `json:"epoch"`
	Term  uint64 `json:"term"`

	// Node is whom it is about.
	Node   string `json:"node,omitempty"`
	Reason string `json:"reason,omitempty"`

	Change  *Change          `json:"change,omitempty"`
	Finding *verdict.Finding `json:"finding,omitempty"`
	Deed    *Deed            `json:"action,omitempty"`
	Sockets *Sockets         `json:"sockets,omitempty"`
	// Unreleased belongs to NotReleased.
	Unreleased *Unreleased `json:"unreleased,omitempty"`
	// Missed is how many events Lost stands for; zero: nobody knows.
	Missed uint64 `json:"missed,omitempty"`
}

// Change is a change of the shard map.
type Change struct {
	// Base is the epoch of the map that it replaces.
	Base uint64 `json:"base"`
	// Moved counts the shards that change their owner. Moves says from where to where,
	// the most first, at most MaxMoves of them.
	Moved int   `json:"moved"`
	Moves []Way `json:"moves,omitempty"`
	// Gained and Given count those that the node which tells it gets and gives away.
	Gained int `json:"gained"`
	Given  int `json:"given"`
	// Held counts the requests that waited at the node which tells it, at some time from
	// when it learned of the proposal until the change was in force there.
	Held int `json:"held,omitempty"`
	// Phases are how long it took, in order, as far as it has come; those of the leader
	// are there only if the node that tells it proposed the change.
	Phases []Phase `json:"phases,omitempty"`
	// Found: the node found the map in the log as it started, however old it is.
	Found bool `json:"found,omitempty"`
}

// MaxMoves bounds the moves of a Change.
const MaxMoves = 32

// Way counts the shards that go from one node to another; no From: they had no owner.
type Way struct {
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Shards int    `json:"shards"`
}

// Phase is a part of a change.
type Phase struct {
	Name string  `json:"name"` // see Phases
	MS   float64 `json:"ms"`
}

// The phases of a change. Every node has the first two: from when it learns of the
// proposal until it acknowledges it, and from then until the change is in force there.
// The leader has the others: until the proposal is in the log, until all who have to
// have acknowledged it, and until the commit is in force.
const (
	PhaseDrain       = "drain"
	PhaseWait        = "wait"
	PhaseLog         = "log"
	PhaseAcknowledge = "acknowledge"
	PhaseCommit      = "commit"
)

// Phases lists the phases' names.
func Phases() []string {
	return []string{PhaseDrain, PhaseWait, PhaseLog, PhaseAcknowledge, PhaseCommit}
}

// Sockets is what became of the kept sockets of clients at a node that lost their legs
// together: shards moved, or an owner was lost.
type Sockets struct {
	Shards  int `json:"shards"`
	Sockets int `json:"sockets"`
	// Gaps counts those of them that went on with a gap, Lost those that did not go on.
	Gaps int `json:"gaps"`
	Lost int `json:"lost"`
	// LongestMS is the longest that one of them was without a leg.
	LongestMS float64 `json:"longest_ms"`
}

// Unreleased is a number of shards that moved though the app had not released them.
type Unreleased struct {
	Count int `json:"count"`
	// Shards has the first 32 of them, ascending.
	Shards []uint32 `json:"shards"`
}

// Deed is what somebody asked an admin port for, in the words of the log.
type Deed struct {
	By     string `json:"by"`   // as whom the port knows him
	From   string `json:"from"` // his address
	What   string `json:"what"`
	Status int    `json:"status"` // of the answer
	// Untold is how many before this one came to nothing too and have no event of their own:
	// they were too many.
	Untold int `json:"untold,omitempty"`
}
