package agent

import (
	"cmp"
	"fmt"
	"time"

	"shardway/ack"
	"shardway/ack/election"
	"shardway/shardmap"
)

const (
	// burstInterval, maxBurst and minBurst define the fast start with a new leader: a few
	// heartbeats in quick succession get the node its lease within a few round trips. It sends
	// at least minBurst of them even if it has the lease immediately, because the first lease of a
	// boot requires a later quorum time, so other nodes need the further confirmations of this
	// voter.
	burstInterval = 10 * time.Millisecond
	maxBurst      = 8
	minBurst      = 4
)

// Gate controls the admission of requests to the app of the node. It admits by the lease and
// the routing that were published last. The agent calls it from its own methods. No method may
// block or call the agent.
//
// The gate must count a request first and then check routing and lease. The agent publishes
// first and then asks for the count. So one of the two always sees the other.
type Gate interface {
	// Lease publishes the time until which requests may be admitted; zero means not at all. It
	// returns true if a request may have been held because the previously published lease had
	// ended.
	Lease(until time.Duration) (missed bool)
	// Route publishes a routing. Waiting requests must check it again.
	Route(ack.Routing)
	// Running counts the running requests for shards for which may returns false. If there are
	// any, their end must trigger a Poll soon.
	Running(may func(shardmap.Shard) bool) int
	// Cut aborts these requests. It does not wait for their end.
	Cut(why CutReason, may func(shardmap.Shard) bool)
}

// Options are the fixed properties of a process. All are required except Gateway, Zone
// and Hooks.
type Options struct {
	Node shardmap.NodeID
	// Server is the Raft server id, node/disk.
	Server string
	// Boot is on disk, and higher than all earlier ones (see Heartbeat).
	Boot, Nonce uint64
	Pace        ack.Pace
	// Timing applies until the log contains one.
	Timing  ack.Timing
	Gateway bool
	// Hooks configures the calls that inform the app about the shards that it holds; nil means
	// no hooks.
	Hooks *HookOptions
	// Zone is the zone of the node, up to 64 bytes; empty means none.
	Zone string

	Gate Gate
	// Term returns the present Raft term of the node.
	Term func() uint64
	// Send sends a heartbeat to the present leader. It must not block. A lost heartbeat is
	// compensated by the next one.
	Send func(ack.Heartbeat)
	// Raise stores a boot above known and the present one, on disk before it returns. If it
	// returns false, the agent stops sending.
	Raise func(known uint64) (boot uint64, ok bool)
}

// Observation is the state of the node at one poll.
type Observation struct {
	// State is the newest state of the own log.
	State *ack.State
	// Unready means that the app has not been checked yet, so the agent sends no heartbeat.
	// Unhealthy means that the app does not respond.
	Unready, Unhealthy bool
	// App contains further results of the health checks of the app.
	App ack.AppHealth
	// Leaving means that the node should own no shards. Stopping means that it must stop
	// admitting requests, end the running ones, and then send a goodbye. Once set, neither may
	// be reset.
	Leaving, Stopping bool
	// ReturnsWithin is the time within which a stopping node restarts; zero means that it does
	// not. A restarting node keeps its shards, so its running requests get the drain timeout
	// to end.
	ReturnsWithin time.Duration
	// Weight is the weight of the node in the map, above zero.
	Weight uint32
	// AfterRestart and AppSince are the fields of AppReport.
	AfterRestart bool
	AppSince     shardmap.Epoch
	// Keys is the KeysDigest of the key configuration that the node has loaded; zero means
	// none.
	Keys uint64
	// HasRequests means that requests have arrived since the last Poll.
	HasRequests bool
}

// CutReason is the reason why running requests are cut, which means aborted.
type CutReason uint8

// The reasons.
const (
	CutLeaseLost CutReason = iota + 1 // the lease ended a while ago (why 3)
	CutDraining                       // their shards move, and drain-timeout has passed (rule 7)
	CutNewBoot                        // the node raises its boot
	CutGoodbye                        // the node stops
)

var cutReasonNames = [...]string{CutLeaseLost: "lease lost", CutDraining: "draining", CutNewBoot: "new boot", CutGoodbye: "goodbye"}

// String returns the reason as metrics spell it.
func (c CutReason) String() string { return enumName(cutReasonNames[:], uint8(c), "Cutting") }

// enumName returns the name of a value of an enum, and its kind and number if it has none.
func enumName(names []string, i uint8, kind string) string {
	if i == 0 || int(i) >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, i)
	}
	return names[i]
}

// AnswerResult is the meaning of a response for the process that received it.
type AnswerResult uint8

// The results.
const (
	// AnswerIgnored means that the response belongs to another boot, or is from a previous leader.
	AnswerIgnored AnswerResult = iota + 1
	// AnswerCounted means that a leader receives the heartbeats of this node.
	AnswerCounted
	// BootSuperseded means that the leader has seen a higher boot of this node, from another
	// disk. The agent aborts its requests and raises its boot. It is returned once.
	BootSuperseded
	// DiskRolledBack means that this disk is an older image of itself, or a copy. The process
	// must stop, and the disk must not be used again.
	DiskRolledBack
	// DuplicateNode means that another process uses this node id. A restarted process may get
	// this for a short time.
	DuplicateNode
	// DuplicatePersists means that the other process has used the id for so long that this one must
	// stop.
	DuplicatePersists
)

// Agent is the protocol machine of one node. It owns Holder and Follower, and decides when the
// node admits, routes, drains, acknowledges and sends heartbeats. See Poll for the order. The
// zero Agent is not usable.
type Agent struct {
	o        Options
	holder   *Holder
	follower *Follower
	hooks    *hookMachine // nil means no hooks

	nextHeartbeat  time.Duration
	postponeNext   time.Duration // delay of the heartbeat after the next one, see HeartbeatWith
	broughtForward time.Duration // by how much alignHeartbeat has advanced nextHeartbeat
	burst          int           // heartbeats of the fast start so far
	answerTerm     uint64        // of the last answer that counted
	leaseTerm      uint64        // term of the lease at the last poll; zero means that there was none
	rebootAbove    uint64        // a higher boot of this node that the leader knows; zero means none
	duplicateSince time.Duration // when the leader began to refuse this node for another process; zero means that it does not
	voidedUntil    time.Duration // end of the lease that was voided for Stopping
	// stopped means that the node has permanently stopped admitting and running requests.
	stopped bool
	// stoppingSince is when it stopped admitting requests; zero means that it has not.
	stoppingSince time.Duration
	mapStays      bool
	upToDate      bool
	restarting    bool          // it has stopped admitting requests, and its shards wait for its next process
	lastRequestAt time.Duration // when a poll last found new requests; zero means never
}

// New returns the agent of a process that starts now, before its first state.
func New(o Options, now time.Duration) *Agent {
	a := &Agent{o: o, holder: NewHolder(o.Boot, now), follower: NewFollower(o.Node, o.Pace.DrainTimeout)}
	if o.Hooks != nil && !o.Gateway {
		a.hooks = newHooks(*o.Hooks, o.Node, o.Server, o.Boot)
	}
	return a
}

// Poll checks all inputs and acts on them. The caller must call it at the time that Due returns. It
// must also call it immediately after HeartbeatNow, HeartbeatEarly, Answered, HookEnded and
// NotAcquired, after a new state, and after the end of a request that Running or Busy counted. now
// is the time at which the clock was read last. The agent itself reads no clock.
//
// The order of these steps guarantees G1, one owner at a time:
//  1. End the lease and publish the routing that stops a shard.
//  2. Count the running requests.
//  3. Make the app release the moving shards.
//  4. Acknowledge the proposal once these shards have no running request and are released.
//  5. Send the heartbeat, which contains the acknowledgement.
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

// noShard is the predicate that is false for every shard.
func noShard(shardmap.Shard) bool { return false }

// publishLease publishes the lease to the Gate. With a new lease it also publishes the routing
// again, because queued requests check only a new routing.
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
	case a.leaseTerm != was && a.stopsTheWorld(): // the routing depends on the term of the lease
		a.publishRouting(a.follower.State())
	}
	if !held && was != 0 {
		a.burst, a.nextHeartbeat = 0, 0 // ask immediately: the lease may have ended because a busy machine looks paused
	}
}

// CutBy returns when Poll aborts the running requests, with Gate.Cut, if the last lease has
// ended by then and no other lease has followed. It returns zero before the first lease.
func (a *Agent) CutBy() time.Duration { return a.holder.cutBy }

// stopsTheWorld reports whether map changes pause the whole cluster, so that routing depends
// on the term of the lease.
func (a *Agent) stopsTheWorld() bool {
	return a.follower.State().Timing().RebalanceMode == ack.RebalanceStopTheWorld
}

func (a *Agent) publishRouting(s *ack.State) {
	r := ack.NewRouting(a.o.Node, s, a.leaseTerm, a.o.Gateway)
	if a.hooks != nil {
		r = r.Acquired(a.hooks.acquired)
	}
	if a.restarting {
		r = r.Restarting()
	}
	a.o.Gate.Route(r)
}

// applyState routes and drains by s from now on.
func (a *Agent) applyState(now time.Duration, s *ack.State) {
	if s != a.follower.State() {
		a.publishRouting(s)
		a.follower.StateApplied(now, s)
	}
}

// updateHooks updates the hook machine. A boot that is being replaced starts no calls.
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

// acknowledgeDrained acknowledges the proposal once no request runs for a shard that must stop
// here, and the app has released these shards.
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

// cutOverdue aborts the requests that have exceeded drain-timeout.
func (a *Agent) cutOverdue(now time.Duration) {
	if !a.follower.CutDue(now) {
		return
	}
	overdue := func(s shardmap.Shard) bool { return a.follower.Overdue(now, s) }
	if a.hooks != nil {
		a.hooks.countCutRequests(overdue)
	}
	a.o.Gate.Cut(CutDraining, func(s shardmap.Shard) bool { return !overdue(s) })
}

// raiseBoot continues under a higher boot once no request and no hook call of the present boot
// runs. The leader concludes from a higher boot that the previous one has stopped serving.
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

// finishStopping stops the node permanently once no request runs and its app has released the
// remaining shards. The node then sends a goodbye, and the leader gives its shards to other
// nodes.
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
			a.nextHeartbeat = 0 // report the digest to the leader
		}
		return
	}
	a.stopped, a.nextHeartbeat = true, 0
}

// cutAll aborts all running requests. It returns true if no request runs any more.
func (a *Agent) cutAll(why CutReason) bool {
	if a.o.Gate.Running(noShard) == 0 {
		return true
	}
	a.o.Gate.Cut(why, noShard)
	return false
}

// sendHeartbeat sends a heartbeat. The lease that answers it counts from now. The echo is read
// before the Raft term (why 6): the term then proves that no newer one had begun when the
// echoed answer was sent.
func (a *Agent) sendHeartbeat(now time.Duration, s Observation) {
	a.nextHeartbeat, a.broughtForward, a.postponeNext = now+a.o.Pace.Heartbeat+a.postponeNext, 0, 0
	if !a.stopped {
		s.ReturnsWithin = 0
	}
	number, echo := a.holder.NextHeartbeat(now)
	unacquired, waiting, unable := a.acquireReport()
	kept, keepsAll := a.safeDrainReport()
	a.o.Send(ack.Heartbeat{
		Level: a.follower.State().Level(), Node: a.o.Node, Server: a.o.Server, Boot: a.holder.Boot(), Nonce: a.o.Nonce, Number: number, Echo: echo,
		Term:    a.o.Term(),
		Applied: a.follower.State().Committed().Epoch(), Acked: a.follower.Acked(), Interval: a.o.Pace.Heartbeat,
		Weight: s.Weight, Zone: a.o.Zone, Unhealthy: s.Unhealthy, Leaving: s.Leaving, Goodbye: a.stopped, Gateway: a.o.Gateway, App: s.App,
		ReleaseTime: a.releaseTime(), ReleasesDigest: a.releaseDigest(), RestartWithin: s.ReturnsWithin, Keys: s.Keys, NotReleased: a.countNotReleased(now),
		NotAcquired: waiting, Unacquired: unacquired, AcquiresNone: unable, Kept: kept, KeepsAll: keepsAll,
		AfterRestart: s.AfterRestart && !a.o.Gateway, AppSince: s.AppSince,
	})
}

// releaseTime returns the additional time that the leader must wait for an acknowledgement.
func (a *Agent) releaseTime() time.Duration {
	if a.hooks == nil {
		return 0
	}
	return a.hooks.releaseTimeout()
}

// releaseDigest returns the digest of the releases that belong to the acknowledgement.
func (a *Agent) releaseDigest() [32]byte {
	if a.hooks == nil {
		return [32]byte{}
	}
	return a.hooks.digest
}

// Answered handles a response. The caller must call Poll afterwards.
func (a *Agent) Answered(now time.Duration, ans ack.Answer) AnswerResult {
	if ans.Boot != a.holder.Boot() {
		return AnswerIgnored
	}
	if ans.Refusal != 0 && ans.Term >= a.o.Term() {
		a.holder.markAnswered(ans.HeartbeatNumber) // the leader is alive
	}
	switch ans.Refusal {
	case ack.RefusedBoot:
		return a.bootSuperseded(ans.KnownBoot)
	case ack.RefusedRollback:
		return DiskRolledBack
	case ack.RefusedDuplicate:
		return a.duplicateFound(now, ans.DuplicateAddr)
	}
	if !a.holder.Answered(now, a.o.Term(), ans) {
		return AnswerIgnored
	}
	a.duplicateSince, a.mapStays = 0, ans.MapUnchanged
	a.upToDate = a.upToDate || ans.OK
	a.alignHeartbeat(ans)
	if a.hooks != nil {
		a.hooks.answerReceived(now, ans, a.stopped)
	}
	if ans.Term != a.answerTerm {
		// A new leader grants nothing until a heartbeat echoes one of its responses, and
		// the lease of the previous leader is running out.
		a.answerTerm, a.burst = ans.Term, 0
		a.nextHeartbeat = now
	}
	// Continue the burst even with a lease: it may be from a leader that is gone, and
	// the new one may not be ready to grant yet.
	if _, held := a.holder.Until(); a.burst < minBurst || (!held || ans.ServeFor <= 0) && !a.o.Gateway && a.burst < maxBurst {
		a.burst++
		a.nextHeartbeat = min(a.nextHeartbeat, now+burstInterval)
	}
	return AnswerCounted
}

// bootSuperseded records that the leader has seen the higher boot known.
func (a *Agent) bootSuperseded(known uint64) AnswerResult {
	if a.rebootAbove != 0 || known <= a.holder.Boot() {
		return AnswerIgnored
	}
	a.rebootAbove = known
	return BootSuperseded
}

// duplicateFound records that another process uses this node id. If that lasts, it is a
// configuration error.
func (a *Agent) duplicateFound(now time.Duration, elsewhere string) AnswerResult {
	if elsewhere == "" {
		return AnswerIgnored // the other process has exited, and only its lease must expire
	}
	if a.duplicateSince == 0 {
		a.duplicateSince = now
	}
	if now-a.duplicateSince > 2*a.Timing().DeadAfter {
		return DuplicatePersists
	}
	return DuplicateNode
}

// RanUntil reports, before Poll and Answered, that the process was running until now, even if
// these calls are late. A busy machine is not a paused one, so the lease is kept.
func (a *Agent) RanUntil(now time.Duration) { a.holder.RanUntil(now) }

// Unanswered returns the oldest heartbeat without a response.
func (a *Agent) Unanswered() election.UnansweredHeartbeat {
	since, ok := a.holder.oldestUnanswered()
	if !ok {
		return election.UnansweredHeartbeat{}
	}
	return election.UnansweredHeartbeat{Since: since, Term: a.answerTerm}
}

// HeartbeatNow makes the next Poll send a heartbeat.
func (a *Agent) HeartbeatNow() { a.nextHeartbeat = 0 }

// Boot returns the boot under which the node sends heartbeats.
func (a *Agent) Boot() uint64 { return a.holder.Boot() }

// State returns the state that the node routes by.
func (a *Agent) State() *ack.State { return a.follower.State() }

// Acked returns the last acknowledged proposal; zero if there is none.
func (a *Agent) Acked() shardmap.Epoch { return a.follower.Acked() }

// Draining returns the proposal that the node drains for; zero if there is none.
func (a *Agent) Draining() shardmap.Epoch { return a.follower.Draining() }

// LeaseRemaining returns the rest of the lease, zero without one.
func (a *Agent) LeaseRemaining(now time.Duration) time.Duration { return a.holder.Remaining(now) }

// LeaseTerm returns the term of the leader that granted the present lease, zero without one.
// A response may have shown that the process was paused, which ends the lease early; requests
// see that after the next Poll.
func (a *Agent) LeaseTerm() uint64 { return cmp.Or(a.holder.Term(), a.leaseTerm) }

// Timing returns the timing of the cluster as far as the log of the node contains it.
func (a *Agent) Timing() ack.Timing {
	if s := a.follower.State(); s.Bootstrapped() {
		return s.Timing()
	}
	return a.o.Timing
}

// MapStays reports whether no node is left to take the shards of this leaving node.
func (a *Agent) MapStays() bool { return a.mapStays }

// Stopped reports whether the node has stopped admitting and running requests permanently, and
// sends a goodbye.
func (a *Agent) Stopped() bool { return a.stopped }

// UpToDate reports whether a leader has confirmed that this node has the last proposal, so its
// log is not far behind.
func (a *Agent) UpToDate() bool { return a.upToDate }
