package ack

import (
	"time"

	"shardway/shardmap"
)

const (
	// burstEvery and burstMost let a node that has just met a leader get its lease
	// within a few round trips instead of a few heartbeats. burstLeast is how often it
	// speaks so if it has that at once: others are granted theirs only after it has
	// confirmed the leader once more (the first lease of a boot needs a later Q).
	burstInterval = 10 * time.Millisecond
	maxBurst      = 8
	minBurst      = 4
)

// Gate is the way of requests to a node's app, as its Agent needs it: they pass by
// the lease and the table that were published last. The agent calls it from within
// its own methods. No method may block or call the agent.
//
// Whoever admits a request counts it first and looks at table and lease then; the
// agent publishes first and lets count then. So one of the two sees the other.
type Gate interface {
	// Lease publishes until when requests may be admitted, zero for not at all. It
	// reports whether one may have met the end of what was published before.
	Lease(until time.Duration) (missed bool)
	// Route publishes a table, and lets requests that wait look at it.
	Route(Routing)
	// Running counts the requests that run here for shards of which may is false.
	// If there are any, their end must lead to a Look soon.
	Running(may func(shardmap.Shard) bool) int
	// Cut cuts those. It does not wait for their end.
	Cut(why CutReason, may func(shardmap.Shard) bool)
}

// AgentOptions are the fixed facts of a process. None may be missing but Gateway, Zone
// and Hooks.
type AgentOptions struct {
	Node shardmap.NodeID
	// Server is the Raft server id, node/disk.
	Server string
	// Boot is on disk, and higher than those before (see Heartbeat).
	Boot, Nonce uint64
	Pace        Pace
	// Timing is what it goes by as long as its log tells none.
	Timing  Timing
	Gateway bool
	// Hooks tell the app which shards it holds. Nil: it is not told.
	Hooks *HookOptions
	// Zone is where the node stands, up to 64 bytes; empty: nowhere.
	Zone string

	Gate Gate
	// Term reads the node's Raft term anew at each call.
	Term func() uint64
	// Send hands a heartbeat to whoever leads. It must not block; what is lost is
	// made up for by the next one.
	Send func(Heartbeat)
	// Raise takes a boot above known and the present one, on disk before it returns.
	// If it cannot, the node is lost: it returns false, and nothing is sent any more.
	Raise func(known uint64) (boot uint64, ok bool)
}

// Seen is what a node sees of itself at one look.
type Observation struct {
	// State is the newest of its own log.
	State *State
	// Unready is true until its app was checked once: till then it says nothing.
	// Unhealthy reports that the app does not answer.
	Unready, Unhealthy bool
	// App is what else is known of the app's health.
	App AppHealth
	// Leaving: it wants to own nothing. Parting: it is to admit and run nothing any
	// more, and to say goodbye then. Neither is taken back.
	Leaving, Stopping bool
	// Back is within what time a node that parts comes back, zero for never. Then it
	// leaves with its shards, so what runs here has the time of a drain to end.
	ReturnsWithin time.Duration
	// Weight is its share in the map, above zero.
	Weight uint32
	// AfterRestart and AppSince are what it reports of its app, see AppReport.
	AfterRestart bool
	AppSince     shardmap.Epoch
	// Keys is the KeysDigest of the key configuration that the node has loaded; zero: none.
	Keys uint64
	// Asked is whether requests have come since the last Look.
	HasRequests bool
}

// Cutting says why running requests are cut.
type CutReason uint8

// The causes.
const (
	CutLeaseLost CutReason = iota + 1 // the lease ended a while ago (why 3)
	CutDraining                       // their shards move, and the drain has lasted too long (rule 7)
	CutNewBoot                        // the node takes a higher boot
	CutGoodbye                        // the node leaves
)

var cutReasonNames = [...]string{CutLeaseLost: "lease lost", CutDraining: "draining", CutNewBoot: "new boot", CutGoodbye: "goodbye"}

// String returns the cause as metrics name it.
func (c CutReason) String() string { return enumName(cutReasonNames[:], uint8(c), "Cutting") }

// Verdict is what an answer means for the process that gets it.
type AnswerResult uint8

// The verdicts.
const (
	// Ignored: it is none of this boot, or of a leader that is none any more.
	AnswerIgnored AnswerResult = iota + 1
	// Counted: a leader hears this node.
	AnswerCounted
	// BootSuperseded: a higher boot of this node is known, of another disk. It cuts what it
	// runs and takes the next one. It is told once.
	BootSuperseded
	// DiskRolledBack: this disk is an older image of itself, or a copy. The process must
	// stop, and the disk must not be used any more.
	DiskRolledBack
	// Duplicate: another process has this id. A restart meets that for a moment.
	DuplicateNode
	// DuplicatePersists: it has it for so long that the process must stop.
	DuplicatePersists
)

// Agent is a node's own side of the protocol: it owns Holder and Follower, and
// decides when the node admits, routes, drains, acknowledges and speaks. See Look
// for the order of that. The zero Agent is not usable.
type Agent struct {
	o        AgentOptions
	holder   *Holder
	follower *Follower
	hooks    *hookMachine // nil: none

	nextHeartbeat  time.Duration
	postponeNext   time.Duration // by how much the one after the next is to be, see HeartbeatWith
	broughtForward time.Duration // of it, by how much it was drawn near; see drawNear
	burst          int
	answerTerm     uint64        // of the last answer that counted
	leaseTerm      uint64        // the term of the lease in force at the last look; zero: there was none
	rebootAbove    uint64        // a higher boot of this node that the leader knows; zero: none
	duplicateSince time.Duration // since when the leader refuses this node for another process; zero: it does not
	voidedUntil    time.Duration // until when the lease would hold that was ended for Parting
	stopped        bool
	// partSince is when it was to admit nothing any more; zero: it is not.
	stoppingSince time.Duration
	mapStays      bool
	upToDate      bool
	restarting    bool          // it admits nothing any more, and its shards wait for its next process
	lastRequestAt time.Duration // when a look last found that requests had come; zero: never
}

// NewAgent returns the agent of a process that begins now, before its first state.
func NewAgent(o AgentOptions, now time.Duration) *Agent {
	a := &Agent{o: o, holder: NewHolder(o.Boot, now), follower: NewFollower(o.Node, o.Pace.DrainTimeout)}
	if o.Hooks != nil && !o.Gateway {
		a.hooks = newHooks(*o.Hooks, o.Node, o.Server, o.Boot)
	}
	return a
}

// Look looks at everything that may have changed. It is due as Due says, and at once
// after HeartbeatNow, HeartbeatEarly, Answered, Called and NotAcquired, a new state, and the end of a request
// that Running or Busy counted. now is the time at which the clock was read last; the agent reads none.
//
// The order is that of G1: what ends the lease or takes a shard is published before
// anything is counted, counted before the app is told to release and before it is
// acknowledged, and acknowledged before the leader hears of it.
func (a *Agent) Poll(now time.Duration, s Observation) {
	if s.HasRequests {
		a.lastRequestAt = now
	}
	a.holder.Tick(now)
	if s.Stopping || a.rebootAbove != 0 {
		if until, held := a.holder.Until(); held && a.rebootAbove == 0 {
			a.voidedUntil = until
		}
		a.holder.Void()
	}
	if s.Stopping && s.ReturnsWithin > 0 && !a.restarting {
		a.restarting = true
		a.publishRouting(a.follower.State())
	}
	a.publishLease()
	a.applyState(now, s.State)
	if a.holder.CutDue(now) {
		a.o.Gate.Cut(CutLeaseLost, noShard)
		if a.hooks != nil {
			a.hooks.cancelAll()
		}
	}
	a.updateHooks(now, s)
	a.acknowledgeDrained(now)
	if a.hooks != nil && a.rebootAbove == 0 && a.hooks.sendReleases(now) {
		a.nextHeartbeat = 0
	}
	a.raiseBoot()
	a.finishStopping(now, s)
	if now >= a.nextHeartbeat && a.rebootAbove == 0 && !s.Unready {
		a.sendHeartbeat(now, s)
	}
}

// nothing may run.
func noShard(shardmap.Shard) bool { return false }

// lease publishes the lease. One that comes back makes a new table, because that is
// what waiting requests wait for.
func (a *Agent) publishLease() {
	until, held := a.holder.Until()
	if !held {
		until = 0
	}
	missed := a.o.Gate.Lease(until)
	was := a.leaseTerm
	a.leaseTerm = a.holder.Term()
	switch {
	case held && (was == 0 || missed):
		a.publishRouting(a.follower.State())
	case a.leaseTerm != was && a.pausesCluster(): // it matters whose lease it is, and that there is none
		a.publishRouting(a.follower.State())
	}
	if !held && was != 0 {
		a.burst, a.nextHeartbeat = 0, 0 // ask at once: a busy machine looks like a pause
	}
}

// CutBy returns when what the node runs is to be cut, if the lease that it had last has
// ended by then and no other one has come: Gate.Cut is told when the agent looks. Zero
// before the first lease.
func (a *Agent) CutBy() time.Duration { return a.holder.cutBy }

// pauses reports that no request is started without a lease, and whose lease it is
// matters.
func (a *Agent) pausesCluster() bool { return a.follower.State().Timing().Pause == PauseCluster }

func (a *Agent) publishRouting(s *State) {
	r := NewRouting(a.o.Node, s, a.leaseTerm, a.o.Gateway)
	if a.hooks != nil {
		r = r.Acquired(a.hooks.acquired)
	}
	if a.restarting {
		r = r.Restarting()
	}
	a.o.Gate.Route(r)
}

// table makes s what the node routes and drains by.
func (a *Agent) applyState(now time.Duration, s *State) {
	if s != a.follower.State() {
		a.publishRouting(s)
		a.follower.StateApplied(now, s)
	}
}

// hook tells the app which shards it is to hold. A boot that is given up tells nothing
// more.
func (a *Agent) updateHooks(now time.Duration, s Observation) {
	if a.hooks == nil || a.rebootAbove != 0 {
		return
	}
	state := a.follower.State()
	_, leased := a.holder.Until()
	a.hooks.update(now, observed{
		state: state, mayServe: leased, leaseHeld: leased || s.Stopping && now < a.voidedUntil,
		draining: a.follower.Draining(), stopping: s.Stopping, returns: s.Stopping && s.ReturnsWithin > 0,
	}, func() { a.publishRouting(state) })
	if a.hooks.reportNow {
		a.hooks.reportNow, a.nextHeartbeat = false, 0
	}
}

// drain acknowledges once nothing runs for a shard that must not run here, and the app
// knows.
func (a *Agent) acknowledgeDrained(now time.Duration) {
	e := a.follower.Draining()
	if e == 0 {
		return
	}
	if a.o.Gate.Running(a.follower.MayRun) > 0 {
		a.cutOverdue(now)
		return
	}
	if a.hooks != nil {
		if !a.hooks.movesReleased(now, a.follower.OwnsNext) {
			return
		}
		a.hooks.prepareRelease(now, e)
	}
	a.follower.Drained(e)
	a.nextHeartbeat = 0
}

// cutDue cuts what has drained for too long.
func (a *Agent) cutOverdue(now time.Duration) {
	if !a.follower.CutDue(now) {
		return
	}
	if a.hooks != nil {
		a.hooks.countCutRequests()
	}
	a.o.Gate.Cut(CutDraining, a.follower.MayRun)
}

// takeBoot takes a higher boot once nothing of the present one runs: when the leader
// hears of it, it takes that as the end of the old one.
func (a *Agent) raiseBoot() {
	if a.rebootAbove == 0 {
		return
	}
	if empty := a.cutAll(CutNewBoot); !empty || a.hooks != nil && !a.hooks.stopCalls() {
		return
	}
	if boot, ok := a.o.Raise(a.rebootAbove); ok {
		a.holder.Reboot(boot)
		if a.hooks != nil {
			a.hooks.reboot(boot)
			a.publishRouting(a.follower.State())
		}
		a.rebootAbove, a.nextHeartbeat = 0, 0
	}
}

// part finds out whether the node may say goodbye: the leader gives its shards to
// others at that word, so it must admit and run nothing any more, and its app has
// released what nobody took.
func (a *Agent) finishStopping(now time.Duration, s Observation) {
	if !s.Stopping || a.stopped {
		return
	}
	if a.stoppingSince == 0 {
		a.stoppingSince = now
	}
	if s.ReturnsWithin > 0 && now-a.stoppingSince < a.o.Pace.DrainTimeout && a.o.Gate.Running(noShard) > 0 {
		return
	}
	if !a.cutAll(CutGoodbye) {
		return
	}
	if was := a.releaseDigest(); a.hooks != nil && !a.hooks.readyToStop(now, a.follower.Acked()) {
		if a.releaseDigest() != was {
			a.nextHeartbeat = 0 // the leader is to hear of it
		}
		return
	}
	a.stopped, a.nextHeartbeat = true, 0
}

// empty reports that nothing runs here, and cuts what does.
func (a *Agent) cutAll(why CutReason) bool {
	if a.o.Gate.Running(noShard) == 0 {
		return true
	}
	a.o.Gate.Cut(why, noShard)
	return false
}

// beat sends a heartbeat. The lease that answers it counts from now. The echo is read
// before the Raft term (why 6): the term then says that no newer one had begun when
// the echoed answer was sent.
func (a *Agent) sendHeartbeat(now time.Duration, s Observation) {
	a.nextHeartbeat, a.broughtForward, a.postponeNext = now+a.o.Pace.Heartbeat+a.postponeNext, 0, 0
	if !a.stopped {
		s.ReturnsWithin = 0
	}
	number, echo := a.holder.NextHeartbeat(now)
	unacquired, waiting, unable := a.acquireReport()
	kept, keepsAll := a.safeDrainReport()
	a.o.Send(Heartbeat{
		Level: a.follower.State().Level(), Node: a.o.Node, Server: a.o.Server, Boot: a.holder.Boot(), Nonce: a.o.Nonce, Number: number, Echo: echo,
		Term:    a.o.Term(),
		Applied: a.follower.State().Committed().Epoch(), Acked: a.follower.Acked(), Every: a.o.Pace.Heartbeat,
		Weight: s.Weight, Zone: a.o.Zone, Unhealthy: s.Unhealthy, Leaving: s.Leaving, Goodbye: a.stopped, Gateway: a.o.Gateway, App: s.App,
		Release: a.releaseTime(), Released: a.releaseDigest(), Back: s.ReturnsWithin, Keys: s.Keys, NotReleased: a.countNotReleased(now),
		NotAcquired: waiting, Unacquired: unacquired, Unable: unable, Kept: kept, KeepsAll: keepsAll,
		AfterRestart: s.AfterRestart && !a.o.Gateway, AppSince: s.AppSince,
	})
}

// releases returns how much longer the leader is to wait for an acknowledgement.
func (a *Agent) releaseTime() time.Duration {
	if a.hooks == nil {
		return 0
	}
	return a.hooks.releaseTimeout()
}

// released returns the digest of what the acknowledgement gives up shards with.
func (a *Agent) releaseDigest() [32]byte {
	if a.hooks == nil {
		return [32]byte{}
	}
	return a.hooks.digest
}

// Answered takes an answer. A Look must follow.
func (a *Agent) Answered(now time.Duration, ans Answer) AnswerResult {
	if ans.Boot != a.holder.Boot() {
		return AnswerIgnored
	}
	if ans.Refusal != 0 && ans.Term >= a.o.Term() {
		a.holder.markAnswered(ans.Beat) // that leader is there
	}
	switch ans.Refusal {
	case RefusedBoot:
		return a.bootSuperseded(ans.Known)
	case RefusedRollback:
		return DiskRolledBack
	case RefusedDuplicate:
		return a.duplicateFound(now, ans.Elsewhere)
	}
	if !a.holder.Answered(now, a.o.Term(), ans) {
		return AnswerIgnored
	}
	a.duplicateSince, a.mapStays = 0, ans.MapStays
	a.upToDate = a.upToDate || ans.OK
	a.alignHeartbeat(ans)
	if a.hooks != nil {
		a.hooks.answerReceived(now, ans, a.stopped)
	}
	if ans.Term != a.answerTerm {
		// A new leader grants nothing before it is shown an answer of its own, and
		// what the old one granted is running out.
		a.answerTerm, a.burst = ans.Term, 0
		a.nextHeartbeat = now
	}
	// Who holds a lease asks on too: it may be of a leader that is gone, and the new
	// one not ready to grant yet.
	if _, held := a.holder.Until(); a.burst < minBurst || (!held || ans.Serve <= 0) && !a.o.Gateway && a.burst < maxBurst {
		a.burst++
		a.nextHeartbeat = min(a.nextHeartbeat, now+burstInterval)
	}
	return AnswerCounted
}

func (a *Agent) bootSuperseded(known uint64) AnswerResult {
	if a.rebootAbove != 0 || known <= a.holder.Boot() {
		return AnswerIgnored
	}
	a.rebootAbove = known
	return BootSuperseded
}

// duplicate notes that another process has this node's id; one that lasts is a mistake
// of the operator's.
func (a *Agent) duplicateFound(now time.Duration, elsewhere string) AnswerResult {
	if elsewhere == "" {
		return AnswerIgnored // it is gone, and its lease has to run out
	}
	if a.duplicateSince == 0 {
		a.duplicateSince = now
	}
	if now-a.duplicateSince > 2*a.Timing().DeadAfter {
		return DuplicatePersists
	}
	return DuplicateNode
}

// Ran tells, before Look and Answered, that the process has run until now, however late
// those come: a machine that is busy is not paused, and a lease that holds is kept.
func (a *Agent) RanUntil(now time.Duration) { a.holder.RanUntil(now) }

// HeartbeatNow makes the next Look send a heartbeat.
func (a *Agent) HeartbeatNow() { a.nextHeartbeat = 0 }

// Boot returns the boot under which the node sends heartbeats.
func (a *Agent) Boot() uint64 { return a.holder.Boot() }

// State returns the state that the node routes by.
func (a *Agent) State() *State { return a.follower.State() }

// Acked returns the last proposal that was acknowledged, Draining the one that the node
// drains for, zero if none.
func (a *Agent) Acked() shardmap.Epoch { return a.follower.Acked() }

// Draining see Acked.
func (a *Agent) Draining() shardmap.Epoch { return a.follower.Draining() }

// LeaseLeft returns how much of the lease is left, zero without one.
func (a *Agent) LeaseRemaining(now time.Duration) time.Duration { return a.holder.Remaining(now) }

// Timing is what the cluster goes by, as far as the node's log tells.
func (a *Agent) Timing() Timing {
	if s := a.follower.State(); s.Bootstrapped() {
		return s.Timing()
	}
	return a.o.Timing
}

// MapStays reports that nobody is left to take the shards of this node, which leaves.
func (a *Agent) MapStays() bool { return a.mapStays }

// Parted reports that the node admits and runs nothing any more, for good, and says so.
func (a *Agent) Stopped() bool { return a.stopped }

// Current reports that a leader has said that this node has the last map proposed: its
// log is not far behind.
func (a *Agent) UpToDate() bool { return a.upToDate }
