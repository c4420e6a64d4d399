package event

import (
	"time"

	"shardway/diagnosis"
)

// Event is one event of a node. Its JSON form is published: field names must not change, and
// fields may be added. Fields that do not apply to the kind are omitted.
type Event struct {
	// ID is unique among the events of all processes. Readers pass it to continue after the event.
	ID string `json:"id"`
	// Seq is the number of the event in its process, from 1.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"` // by the clock of the reporting node
	Kind Kind      `json:"kind"`
	// At is the reporting node, and Boot its boot number.
	At   string `json:"at"`
	Boot uint64 `json:"boot"`
	// Epoch is the epoch of the map that the event is about, or of the map in force. Term is the
	// Raft term.
	Epoch uint64 `json:"epoch"`
	Term  uint64 `json:"term"`

	// Node is the node that the event is about.
	Node string `json:"node,omitempty"`
	// Instance is the number of the app instance of Node that the event is about. Zero means that the
	// event is about the node or its whole app.
	Instance int    `json:"instance,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// NoticedBy is what showed the leader the failure of Node first; see NodeDropped.
	NoticedBy string `json:"noticed_by,omitempty"`
	// Reporters are the members that could not connect to Node when the leader excluded it.
	Reporters []string `json:"reporters,omitempty"`
	// State is the new state of the cluster; see ClusterStateChanged.
	State string `json:"state,omitempty"`

	Change  *Change            `json:"change,omitempty"`
	Finding *diagnosis.Finding `json:"finding,omitempty"`
	Action  *AdminAction       `json:"action,omitempty"`
	Sockets *Sockets           `json:"websockets,omitempty"`
	// Shards lists the shards of a shards-moved event. It is only for readers that ask for it; see Cursor.IncludeShards.
	Shards []MovedShards `json:"shards,omitempty"`
	// ShardsOmitted is set if the ring has dropped Shards, because newer lists needed the memory.
	ShardsOmitted bool `json:"shards_omitted,omitempty"`
	// Join is set for the kind join-completed.
	Join *Join `json:"join,omitempty"`
	// StageMS is the duration of the previous stage of a join request in milliseconds, by the clocks of the leaders.
	StageMS uint64 `json:"stage_ms,omitempty"`
	// Unreleased is set for the kind not-released.
	Unreleased *Unreleased `json:"unreleased,omitempty"`
	// Missed is the number of events that a lost event replaces. 0 means unknown.
	Missed uint64 `json:"missed,omitempty"`
}

// Change describes a change of the shard map.
type Change struct {
	// Base is the epoch of the map that the change replaces.
	Base uint64 `json:"base"`
	// Moved is the number of shards that change their owner. Moves contains up to 32 pairs of
	// nodes between which they move, those with most shards first.
	Moved int          `json:"moved"`
	Moves []ShardMoves `json:"moves,omitempty"`
	// Gained and Released are the numbers of shards that the reporting node receives and gives away.
	Gained   int `json:"gained"`
	Released int `json:"released"`
	// Queued is the number of requests that waited at the reporting node between the proposal and
	// the time at which the change came into force there.
	Queued int `json:"queued,omitempty"`
	// Phases contains the durations of the phases that have ended so far, in order. The phases of
	// the leader are included only if the reporting node proposed the change.
	Phases []Phase `json:"phases,omitempty"`
	// FromLog reports that the node read the map from its log at startup. The map can be old.
	FromLog bool `json:"from_log,omitempty"`
}

// MaxMoves is the maximum length of Change.Moves.
const MaxMoves = 32

// ShardMoves is the number of shards that move from one owner to another. From is empty for
// orphaned shards.
type ShardMoves struct {
	From string `json:"from,omitempty"`
	// FromInstance and ToInstance are the numbers of the app instances of From and To. They are zero while
	// each node uses only its first instance, which has number 1. From and To are equal if shards move
	// between instances of one node.
	FromInstance int    `json:"from_instance,omitempty"`
	To           string `json:"to,omitempty"`
	ToInstance   int    `json:"to_instance,omitempty"`
	Shards       int    `json:"shards"`
}

// MovedShards lists the shards that moved from one owner to another. From is empty for orphaned
// shards, and To for shards that no longer have an owner. The numbers of app instances have the
// meaning of those of ShardMoves.
type MovedShards struct {
	From         string `json:"from,omitempty"`
	FromInstance int    `json:"from_instance,omitempty"`
	To           string `json:"to,omitempty"`
	ToInstance   int    `json:"to_instance,omitempty"`
	// Service is the service of the shards, and ServiceShards contains their numbers within it. Both are empty if the
	// cluster has no list of services.
	Service       string   `json:"service,omitempty"`
	ServiceShards []uint16 `json:"service_shards,omitempty"`
	// Shards contains the numbers of the shards in the map in ascending order.
	Shards []uint16 `json:"shards"`
}

// Join describes how the reporting process joined its cluster.
type Join struct {
	// MS is the time in milliseconds from the start of the process until it was part of the cluster.
	MS float64 `json:"ms"`
	// Steps contains the steps that occurred, in the order in which they ended. The duration of a step is the time since
	// the end of the previous step, so all durations together are MS.
	Steps []Phase `json:"steps"`
}

// Steps of a join.
const (
	StepAnnounce = "announce" // until gossip of the node has contact to another node
	StepServer   = "server"   // until the Raft configuration contains the node
	StepSnapshot = "snapshot" // until the node has installed a snapshot of the leader
	StepLog      = "log"      // until the node has caught up with the log of the leader
	StepApp      = "app"      // until the app has passed a health check
	StepLease    = "lease"    // until the node has its first lease
	StepMap      = "map"      // until a map that contains the node is in force
)

// JoinSteps returns the names of all steps of a join.
func JoinSteps() []string {
	return []string{StepAnnounce, StepServer, StepSnapshot, StepLog, StepApp, StepLease, StepMap}
}

// Phase is the duration of one phase of a change, or of one step of a join.
type Phase struct {
	Name string  `json:"name"` // one of drain, wait, log, acknowledge and commit; for a step, one of JoinSteps
	MS   float64 `json:"ms"`   // duration in milliseconds
}

// Phases of a change. The first two occur on every node, and the others on the leader.
const (
	PhaseDrain       = "drain"       // from the proposal until the node acknowledges it
	PhaseWait        = "wait"        // from the acknowledgment until the change is in force on the node
	PhaseLog         = "log"         // until the proposal is in the Raft log
	PhaseAcknowledge = "acknowledge" // until all required nodes have acknowledged the proposal
	PhaseCommit      = "commit"      // until the commit is in force
)

// Phases returns the names of all phases.
func Phases() []string {
	return []string{PhaseDrain, PhaseWait, PhaseLog, PhaseAcknowledge, PhaseCommit}
}

// Sockets summarizes the resumable WebSockets of clients of a node that lost their upstream
// connections together, because shards moved or an owner failed.
type Sockets struct {
	Shards  int `json:"shards"`
	Sockets int `json:"websockets"`
	// Gaps is the number of WebSockets that were resumed with a gap. Lost is the number of
	// WebSockets that were not resumed.
	Gaps int `json:"gaps"`
	Lost int `json:"lost"`
	// LongestMS is the longest time in milliseconds that a WebSocket had no upstream connection.
	LongestMS float64 `json:"longest_ms"`
}

// Unreleased lists shards that moved although the app had not released them. All of them belong to one service.
type Unreleased struct {
	Count int `json:"count"`
	// Service is the service of the shards, and ServiceShards contains the numbers within it of those in Shards. Both are
	// empty if the cluster has no list of services.
	Service       string   `json:"service,omitempty"`
	ServiceShards []uint32 `json:"service_shards,omitempty"`
	// Shards contains the first 32 of these shards in ascending order.
	Shards []uint32 `json:"shards"`
}

// AdminAction is a request for a change at an admin port, in the words of the log.
type AdminAction struct {
	By     string `json:"by"`   // authenticated name of the client
	From   string `json:"from"` // address of the client
	What   string `json:"what"`
	Reason string `json:"reason,omitempty"` // why the client requests the change
	Status int    `json:"status"`           // HTTP status of the response
	// Suppressed is the number of earlier failed requests that were too many to have events of
	// their own.
	Suppressed int `json:"suppressed,omitempty"`
}
