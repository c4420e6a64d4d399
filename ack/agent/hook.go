package agent

import (
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// MaxHookShards is the maximum number of shards in one hook call.
const MaxHookShards = 256

// MaxHookCalls is the maximum number of running calls of one kind to one app instance. After failures, shards are
// retried in smaller calls, down to one shard each, and each call may need a connection.
// Without a limit, an app that fails for thousands of shards would exhaust the file
// descriptors of the node, and its lease would expire.
const MaxHookCalls = 64

// App sends hook calls to the app of the node. The hook machine decides which calls are made, when, and
// how often; App performs one attempt. The agent calls it from its own methods. No method may
// block or call the agent.
//
// For each Call there must be exactly one Agent.HookEnded, after the call has ended as far as the
// node can tell. A call to an app in another process has ended when its connection is closed, and a
// call to an app in the node's process when the function has returned. While a call is running, the
// node does not acknowledge a map that moves one of its shards, and does not say goodbye
// (ack.Heartbeat.Goodbye).
type App interface {
	// StartCall starts an attempt. The app may receive calls in a different order than they were
	// started, so it must store the highest Seq of each shard and ignore lower ones. Two calls
	// never name the same shard at the same time.
	StartCall(HookCall)
	// CancelCall cancels the attempt with the given Seq as soon as possible; its result follows. It
	// ignores a call that has ended.
	CancelCall(seq uint64)
	// CountRequests counts the running requests for the shard.
	CountRequests(shard shardmap.Shard) int
}

// HookKind is the kind of a hook call.
type HookKind uint8

// The kinds.
const (
	// HookRelease makes the app write the state of these shards and drop it. None of their
	// requests runs, and none will until the next acquire.
	HookRelease HookKind = iota + 1
	// HookAcquire makes the app load these shards. None of their requests arrives before the call
	// succeeds.
	HookAcquire
	// HookLost makes the app drop the state of these shards and write nothing, because another
	// node may own them already.
	HookLost
)

var hookNames = [...]string{HookRelease: "release", HookAcquire: "acquire", HookLost: "lost"}

// String returns the kind as paths, metrics and logs spell it.
func (k HookKind) String() string { return enumName(hookNames[:], uint8(k), "HookKind") }

// HookCall is one attempt of a hook call.
type HookCall struct {
	Kind HookKind
	// Instance is the app instance that gets the call. It holds all of the shards.
	Instance shardmap.Instance
	// Service is the service to which the shards belong. It is empty if the cluster has no list of
	// services, and for a probe.
	Service string
	// First is the first shard of the range that the service had when the node began to acquire the
	// shards. The app counts its shards from there.
	First shardmap.Shard
	// Seq is the sequence number that identifies the call. It increases with each call, even across
	// restarts, because it consists of the boot (incarnation number) and a counter. It stays below
	// 2^53 for the first two million boots. On a new disk the numbers start over.
	Seq uint64
	// Map is the epoch of the map that caused the call: for a release the proposal that moves
	// the shards, for an acquire the committed map, and for a lost call the last known map.
	Map shardmap.Epoch
	// Timeout is the time after which the attempt fails.
	Timeout time.Duration
	// Shards are 1 to MaxHookShards shards of the map, ordered by number. An acquire without shards is a
	// probe: it checks whether the app can acquire again.
	Shards []HookShard
}

// HookShard is one shard of a call.
type HookShard struct {
	Shard shardmap.Shard
	// Epoch is the ownership epoch, the epoch of the map in which the node became the owner. It ends
	// with a release or lost call, and begins with an acquire call.
	Epoch shardmap.Epoch

	// Fields of a release.

	// To is the next owner, as returned by shardmap.InstanceID; empty if unknown.
	To shardmap.NodeID
	// Cut is the number of requests for the shard that were aborted for the move.
	Cut int

	// Fields of an acquire.

	// From is the previous owner, as returned by shardmap.InstanceID; empty means none. It is the
	// instance itself if Released refers to its previous process, which restarted in place.
	From shardmap.NodeID
	// Released is true only if From has released the shard and no node has processed a request
	// for it since, so the state that Note refers to is final. False means unknown.
	Released bool
	// Note is the note that the release by From returned; nil if there is none or Released is
	// false.
	Note []byte
	// Again is true if the app may already hold the shard under this epoch. It may if the node's
	// process is new, an earlier attempt failed, or the app asked for the call.
	Again bool
}

// HookResult is the result of a hook call.
type HookResult struct {
	Seq uint64 // Seq is the sequence number of the call, as in HookCall.

	// Err is nil if the app responded with success: it has then processed each shard that is not in
	// Failed. If Err is set, the app may or may not have processed any of the shards.
	Err error
	// Refused is true if the connection to the app was refused, so the app has not received
	// the call.
	Refused bool
	// Failed are the shards that failed, with the error text of the app. Failed releases and
	// acquires are retried, just as when Err is set.
	Failed map[shardmap.Shard]string

	// Fields of a release.

	// Absent are the shards that the app does not hold, for example because it has restarted. They
	// move immediately, without a note, and count as released for everything except
	// HookShard.Released. A shard that is also in Failed has failed.
	Absent map[shardmap.Shard]bool
	// Notes are the notes for the next owner, each up to MaxNote bytes.
	Notes map[shardmap.Shard][]byte
}

// AliveCall informs the app how long it may write, in addition to the calls issued by the hook
// machine. The app must count WriteFor from its response to the call PreviousID, not from the
// arrival of this call, because a delayed call would otherwise extend the permission.
type AliveCall struct {
	// ID identifies the call uniquely over all processes.
	ID string
	// PreviousID is the ID of the last call to which this process has received a response before it
	// computed WriteFor. Empty means none, in which case this call gives no permission to write.
	PreviousID string
	// MapEpoch is the epoch of the committed map.
	MapEpoch shardmap.Epoch
	// ShardCount is the number of shards that the node owns in that map.
	ShardCount int
	// WriteFor is how long the app may write. If it is zero, the app must stop writing now.
	WriteFor time.Duration
}

// HookOptions are the options of the hooks of a node.
type HookOptions struct {
	App App
	// SendReleases sends the releases of the node to the current leader. It must not block. It is
	// called again until a response of the leader has ReleasesReceived set, or ReleaseTimeout has
	// passed.
	SendReleases func(ack.Releases)
	// ReleaseEnded is called at the end of each release, once for each shard; nil means no calls.
	// The agent calls it from its own methods. It must not block or call the agent.
	ReleaseEnded func(ReleaseEnd)
	// ReleaseTimeout bounds the time that releases add to a map change, at most
	// MaxReleaseTimeout. It covers the time from the end of the last moving request to the
	// acknowledgement and the delivery of the releases. The leader waits that much longer.
	ReleaseTimeout time.Duration
	// AcquireTimeout bounds each acquire attempt. Attempts are repeated as long as the node
	// owns the shard.
	AcquireTimeout time.Duration
	// StuckAfter is how long the app must fail to acquire a shard before another node gets it; zero
	// means 5 s.
	StuckAfter time.Duration
	// Backoff is the time before the node can get such a shard back; zero means 30 s. It doubles
	// with each failure.
	Backoff time.Duration
}

// HookPhase is the phase of a shard at the app of its owner.
//
//	gone ──► acquiring ──► serving ──► releasing ──► gone
//
// The node admits requests only for serving shards.
type HookPhase uint8

// The phases.
const (
	HookNotHeld   HookPhase = iota + 1 // the app does not hold the shard, as far as the node knows
	HookAcquiring                      // the app loads the shard, or will load it once the node has a lease
	HookServing                        // the app holds the shard
	HookReleasing                      // the app must release the shard, once its last request has ended
)

var phaseNames = [...]string{HookNotHeld: "not held", HookAcquiring: "acquiring", HookServing: "serving", HookReleasing: "releasing"}

// String returns the phase as logs and status spell it.
func (hp HookPhase) String() string { return enumName(phaseNames[:], uint8(hp), "HookPhase") }

// HeldShardView is the phase of one shard at the app, for status output.
type HeldShardView struct {
	Shard shardmap.Shard
	Epoch shardmap.Epoch
	Phase HookPhase
	// Instance is the app instance that holds the shard.
	Instance shardmap.Instance
	// Since is when the phase began, by the clock of the agent.
	Since time.Duration
	// Err is the error of the last attempt; empty if none has failed since the phase began.
	Err string
}
