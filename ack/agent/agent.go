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
	// PublishLease publishes the end of the lease, until which requests may be admitted; zero means
	// that none may. It returns true if a request may wait because the previously published lease
	// had ended.
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
// Hooks and ConfirmsAnswers.
type Options struct {
	// Identity of the process.

	Node shardmap.NodeID
	// Server is the Raft server id, node/disk.
	Server string
	// Boot is on disk, and higher than all earlier ones. Nonce is random. See ack.Heartbeat.
	Boot, Nonce uint64
	// Zone is the zone of the node, up to 64 bytes; empty means none.
	Zone string
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
	// RaftTerm returns the present Raft term of the node.
	RaftTerm func() uint64
	// SendHeartbeat sends a heartbeat to the present leader. It must not block. A lost heartbeat is
	// compensated by the next one.
	SendHeartbeat func(ack.Heartbeat)
	// RaiseBoot stores a boot above known and the present one, on disk before it returns. If it
	// returns false, the agent stops sending.
	RaiseBoot func(known uint64) (boot uint64, ok bool)
	// ConfirmsAnswers reports whether the node is a voter that follows another leader; nil means
	// no. Such a node sends a second heartbeat as soon as its periodic heartbeat is answered. The
	// second heartbeat echoes the response.
	//
	// Reason: a lease counts from the newest response that a quorum has echoed. With the second
	// heartbeat, this response is never older than one interval, whenever the other voters send
	// their heartbeats. Otherwise it may be two intervals old, and the rest of the lease is too
	// short to survive a leader failure.
	ConfirmsAnswers func() bool
}

// Observation is the state of the node at one poll.
type Observation struct {
	// State is the newest state of the own log.
	State *ack.State
	// HasRequests means that requests have arrived since the last Poll.
	HasRequests bool
	// Weight is the weight of the node in the map, above zero.
	Weight uint32
	// KeyConfigDigest is the KeyConfigDigest of the key configuration that the node has loaded;
	// zero means none.
	KeyConfigDigest uint64

	// The app.

	// AppUnchecked means that the app has not been checked yet, so the agent sends no heartbeat.
	AppUnchecked bool
	// Unhealthy means that the app does not respond.
	Unhealthy bool
	// App contains further results of the health checks of the app.
	App ack.AppHealth
	// ReturnsNeedRestart and AppStartedAfter are the fields of AppReport.
	ReturnsNeedRestart bool
	AppStartedAfter    shardmap.Epoch

	// The stop of the node. Once set, neither Leaving nor Stopping may be reset.

	// Leaving means that the node should own no shards.
	Leaving bool
	// Stopping means that the node must stop admitting requests, end the running ones, and then send
	// a goodbye.
	Stopping bool
	// RestartWithin is the time within which a stopping node restarts; zero means that it does
	// not. A restarting node keeps its shards, so its running requests get the drain timeout
	// to end.
	RestartWithin time.Duration
}

// AbortReason is the reason why running requests are aborted.
type AbortReason uint8

// The reasons.
const (
	AbortLeaseLost AbortReason = iota + 1 // the lease ended a while ago (why 3)
	AbortDraining                         // their shards move, and drain-timeout has passed (rule 7)
	AbortNewBoot                          // the node raises its boot
	AbortGoodbye                          // the node stops
)

var abortReasonNames = [...]string{
	AbortLeaseLost: "lease lost", AbortDraining: "draining", AbortNewBoot: "new boot", AbortGoodbye: "goodbye",
}

// String returns the reason as metrics spell it.
func (r AbortReason) String() string { return enumName(abortReasonNames[:], uint8(r), "AbortReason") }

// enumName returns the name of a value of an enum, and its kind and number if it has none.
func enumName(names []string, value uint8, kind string) string {
	if value == 0 || int(value) >= len(names) {
		return fmt.Sprintf("%s(%d)", kind, value)
	}
	return names[value]
}

// AnswerResult is the meaning of a response for the process that received it.
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
	// DuplicateNode means that another process uses this node id. A restarted process may get
	// this for a short time.
	DuplicateNode
	// DuplicatePersists means that the other process has used the id for so long that this one must
	// stop.
	DuplicatePersists
)

// Agent is the protocol machine of one node. It owns LeaseHolder and Follower, and decides when the
// node admits, routes, drains, acknowledges and sends heartbeats. See Poll for the order. The
// zero Agent is not usable.
type Agent struct {
	options  Options
	holder   *LeaseHolder
	follower *Follower
	hooks    *hookMachine // nil means no hooks

	// Heartbeats.
	nextHeartbeat time.Duration // when the next periodic heartbeat is due
	confirmNow    bool          // the next Poll confirms a response, see Options.ConfirmsAnswers
	confirmed     bool          // a confirmation was sent since the last periodic heartbeat
	burstCount    int           // heartbeats of the fast start so far
	answerTerm    uint64        // of the last answer that counted; zero means none
	lastRequestAt time.Duration // when a poll last found new requests; zero means never

	// State that leaders have reported.
	leaseTerm       uint64        // term of the lease at the last poll; zero means that there was none
	supersedingBoot uint64        // a higher boot of this node that the leader knows; zero means none
	duplicateSince  time.Duration // when the leader began to refuse this node for another process; zero means that it does not
	mapUnchanged    bool          // no node is left to take the shards of this leaving node
	upToDate        bool          // a leader has confirmed that this node has the last proposal

	// The stop of the node.
	restarting     bool          // it has stopped admitting requests, and its shards wait for its next process
	stoppingSince  time.Duration // when it stopped admitting requests; zero means that it has not
	voidedLeaseEnd time.Duration // end of the lease that was voided for Stopping; zero means none
	stopped        bool          // it has permanently stopped admitting and running requests
}

// New returns the agent of a process that starts now, before its first state.
func New(options Options, now time.Duration) *Agent {
	a := &Agent{
		options:  options,
		holder:   NewLeaseHolder(options.Boot, now),
		follower: NewFollower(options.Node, options.Pace.DrainTimeout),
	}
	if options.Hooks != nil && !options.Gateway {
		a.hooks = newHooks(*options.Hooks, options.Node, options.Server, options.Boot)
	}
	return a
}

// Poll checks all inputs and acts on them. The caller must call it at the time that Due returns. It
// must also call it immediately after HeartbeatNow, AdvanceHeartbeat, HandleAnswer, HookEnded and
// ShardNotAcquired, after a new state, and after the end of a request that CountRunning or
// CountRequests counted. now is the time at which the clock was read last. The agent itself reads
// no clock.
//
// The order of these steps guarantees G1, one owner at a time:
//  1. End the lease and publish the routing that stops a shard.
//  2. Count the running requests.
//  3. Make the app release the moving shards.
//  4. Acknowledge the proposal once these shards have no running request and are released.
//  5. Send the heartbeat, which contains the acknowledgement.
func (a *Agent) Poll(now time.Duration, obs Observation) {
	if obs.HasRequests {
		a.lastRequestAt = now
	}
	a.holder.Tick(now)
	a.voidLease(obs)
	a.beginRestart(obs)
	a.publishLease()
	a.applyState(now, obs.State)
	a.abortAfterLease(now)
	a.updateHooks(now, obs)
	a.acknowledgeDrained(now)
	a.sendReleases(now)
	a.raiseBoot()
	a.finishStopping(now, obs)
	heartbeatDue := now >= a.nextHeartbeat || a.confirmNow
	if heartbeatDue && a.supersedingBoot == 0 && !obs.AppUnchecked {
		a.sendHeartbeat(now, obs)
	}
}

// voidLease ends the lease of a node that stops, or whose boot is being replaced.
func (a *Agent) voidLease(obs Observation) {
	if a.supersedingBoot != 0 {
		a.holder.Void()
		return
	}
	if !obs.Stopping {
		return
	}
	if leaseEnd, hasLease := a.holder.LeaseEnd(); hasLease {
		a.voidedLeaseEnd = leaseEnd
	}
	a.holder.Void()
}

// beginRestart publishes, once, that the shards of this node wait for its next process.
func (a *Agent) beginRestart(obs Observation) {
	if obs.Stopping && obs.RestartWithin > 0 && !a.restarting {
		a.restarting = true
		a.publishRouting(a.follower.State())
	}
}

// abortAfterLease aborts requests and hook calls a while after the end of the lease, because another
// node may own the shards soon.
func (a *Agent) abortAfterLease(now time.Duration) {
	if !a.holder.AbortDue(now) {
		return
	}
	a.options.Gate.AbortRequests(AbortLeaseLost, noShard)
	if a.hooks != nil {
		a.hooks.cancelAll()
	}
}

// sendReleases sends pending release notes to the leader.
func (a *Agent) sendReleases(now time.Duration) {
	if a.hooks == nil || a.supersedingBoot != 0 {
		return
	}
	if changed := a.hooks.sendReleases(now); changed {
		a.nextHeartbeat = 0 // the acknowledgement contains no digest any more
	}
}

// noShard is the predicate that is false for every shard.
func noShard(shardmap.Shard) bool { return false }

// publishLease publishes the lease to the Gate. With a new lease it also publishes the routing
// again, because queued requests check only a new routing. The routing of a cluster that stops the
// world also depends on the term of the lease.
func (a *Agent) publishLease() {
	leaseEnd, hasLease := a.holder.LeaseEnd()
	if !hasLease {
		leaseEnd = 0
	}
	requestsWait := a.options.Gate.PublishLease(leaseEnd)
	hadLease, leaseTerm := a.leaseTerm != 0, a.holder.Term()
	termChanged := leaseTerm != a.leaseTerm
	a.leaseTerm = leaseTerm
	admitsAgain := hasLease && (!hadLease || requestsWait)
	if admitsAgain || termChanged && a.stopsTheWorld() {
		a.publishRouting(a.follower.State())
	}
	if hadLease && !hasLease {
		a.burstCount, a.nextHeartbeat = 0, 0 // ask immediately: the lease may have ended because a busy machine looks paused
	}
}

// AbortAt returns when Poll aborts the running requests, with Gate.AbortRequests, if the last lease
// has ended by then and no other lease has followed. It returns zero before the first lease.
func (a *Agent) AbortAt() time.Duration { return a.holder.abortAt }

// stopsTheWorld reports whether map changes pause the whole cluster, so that routing depends
// on the term of the lease.
func (a *Agent) stopsTheWorld() bool {
	return a.follower.State().Timing().RebalanceMode == ack.RebalanceStopTheWorld
}

// publishRouting publishes the routing of a state to the Gate.
func (a *Agent) publishRouting(state *ack.State) {
	routing := ack.NewRouting(a.options.Node, state, a.leaseTerm, a.options.Gateway)
	if a.hooks != nil {
		routing = routing.WithAcquired(a.hooks.acquired)
	}
	if a.restarting {
		routing = routing.WithRestarting()
	}
	a.options.Gate.PublishRouting(routing)
}

// applyState makes the given state the one by which the node routes and drains.
func (a *Agent) applyState(now time.Duration, state *ack.State) {
	if state != a.follower.State() {
		a.publishRouting(state)
		a.follower.StateApplied(now, state)
	}
}

// updateHooks updates the hook machine. A boot that is being replaced starts no calls.
func (a *Agent) updateHooks(now time.Duration, obs Observation) {
	if a.hooks == nil || a.supersedingBoot != 0 {
		return
	}
	state := a.follower.State()
	_, hasLease := a.holder.LeaseEnd()
	a.hooks.update(now, hookInputs{
		state:           state,
		drainingEpoch:   a.follower.Draining(),
		hasLease:        hasLease,
		mayRelease:      hasLease || obs.Stopping && now < a.voidedLeaseEnd,
		stopping:        obs.Stopping,
		restartsInPlace: obs.Stopping && obs.RestartWithin > 0,
	}, func() { a.publishRouting(state) })
	if a.hooks.heartbeatDue {
		a.hooks.heartbeatDue, a.nextHeartbeat = false, 0
	}
}

// acknowledgeDrained acknowledges the proposal once no request runs for a shard that must stop
// here, and the app has released these shards.
func (a *Agent) acknowledgeDrained(now time.Duration) {
	epoch := a.follower.Draining()
	if epoch == 0 {
		return
	}
	if a.options.Gate.CountRunning(a.follower.MayRun) > 0 {
		a.abortOverdue(now)
		return
	}
	if a.hooks != nil {
		if !a.hooks.movesReleased(now, a.follower.WillOwn) {
			return
		}
		a.hooks.prepareReleases(now, epoch)
	}
	a.follower.RecordDrained(epoch)
	a.nextHeartbeat = 0
}

// abortOverdue aborts the requests that have exceeded drain-timeout.
func (a *Agent) abortOverdue(now time.Duration) {
	if !a.follower.AbortDue(now) {
		return
	}
	overdue := func(shard shardmap.Shard) bool { return a.follower.IsOverdue(now, shard) }
	if a.hooks != nil {
		a.hooks.countAbortedRequests(overdue)
	}
	a.options.Gate.AbortRequests(AbortDraining, func(shard shardmap.Shard) bool { return !overdue(shard) })
}

// raiseBoot continues under a higher boot once no request and no hook call of the present boot
// runs. The leader concludes from a higher boot that the previous one has stopped serving.
func (a *Agent) raiseBoot() {
	if a.supersedingBoot == 0 {
		return
	}
	if !a.abortAll(AbortNewBoot) {
		return
	}
	if a.hooks != nil && !a.hooks.stopCalls() {
		return
	}
	boot, ok := a.options.RaiseBoot(a.supersedingBoot)
	if !ok {
		return
	}
	a.holder.Reboot(boot)
	if a.hooks != nil {
		a.hooks.reboot(boot)
		a.publishRouting(a.follower.State())
	}
	a.supersedingBoot, a.nextHeartbeat = 0, 0
}

// finishStopping stops the node permanently once no request runs and its app has released the
// remaining shards. The node then sends a goodbye, and the leader gives its shards to other
// nodes.
func (a *Agent) finishStopping(now time.Duration, obs Observation) {
	if !obs.Stopping || a.stopped {
		return
	}
	if a.stoppingSince == 0 {
		a.stoppingSince = now
	}
	// The shards of a restarting node do not move, so its requests get the drain timeout.
	mayDrain := obs.RestartWithin > 0 && now-a.stoppingSince < a.options.Pace.DrainTimeout
	if mayDrain && a.options.Gate.CountRunning(noShard) > 0 {
		return
	}
	if !a.abortAll(AbortGoodbye) {
		return
	}
	if !a.hooksReadyToStop(now) {
		return
	}
	a.stopped, a.nextHeartbeat = true, 0
}

// hooksReadyToStop reports whether the app has released all shards.
func (a *Agent) hooksReadyToStop(now time.Duration) bool {
	if a.hooks == nil {
		return true
	}
	previousDigest := a.hooks.digest
	ready := a.hooks.readyToStop(now, a.follower.Acked())
	if !ready && a.hooks.digest != previousDigest {
		a.nextHeartbeat = 0 // report the digest to the leader
	}
	return ready
}

// abortAll aborts all running requests. It returns true if no request runs any more.
func (a *Agent) abortAll(reason AbortReason) bool {
	if a.options.Gate.CountRunning(noShard) == 0 {
		return true
	}
	a.options.Gate.AbortRequests(reason, noShard)
	return false
}

// sendHeartbeat sends a heartbeat: the periodic one if it is due, and otherwise a confirmation.
// The lease that answers it counts from now. The echo is read before the Raft term (why 6): the
// term then proves that no newer one had begun when the echoed answer was sent.
func (a *Agent) sendHeartbeat(now time.Duration, obs Observation) {
	isPeriodic := now >= a.nextHeartbeat
	if isPeriodic {
		a.nextHeartbeat = now + a.options.Pace.Heartbeat
	}
	a.confirmNow, a.confirmed = false, !isPeriodic
	number, echo := a.holder.NextHeartbeat(now)
	raftTerm := a.options.RaftTerm()
	state := a.follower.State()
	heartbeat := ack.Heartbeat{
		FormatVersion: state.FormatVersion(),
		// The process and the message.
		Node: a.options.Node, Server: a.options.Server, Zone: a.options.Zone, Gateway: a.options.Gateway,
		Boot: a.holder.Boot(), Nonce: a.options.Nonce,
		Number: number, Echo: echo, Term: raftTerm, Interval: a.options.Pace.Heartbeat,
		// The log.
		Applied: state.Committed().Epoch(), Acked: a.follower.Acked(),
		// The node and its app.
		Weight: obs.Weight, KeyConfigDigest: obs.KeyConfigDigest,
		Unhealthy: obs.Unhealthy, App: obs.App, AppStartedAfter: obs.AppStartedAfter,
		ReturnsNeedRestart: obs.ReturnsNeedRestart && !a.options.Gateway,
		Leaving:            obs.Leaving, Goodbye: a.stopped,
	}
	if a.stopped {
		heartbeat.RestartWithin = obs.RestartWithin
	}
	a.addHookReport(now, &heartbeat)
	a.options.SendHeartbeat(heartbeat)
}

// addHookReport sets the fields of a heartbeat that describe the hook calls.
func (a *Agent) addHookReport(now time.Duration, heartbeat *ack.Heartbeat) {
	if a.hooks == nil {
		return
	}
	failures := &a.hooks.acquireFailures
	heartbeat.WaitingShards, heartbeat.AcquiresNone = uint32(failures.waitingCount), failures.acquiresNone
	heartbeat.UnacquiredShards = failures.reported
	heartbeat.KeptShards, heartbeat.KeepsAllShards = a.hooks.safeDrainReport()
	heartbeat.ReleaseTime, heartbeat.ReleasesDigest = a.hooks.releaseTimeout(), a.hooks.digest
	heartbeat.UnreleasedMoves = a.hooks.countUnreleasedMoves(now)
}

// HandleAnswer handles a response. The caller must call Poll afterwards.
func (a *Agent) HandleAnswer(now time.Duration, answer ack.Answer) AnswerResult {
	if answer.Boot != a.holder.Boot() {
		return AnswerIgnored
	}
	if answer.Refusal != 0 {
		return a.handleRefusal(now, answer)
	}
	if !a.holder.HandleAnswer(now, a.options.RaftTerm(), answer) {
		return AnswerIgnored
	}
	a.duplicateSince, a.mapUnchanged = 0, answer.MapUnchanged
	a.upToDate = a.upToDate || answer.OK
	if a.hooks != nil {
		a.hooks.answerReceived(now, answer, a.stopped)
	}
	if answer.Term != a.answerTerm {
		// A new leader grants nothing until a heartbeat echoes one of its responses, and
		// the lease of the previous leader is running out.
		a.answerTerm, a.burstCount = answer.Term, 0
		a.nextHeartbeat = now
	}
	a.scheduleNextHeartbeat(now, answer)
	return AnswerCounted
}

// handleRefusal handles a response that refuses a heartbeat.
func (a *Agent) handleRefusal(now time.Duration, answer ack.Answer) AnswerResult {
	if answer.Term >= a.options.RaftTerm() {
		a.holder.markAnswered(answer.HeartbeatNumber) // the leader is alive
	}
	switch answer.Refusal {
	case ack.RefusedBoot:
		return a.bootSuperseded(answer.KnownBoot)
	case ack.RefusedRollback:
		return DiskRolledBack
	case ack.RefusedDuplicate:
		return a.duplicateFound(now, answer.DuplicateAddr)
	}
	return AnswerIgnored
}

// scheduleNextHeartbeat continues the fast start with a new leader. Otherwise it decides whether the
// node confirms the response (Options.ConfirmsAnswers). The burst continues even with a lease:
// that lease may be from a leader that is gone, and the new one may not be ready to grant yet.
func (a *Agent) scheduleNextHeartbeat(now time.Duration, answer ack.Answer) {
	_, hasLease := a.holder.LeaseEnd()
	needsLease := !a.options.Gateway && (!hasLease || answer.ServeFor <= 0)
	if a.burstCount < minBurst || needsLease && a.burstCount < maxBurst {
		a.burstCount++
		a.nextHeartbeat = min(a.nextHeartbeat, now+burstInterval)
		return
	}
	answersPeriodic := !a.confirmed && answer.HeartbeatNumber == a.holder.lastNumber
	if answersPeriodic && a.options.ConfirmsAnswers != nil {
		a.confirmNow = a.options.ConfirmsAnswers()
	}
}

// bootSuperseded records that the leader has seen the higher boot knownBoot.
func (a *Agent) bootSuperseded(knownBoot uint64) AnswerResult {
	if a.supersedingBoot != 0 || knownBoot <= a.holder.Boot() {
		return AnswerIgnored
	}
	a.supersedingBoot = knownBoot
	return BootSuperseded
}

// duplicateFound records that another process uses this node id. If that lasts, it is a
// configuration error.
func (a *Agent) duplicateFound(now time.Duration, duplicateAddr string) AnswerResult {
	if duplicateAddr == "" {
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

// MarkRunning reports, before Poll and HandleAnswer, that the process was running until now, even
// if these calls are late. A busy machine is not a paused one, so the lease is kept.
func (a *Agent) MarkRunning(now time.Duration) { a.holder.MarkRunning(now) }

// UnansweredHeartbeat returns the oldest heartbeat without a response.
func (a *Agent) UnansweredHeartbeat() election.UnansweredHeartbeat {
	sentAt, ok := a.holder.oldestUnanswered()
	if !ok {
		return election.UnansweredHeartbeat{}
	}
	return election.UnansweredHeartbeat{SentAt: sentAt, LeaderTerm: a.answerTerm}
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
	if state := a.follower.State(); state.Bootstrapped() {
		return state.Timing()
	}
	return a.options.Timing
}

// MapUnchanged reports whether no node is left to take the shards of this leaving node.
func (a *Agent) MapUnchanged() bool { return a.mapUnchanged }

// Stopped reports whether the node has stopped admitting and running requests permanently, and
// sends a goodbye.
func (a *Agent) Stopped() bool { return a.stopped }

// IsUpToDate reports whether a leader has confirmed that this node has the last proposal, so its
// log is not far behind.
func (a *Agent) IsUpToDate() bool { return a.upToDate }
