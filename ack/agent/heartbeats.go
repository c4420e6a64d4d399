package agent

import (
	"time"

	"shardway/ack"
	"shardway/ack/election"
)

const (
	// A node sends its first heartbeats to a new leader initialHeartbeatInterval apart, so that it
	// gets a lease within a few round trips. It sends up to maxInitialHeartbeats of them, and at
	// least minInitialHeartbeats even if it already has a lease. The first lease of each other node
	// requires that a quorum confirms the leader once more, so that node depends on this voter.
	initialHeartbeatInterval = 10 * time.Millisecond
	maxInitialHeartbeats     = 8
	minInitialHeartbeats     = 4
)

// sendHeartbeat sends a heartbeat: the periodic one if it is due, and otherwise a confirmation.
// The lease in the response to it counts from now. The echo must be read before the Raft term: the
// term then proves that no newer term had begun when the leader sent the echoed response. See
// reason 6 of docs/internals/protocol-reasons.md.
func (a *Agent) sendHeartbeat(now time.Duration, obs Observation) {
	isPeriodic := now >= a.nextHeartbeat
	if isPeriodic {
		a.nextHeartbeat = now + a.options.Pace.Heartbeat
	}
	a.confirmationDue, a.confirmationSent = false, !isPeriodic
	number, echo := a.holder.NextHeartbeat(now)
	raftTerm := a.options.RaftTerm()
	state := a.follower.State()
	heartbeat := ack.Heartbeat{
		FormatVersion: state.FormatVersion(),
		// The process and the message.
		Node: a.options.Node, Server: a.options.Server, Zone: a.options.Zone, Roles: a.options.Roles, Gateway: a.options.Gateway,
		Boot: a.holder.Boot(), Nonce: a.options.Nonce,
		Number: number, Echo: echo, Term: raftTerm, Interval: a.options.Pace.Heartbeat,
		// The log.
		Applied: state.Committed().Epoch(), Acked: a.follower.Acked(),
		// The node and its app.
		Weight: obs.Weight, KeyConfigDigest: obs.KeyConfigDigest,
		Unhealthy: obs.Unhealthy, App: obs.App, AppStartedAfter: obs.AppStartedAfter,
		ReturnsNeedRestart: obs.ReturnsNeedRestart && !a.options.Gateway,
		Instances:          obs.Instances, InstancesStartedAfter: obs.InstancesStartedAfter,
		UnhealthyInstances: obs.UnhealthyInstances, RemovedInstances: obs.RemovedInstances,
		Leaving: obs.Leaving, Goodbye: a.stopped,
	}
	if !heartbeat.FormatVersion.HasInstances() {
		heartbeat.OmitInstances()
	}
	if heartbeat.FormatVersion.HasServices() {
		heartbeat.HasServices, heartbeat.Services = obs.HasServices, obs.Services
	} else if obs.HasServices {
		heartbeat.Unhealthy = true // it must not own shards of the default service
	}
	if heartbeat.FormatVersion.HasPeerReports() {
		heartbeat.Unreachable = obs.Unreachable[:min(len(obs.Unreachable), ack.MaxUnreachable)]
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
	heartbeat.KeptShards, heartbeat.KeepsAllShards = a.hooks.safeDrain.heartbeatFields()
	heartbeat.ReleaseTime, heartbeat.ReleasesDigest = a.hooks.deadlines.timeout(), a.hooks.delivery.digest
	a.hooks.delivery.recordHeartbeat(heartbeat.Number)
	heartbeat.UnreleasedMoves = a.hooks.releaseEnds.countUnreleasedMoves(now)
}

// HandleAnswer applies a response of a leader. The caller must call Poll afterwards.
func (a *Agent) HandleAnswer(now time.Duration, answer ack.Answer) AnswerResult {
	if answer.Boot != a.holder.Boot() {
		return AnswerIgnored
	}
	if answer.Refusal != 0 {
		return a.applyRefusal(now, answer)
	}
	if !a.holder.HandleAnswer(now, a.options.RaftTerm(), answer) {
		return AnswerIgnored
	}
	a.duplicateSince, a.mapUnchanged = 0, answer.MapUnchanged
	a.upToDate = a.upToDate || answer.OK
	if a.hooks != nil {
		a.hooks.handleAnswer(now, answer, a.stopped)
	}
	if answer.Term != a.answerTerm {
		// A new leader grants nothing until a heartbeat echoes one of its responses, while the
		// previous leader's lease is running out.
		a.answerTerm, a.initialHeartbeats = answer.Term, 0
		a.nextHeartbeat = now
	}
	a.scheduleNextHeartbeat(now, answer)
	return AnswerCounted
}

// applyRefusal applies a response that refuses a heartbeat.
func (a *Agent) applyRefusal(now time.Duration, answer ack.Answer) AnswerResult {
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

// scheduleNextHeartbeat schedules the next of the initial heartbeats to a new leader. After these, it
// decides whether the node confirms the response (see Options.IsFollowingVoter). A lease alone does
// not end the initial heartbeats, because the previous leader may have granted it.
func (a *Agent) scheduleNextHeartbeat(now time.Duration, answer ack.Answer) {
	_, hasLease := a.holder.LeaseEnd()
	needsLease := !a.options.Gateway && (!hasLease || answer.ServeFor <= 0)
	if a.initialHeartbeats < minInitialHeartbeats || needsLease && a.initialHeartbeats < maxInitialHeartbeats {
		a.initialHeartbeats++
		a.nextHeartbeat = min(a.nextHeartbeat, now+initialHeartbeatInterval)
		return
	}
	isPeriodicAnswered := !a.confirmationSent && answer.HeartbeatNumber == a.holder.lastNumber
	if isPeriodicAnswered && a.options.IsFollowingVoter != nil {
		a.confirmationDue = a.options.IsFollowingVoter()
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

// duplicateFound records that another process uses this node id. If this persists, it is a
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
