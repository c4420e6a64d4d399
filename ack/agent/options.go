package agent

import (
	"fmt"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// Gate controls the admission of requests to the app of the node. It admits requests according to
// the most recently published lease and routing. The agent calls it from its own methods. No method
// may block or call the agent.
//
// The gate must count a request first and then check routing and lease. The agent publishes first
// and then asks for the count, so one of the two always sees the other.
type Gate interface {
	// PublishLease publishes the end of the lease, until which requests may be admitted; zero means
	// that none may. It returns true if requests may be waiting because the previously published
	// lease had ended.
	PublishLease(leaseEnd time.Duration) (requestsWait bool)
	// PublishRouting publishes a routing. Waiting requests must check it again.
	PublishRouting(ack.Routing)
	// CountRunning counts the running requests for the shards for which mayRun returns false. If
	// there are any, their end must trigger a Poll soon.
	CountRunning(mayRun func(shardmap.Shard) bool) int
	// AbortRequests aborts the running requests for the shards for which mayRun returns false. It
	// does not wait for their end.
	AbortRequests(reason AbortReason, mayRun func(shardmap.Shard) bool)
}

// Options are the fixed properties of a process. All are required except Gateway, Zone,
// Roles, Hooks and IsFollowingVoter.
type Options struct {
	// Identity of the process.

	Node shardmap.NodeID
	// Server is the Raft server id, node/disk.
	Server string
	// Boot is on disk, and higher than all earlier ones. Nonce is random. See ack.Heartbeat.
	Boot, Nonce uint64
	// Zone is the zone of the node, up to 64 bytes; empty means none.
	Zone string
	// Roles are the roles of the node, sorted, up to ack.MaxRoles with up to ack.MaxRole bytes each.
	Roles []string
	// Gateway means that the node never owns shards.
	Gateway bool

	// Settings.

	Pace ack.Pace
	// Timing applies until the log contains one.
	Timing ack.Timing
	// Hooks configures the calls that inform the app about the shards that it holds; nil means
	// no hooks.
	Hooks *HookOptions

	// Interfaces to the rest of the node.

	Gate Gate
	// RaftTerm returns the current Raft term of the node.
	RaftTerm func() uint64
	// SendHeartbeat sends a heartbeat to the current leader. It must not block. The next heartbeat
	// makes up for a lost one.
	SendHeartbeat func(ack.Heartbeat)
	// RaiseBoot stores a boot above known and the current one, on disk before it returns. If it
	// returns false, the agent stops sending.
	RaiseBoot func(known uint64) (boot uint64, ok bool)
	// IsFollowingVoter reports whether the node is a voter that follows another leader; nil means
	// no. Such a node confirms responses: as soon as its periodic heartbeat is answered, it sends a
	// second heartbeat that echoes the response.
	//
	// The reason is that a lease counts from the newest response that a quorum has echoed. With the
	// second heartbeat, this response is never older than one interval, no matter when the other
	// voters send theirs. Otherwise it may be two intervals old, which leaves too little of the
	// lease to survive a leader failure.
	IsFollowingVoter func() bool
}

// Observation is the state of the node at one poll.
type Observation struct {
	// State is the newest state of the node's log.
	State *ack.State
	// HasRequests is set if requests have arrived since the last Poll.
	HasRequests bool
	// Weight is the weight of the node in the map, above zero.
	Weight uint32
	// KeyConfigDigest is the KeyConfigDigest of the key configuration that the node has loaded;
	// zero means none.
	KeyConfigDigest uint64

	// The app.

	// AppUnchecked is set if the app has not been checked yet, so the agent sends no heartbeat.
	AppUnchecked bool
	// Unhealthy is set if the app does not respond.
	Unhealthy bool
	// App contains further results of the health checks of the app.
	App ack.AppHealth
	// ReturnsNeedRestart and AppStartedAfter are the fields of AppReport.
	ReturnsNeedRestart bool
	AppStartedAfter    shardmap.Epoch
	// Instances, InstancesStartedAfter, UnhealthyInstances and RemovedInstances are the fields of
	// ack.Heartbeat.
	Instances                            shardmap.InstanceSet
	InstancesStartedAfter                []shardmap.Epoch
	UnhealthyInstances, RemovedInstances ack.InstanceBits
	// HasServices and Services are the fields of ack.Heartbeat.
	HasServices bool
	Services    []ack.ServiceReport

	// Unreachable are the nodes to which the node cannot connect now, ascending. The heartbeat contains up to
	// ack.MaxUnreachable of them.
	Unreachable []shardmap.NodeID

	// The stop of the node. Once set, neither Leaving nor Stopping may be reset.

	// Leaving is set if the node should own no shards.
	Leaving bool
	// Stopping is set if the node must stop admitting requests, end the running ones, and then send
	// a goodbye.
	Stopping bool
	// RestartWithin is the time within which a stopping node restarts; zero if it will not. A
	// restarting node keeps its shards, so its running requests get the drain timeout to end.
	RestartWithin time.Duration
}

// AbortReason is the reason why running requests are aborted.
type AbortReason uint8

// The reasons.
const (
	AbortLeaseLost AbortReason = iota + 1 // the lease ended some time ago, see reason 3 of protocol-reasons.md
	AbortDraining                         // their shards move, and drain-timeout has passed (rule 7)
	AbortNewBoot                          // the node raises its boot
	AbortGoodbye                          // the node stops
)

var abortReasonNames = [...]string{
	AbortLeaseLost: "lease lost", AbortDraining: "draining", AbortNewBoot: "new boot", AbortGoodbye: "goodbye",
}

// String returns the reason as metrics spell it.
func (ar AbortReason) String() string { return enumName(abortReasonNames[:], uint8(ar), "AbortReason") }

// enumName returns the name of a value of an enum, and its kind and number if it has none.
func enumName(names []string, value uint8, kind string) string {
	if value == 0 || int(value) >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, value)
	}
	return names[value]
}

// AnswerResult is what a response means for the process that received it.
type AnswerResult uint8

// The results.
const (
	// AnswerIgnored means that the response belongs to another boot, or is from a previous leader.
	AnswerIgnored AnswerResult = iota + 1
	// AnswerCounted means that a leader has received the heartbeat.
	AnswerCounted
	// BootSuperseded means that the leader has seen a higher boot of this node, from another
	// disk. The agent aborts its requests and raises its boot. It is returned once.
	BootSuperseded
	// DiskRolledBack means that this disk is an older image of itself, or a copy. The process
	// must stop, and the disk must not be used again.
	DiskRolledBack
	// DuplicateNode means that another process uses this node id. A restarted process may briefly
	// get this.
	DuplicateNode
	// DuplicatePersists means that the other process has used the ID for so long that this one must
	// stop.
	DuplicatePersists
)
