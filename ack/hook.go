package ack

import (
	"time"

	"shardway/shardmap"
)

// MaxHookShards is how many shards one call of a hook names at most.
const MaxHookShards = 256

// MaxHookCalls is how many calls of one kind are under way at most. Shards of calls that
// fail are called for one by one, and each call may have a connection: without a bound,
// an app that fails for some thousand shards would cost the node its descriptors, and
// its lease.
const MaxHookCalls = 64

// MaxReleaseTimeout bounds HookOptions.ReleaseTimeout: a leader waits that much
// longer for the acknowledgement of the node.
const MaxReleaseTimeout = 60 * time.Second

// App is the app behind a node, as its hooks reach it. The machine decides what is
// called, when, again and for how long; App carries one attempt. It is called from
// within the agent's methods: no method may block or call the agent.
//
// Every Call is answered by exactly one Agent.Called, whatever happened, and not
// before nothing of the call runs any more as far as the node can tell: for an app in
// another process that is when its connection is closed, for one in the node's own
// when the function has returned. Until then the call counts as running: nothing is
// acknowledged that it names, and no goodbye said.
type App interface {
	// Call begins an attempt. The app may see calls in another order than they were
	// begun in, so it keeps for each shard the highest Seq that named it, and ignores a
	// lower one; never two calls that name one shard are under way at once.
	Call(HookCall)
	// CutCall ends an attempt as soon as it can be; its result follows. One that has
	// ended is none of its business.
	CutCall(seq uint64)
	// Busy counts the requests that run for s.
	Busy(s shardmap.Shard) int
}

// HookKind says what a call tells the app.
type HookKind uint8

// The kinds.
const (
	// HookRelease: write what you hold of these shards, and hold it no more. No request
	// of theirs runs any more, and none will before the next acquire.
	HookRelease HookKind = iota + 1
	// HookAcquire: load these shards. No request of theirs comes before that succeeds.
	HookAcquire
	// HookLost: forget what you hold of these shards and write nothing: another node
	// may own them already.
	HookLost
)

var hookNames = [...]string{HookRelease: "release", HookAcquire: "acquire", HookLost: "lost"}

// String returns the kind as its path, metrics and logs spell it.
func (k HookKind) String() string { return enumName(hookNames[:], uint8(k), "HookKind") }

// HookCall is one attempt.
type HookCall struct {
	Kind HookKind
	// Seq names the call and grows from one to the next, over restarts, too: it is made
	// of the boot and a counter, and stays below 2^53 for the first two million boots.
	// Another disk begins anew.
	Seq uint64
	// Map is the epoch of the map because of which the call is made: the proposal that
	// takes the shards of a release, the committed map that gives those of an acquire,
	// the last one that is known of a lost.
	Map shardmap.Epoch
	// Timeout is how long the attempt may take; then it ends with an error.
	Timeout time.Duration
	// Shards has 1 to MaxHookShards of them, ordered by number. An acquire may have none: it
	// asks whether the app is able to acquire again.
	Shards []HookShard
}

// HookShard is one shard of a call.
type HookShard struct {
	Shard shardmap.Shard
	// Epoch is the ownership epoch that ends with a release or a lost, or that begins
	// with an acquire.
	Epoch shardmap.Epoch

	// To is who owns the shard next, of a release; empty: nobody, as far as is known.
	To shardmap.NodeID
	// Cut is how many of its requests were cut for the move, of a release.
	Cut int

	// From is who owned the shard before, of an acquire; empty: nobody did. It is the node
	// itself if Released is about its last process, which restarted in place.
	From shardmap.NodeID
	// Released is true only if From has released the shard and nobody has had a request of
	// it since: what Note points at is final. False says nothing.
	Released bool
	// Note is what From's release left; nil: nothing, or Released is false.
	Note []byte
	// Again is true if the app may hold the shard under this very epoch: the node's
	// process is new, an attempt before failed, or the app has asked for it.
	Again bool
}

// HookResult is what came of a call.
type HookResult struct {
	Seq uint64
	// Err is nil if the app has answered with success: then it did what it was told for
	// each shard that is not in Failed. Otherwise it may have done that for any of them.
	Err error
	// Refused is true if nothing answers at the app's address: it has not had the call.
	Refused bool
	// Failed are the shards for which it did not, with the app's own words. A release or an
	// acquire of them is tried again, like one with an Err.
	Failed map[shardmap.Shard]string
	// Absent are the shards of a release that the app does not hold, because it has restarted
	// for example. They move at once, without a note, and count as released for everything
	// but HookShard.Released. A shard that is in Failed, too, has failed.
	Absent map[shardmap.Shard]bool
	// Notes are what a release leaves to the next owner, each up to MaxNote bytes.
	Notes map[shardmap.Shard][]byte
}

// AliveCall tells the app for how long it may write, beside the calls of the machine. The app
// counts MayWrite from when it answered the call After, not from when this call arrives: a call
// that waited on its way would otherwise allow too much.
type AliveCall struct {
	// ID names the call; no other call of any process has the same.
	ID string
	// After is the ID of the last call that the app has answered to this process before MayWrite
	// was computed; empty: none, and then the app may not write for this call.
	After string
	// Map is the epoch of the committed map, Held how many shards the node owns in it.
	Map  shardmap.Epoch
	Held int
	// MayWrite is zero if the app must stop writing now.
	MayWrite time.Duration
}

// HookOptions are the facts of a node's hooks, all of them needed.
type HookOptions struct {
	App App
	// Deliver has what the node gives up shards with, or what they wait for its next
	// process with, brought to whoever leads: its server gets it as Delivered. It must not
	// block. It is called again until an answer says Taken, or ReleaseTimeout is over.
	Deliver func(Releases)
	// Ended is called with the end of each release, once for each shard; nil: with none. It
	// is called from within the agent's methods, and must neither block nor call the agent.
	Ended func(ReleaseEnd)
	// ReleaseTimeout bounds what a release adds to a map change, at most
	// MaxReleaseTimeout: from the end of the last request that moves to the
	// acknowledgement, and to the delivery of what was released. The leader waits that much longer.
	ReleaseTimeout time.Duration
	// AcquireTimeout bounds each attempt to acquire. They are repeated as long as the
	// shard is here.
	AcquireTimeout time.Duration
	// StuckAfter is how long the app fails at least to acquire a shard before another node is
	// to own it, and Backoff the time before the first of them is given back; zero: 5 s and
	// 30 s. Backoff doubles with each failure.
	StuckAfter, Backoff time.Duration
}

// HookPhase is what a shard is to the app behind its owner.
//
//	gone ──► acquiring ──► serving ──► releasing ──► gone
//
// Only what is serving is admitted.
type HookPhase uint8

// The phases.
const (
	HookGone      HookPhase = iota + 1 // the app holds nothing, as far as it is known
	HookAcquiring                      // it is told to load it, now or once there is a lease
	HookServing                        // it holds it
	HookReleasing                      // it is told to give it up, once the last request has ended
)

var phaseNames = [...]string{HookGone: "gone", HookAcquiring: "acquiring", HookServing: "serving", HookReleasing: "releasing"}

// String returns the phase as logs and status spell it.
func (p HookPhase) String() string { return enumName(phaseNames[:], uint8(p), "HookPhase") }

// Held is a shard of this node as its app has it, for people to read.
type HeldShardView struct {
	Shard shardmap.Shard
	Epoch shardmap.Epoch
	Phase HookPhase
	// Since is when the phase began, by the agent's clock.
	Since time.Duration
	// Err is why the last attempt failed; empty if none has since the phase began.
	Err string
}
