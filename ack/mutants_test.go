package ack_test

import (
	"slices"
	"time"

	"shardway/ack"
)

// mutant is a build with a fault that the protocol had, or could have, before a rule prevented
// it. The fault is an edit of the source that only a test build contains, or it is in the nodes
// of the simulation. The simulation must find it.
type mutant struct {
	name  string
	edits []edit
	plant plant
	mix   *simMix // aimed at it
	// levels means that the schedules of levels must catch it, and not the simulation. drive is
	// the fault of the caller of Levels; empty means none.
	levels bool
	drive  string
	// caught is the beginning of the failure that must report it. Several are separated by |.
	// The search ignores other failures. Two owners of a shard cause a failure at the commit
	// (G4: an excluded node may still serve) or at a request (G1).
	caught string
}

// edit is an overlay.Edit. In new, PLANTED stands for the condition that this mutant is planted.
type edit struct{ decl, old, new string }

func in(decl, old, new string) []edit { return []edit{{decl, old, new}} }

// both plants two mutants at once: neither has an effect alone, because the rule of the other
// one prevents it.
func both(a, b []edit) []edit { return slices.Concat(a, b) }

// aimed returns a mix of a few kinds of faults.
func aimed(list string) *simMix {
	return &simMix{
		name: "aimed", hosts: [2]int{3, 4}, takeovers: allTakeovers(), faults: [2]int{4, 14},
		gaps: [2]time.Duration{0, 700 * time.Millisecond}, kinds: kinds(list),
	}
}

// under returns the mix with one takeover only.
func (m *simMix) under(f ack.Takeover) *simMix {
	c := *m
	c.takeovers = []ack.Takeover{f}
	return &c
}

// late returns the mix with many entries that reach Raft late.
func (m *simMix) late() *simMix {
	c := *m
	c.lateSubmit = 300
	return &c
}

// mutants returns all mutants in the order of the protocol pages: "reason 1" and so on, the
// rules of a map change, the limits of leases and membership, then the faults of the
// predecessor and those that this simulation has found.
func mutants() []mutant {
	return slices.Concat(mutantsOfBoots(), mutantsOfTerms(), mutantsOfRounds(), mutantsOfBatching(), mutantsOfLog(), mutantsOfNodes(), mutantsOfTiming(), mutantsOfKeys(), mutantsOfHooks(), mutantsOfReleases(), mutantsOfPolicy(), mutantsOfRestarts(), mutantsOfKeptNotes(), mutantsOfDepartures(), mutantsOfDisks(), mutantsOfLevels(), mutantsOfSuspicion(), mutantsOfApps(), mutantsOfInstances(), mutantsOfServices(), mutantsOfStandbys(), mutantsOfReach(), mutantsOfRoles())
}

func mutantsOfBoots() []mutant {
	restarts := mixCalled("restarts")
	trap := aimed("trap 1")
	trap.hosts = [2]int{4, 5}
	firstQ := in("ack/leader.leaseIssuer.mayGrant", "node.hadLease || quorumTime > node.firstHeartbeatAt", "node.hadLease || PLANTED || quorumTime > node.firstHeartbeatAt")
	return []mutant{
		{
			name: "reason 1: shards of a new boot that has a lease are taken", mix: restarts, caught: "G1|G4",
			edits: in("ack/leader.member.takeoverRule", "m.rebooted && !m.hadLease:", "m.rebooted && (PLANTED || !m.hadLease):"),
		},
		{
			name: "reason 1: the first boot that a leader receives counts as a new one", mix: aimed("sick 4, elect 4"), caught: "G1|G4",
			edits: in("ack/leader.member.reset", "m.rebooted = m.hasHeartbeat() &&", "m.rebooted = (PLANTED || m.hasHeartbeat()) &&"),
		},
		{
			name: "reason 7: late evidence counts against the next boot", mix: aimed("late-evidence 1").under(ack.TakeoverImmediate), caught: "G1|G4",
			edits: both(in("ack/leader.member.recordCrash", "m.hasHeartbeat() && isOtherProcess", "!PLANTED && m.hasHeartbeat() && isOtherProcess"),
				in("ack/leader.member.hasCrashed", "m.crashedBoot >= m.heartbeat.Boot", "(PLANTED || m.crashedBoot >= m.heartbeat.Boot)")),
		},
		{
			name: "reason 7: a heartbeat does not void evidence", mix: aimed("forge 4"), caught: "progress",
			edits: in("ack/leader.member.storeHeartbeat", "	m.crashedBoot, m.crashedBeforeHeartbeat, m.removed = 0, false, false\n", "	if !PLANTED {\n		m.crashedBoot, m.crashedBeforeHeartbeat = 0, false\n	}\n	m.removed = false\n"),
		},
		{
			name: "reason 7: a goodbye outlives its boot", mix: aimed("leave 4, sick 4, hold 3"), caught: "G1|G4",
			edits: both(in("ack/leader.member.reset", "	m.hadLease = false\n", "	m.hadLease = false\n	m.planted = m.planted || m.heartbeat.Goodbye\n"),
				both(in("ack/leader.member", "type member struct {\n", "type member struct {\n	planted bool\n"),
					in("ack/leader.member.takeoverRule", "	case m.heartbeat.Goodbye:", "	case m.heartbeat.Goodbye || PLANTED && m.planted:"))),
		},
		{
			name: "reason 11: acknowledgements of an old boot count for the new one", mix: aimed("kill 4, sick 3, hold 3"), caught: "G4|G5",
			edits: in("ack/leader.member.storeHeartbeat", "	m.heartbeat, m.addr", "	if PLANTED {\n		received.Acked = max(received.Acked, m.heartbeat.Acked)\n	}\n	m.heartbeat, m.addr"),
		},
		{
			name: "the first lease of a boot needs no later Q", mix: trap, caught: "G1|G4",
			edits: firstQ,
		},
		{
			name: "reason 4: boots are random and duplicates are not detected", mix: aimed("old-boot 4, elect 2"), plant: plantRandomBoot, caught: "G1|G4",
			edits: both(in("ack/leader.member.refuseDuplicate", "	if !m.hasHeartbeat() || m.heartbeat.Nonce == received.Nonce || m.heartbeat.Goodbye {\n", "	if PLANTED || !m.hasHeartbeat() || m.heartbeat.Nonce == received.Nonce || m.heartbeat.Goodbye {\n"),
				in("ack/leader.member.refuseBoot", "	if received.Server == m.heartbeat.Server {\n", "	if !PLANTED && received.Server == m.heartbeat.Server {\n")),
		},
		{
			name: "shards of a leaving node are taken before its goodbye", mix: aimed("leave 4, hold 1"), caught: "G1|G4",
			edits: in("ack/leader.member.takeoverRule", "		return \"goodbye\"\n", "		return \"goodbye\"\n	case PLANTED && m.heartbeat.Leaving:\n		return \"left\"\n"),
		},
		{
			name: "crash evidence shortens dead-after under takeover timeout", mix: aimed("forge 4").under(ack.TakeoverTimeout), caught: "G1",
			edits: in("ack/leader.member.takeoverRule", "in.timing.Takeover == ack.TakeoverTimeout", "!PLANTED && in.timing.Takeover == ack.TakeoverTimeout"),
		},
		{
			name: "crash evidence alone frees shards under takeover lease", mix: aimed("forge 4").under(ack.TakeoverLease), caught: "G1|G4",
			edits: in("ack/leader.member.takeoverRule", "	case leaseEnded:", "	case PLANTED || leaseEnded:"),
		},
		{
			name: "a statement of an operator frees shards during a lease", mix: aimed("kill 3, remove 6, forge 6").under(ack.TakeoverLease), caught: "G1|G4",
			edits: in("ack/leader.member.takeoverRule", "m.removed && leaseEnded:", "m.removed && (PLANTED || leaseEnded):"),
		},
		{
			name: "the clock rate tolerance is zero", mix: aimed("forge 4").under(ack.TakeoverLease), caught: "G1|G4",
			edits: in("ack.Timing.LeaseExpiry", "return t.Lease + t.Lease/10", "if PLANTED {\n		return t.Lease\n	}\n	return t.Lease + t.Lease/10"),
		},
		{
			name: "heartbeats from before a drop bring a node back", mix: aimed("last-words 1"), caught: "G4",
			edits: in("ack/leader.membership.applyProposal", "		nodes.getOrCreate(id).freshEchoCount = 0\n", "		if !PLANTED {\n			nodes.getOrCreate(id).freshEchoCount = 0\n		}\n"),
		},
		{
			name: "rule 3: one heartbeat brings a dropped node back", mix: aimed("last-words 1"), caught: "G4",
			edits: in("ack/leader.member.mayJoin", "m.freshEchoCount >= requiredFreshEchoes &&", "(PLANTED || m.freshEchoCount >= requiredFreshEchoes) &&"),
		},
		{
			name: "another process keeps the boot, and evidence names no process", mix: aimed("late-evidence 1").under(ack.TakeoverImmediate), caught: "G1|G4",
			edits: both(in("ack/leader.Leader.refuse", "if node.hasHeartbeat() && received.Boot == node.heartbeat.Boot && received.Nonce", "if !PLANTED && node.hasHeartbeat() && received.Boot == node.heartbeat.Boot && received.Nonce"),
				in("ack/leader.member.recordCrash", "evidence.Nonce != m.heartbeat.Nonce\n", "!PLANTED && evidence.Nonce != m.heartbeat.Nonce\n")),
		},
		{
			name: "evidence names no process", mix: aimed("late-evidence 2, elect 2, depose 1").under(ack.TakeoverImmediate), caught: "G4",
			edits: in("ack/leader.member.recordCrash", "evidence.Nonce != m.heartbeat.Nonce\n", "!PLANTED && evidence.Nonce != m.heartbeat.Nonce\n"),
		},
		{
			name: "leases: a heartbeat of a lower boot counts, and duplicates are not detected", mix: aimed("old-boot 4, wipe 1"), caught: "G1|G4",
			edits: both(in("ack/leader.Leader.refuse", "node.hasHeartbeat() && received.Boot < node.heartbeat.Boot {", "!PLANTED && node.hasHeartbeat() && received.Boot < node.heartbeat.Boot {"),
				in("ack/leader.member.refuseDuplicate", "!m.hasHeartbeat() || m.heartbeat.Nonce == received.Nonce ||", "PLANTED || !m.hasHeartbeat() || m.heartbeat.Nonce == received.Nonce ||")),
		},
		{
			name: "leases: a repeated heartbeat counts again", mix: aimed("last-words 1"), caught: "G4",
			edits: in("ack/leader.Leader.handleHeartbeat", "if received.Boot == node.heartbeat.Boot && received.Number <= node.heartbeat.Number {", "if !PLANTED && received.Boot == node.heartbeat.Boot && received.Number <= node.heartbeat.Number {"),
		},
		{
			name: "the statement of an operator outlives the return of the node", mix: aimed("kill 3, remove 6"), caught: "progress",
			edits: in("ack/leader.member.storeHeartbeat", "	m.removed = false\n", "	m.removed = PLANTED && m.removed\n"),
		},
		{
			name: "leases: a node that learns of a higher boot keeps its own", mix: aimed("wipe 4, kill 2"), caught: "progress",
			edits: in("ack/agent.Agent.bootSuperseded", "a.supersedingBoot != 0 || knownBoot <= a.holder.Boot() {", "PLANTED || a.supersedingBoot != 0 || knownBoot <= a.holder.Boot() {"),
		},
		{
			name: "leases: evidence found before the election counts after it", mix: aimed("late-evidence 2, elect 2, depose 1").under(ack.TakeoverImmediate), caught: "G1|G4",
			edits: in("ack/leader.Leader.applyMessage", "		if m.RedialStartedAt >= l.in.electedAt {\n", "		if PLANTED || m.RedialStartedAt >= l.in.electedAt {\n"),
		},
		{
			name: "the statement of an operator counts against a live node and during its lease", mix: aimed("kill 3, remove 6, sick 2"), caught: "G4",
			edits: both(in("ack/leader.member.recordRemoval", "!m.sendsHeartbeats(in) || m.hasCrashed() {", "PLANTED || !m.sendsHeartbeats(in) || m.hasCrashed() {"),
				in("ack/leader.member.takeoverRule", "	case m.removed &&", "	case PLANTED && m.removed || m.removed &&")),
		},
	}
}

func mutantsOfTerms() []mutant {
	deposed := aimed("depose 8, elect 3, pause 4, kill 3, noise 2")
	deposed.astray = 100
	astray := aimed("old-boot 4, elect 1")
	astray.astray = 300
	oldAnswers := in("ack/agent.LeaseHolder.HandleAnswer", "answer.Term < raftTerm", "!PLANTED && answer.Term < raftTerm")
	echoes := aimed("echoes 3, depose 3")
	echoes.astray = 200
	newer := aimed("depose 6, elect 2")
	newer.astray, newer.gaps[1] = 500, 200*time.Millisecond
	blind := aimed("blind 1")
	blind.hosts = [2]int{4, 5}
	return []mutant{
		{
			name: "reason 2: a leader accepts heartbeats of a newer term, and answers of old terms count", mix: newer, caught: "G2",
			edits: both(in("ack/leader.Leader.handleHeartbeat", "received.Term != l.in.term || l.leases.revoked", "received.Term != l.in.term && !(PLANTED && received.Term > l.in.term) || l.leases.revoked"),
				oldAnswers),
		},
		{
			name: "reason 2: a leader accepts heartbeats of an older term, and duplicates are not detected", mix: astray, caught: "G1|G4",
			edits: both(in("ack/leader.Leader.handleHeartbeat", " || l.leases.revoked", " && !(PLANTED && received.Term < l.in.term) || l.leases.revoked"),
				in("ack/leader.member.refuseDuplicate", "!m.hasHeartbeat() || m.heartbeat.Nonce == received.Nonce ||", "PLANTED || !m.hasHeartbeat() || m.heartbeat.Nonce == received.Nonce ||")),
		},
		{
			name: "reason 5: the leader counts itself without reading its term", mix: aimed("convert 1"), caught: "G2",
			edits: in("ack/leader.leaseIssuer.termRead", "	if read.Term != ownTerm {\n", "	if !PLANTED && read.Term != ownTerm {\n"),
		},
		{
			name: "reason 6: an echo without its term", mix: aimed("echoes 1"), caught: "G2",
			edits: both(in("ack/leader.member.evaluateEcho", "if m.heartbeat.Echo.Term == in.term {", "if PLANTED || m.heartbeat.Echo.Term == in.term {"), // and numbers that meet more often
				both(in("ack/leader.Leader.answerHeartbeat", "	l.lastResponseNumber++\n", "	l.lastResponseNumber++\n	if PLANTED {\n		node.counted++\n		l.lastResponseNumber = node.counted\n	}\n"),
					in("ack/leader.member", "type member struct {\n", "type member struct {\n	counted uint64\n"))),
		},
		{
			name: "reason 6: the term is read before the echo, and answers of old terms count", mix: aimed("two-faced 1"), caught: "G2",
			edits: both(oldAnswers, termBeforeEcho()),
		},
		{
			name: "reason 10: grants before the barrier is applied", mix: blind, caught: "G1|G4",
			edits: both(in("ack/leader.leaseIssuer.mayGrant", "if !li.barrierApplied() || node.heartbeat.Goodbye", "if !PLANTED && !li.barrierApplied() || node.heartbeat.Goodbye"),
				in("ack/leader.leaseIssuer.quorumTime", "li.barrierStart < 0", "!PLANTED && li.barrierStart < 0")),
		},
		{
			name: "reason 10: proposes before the barrier is applied", mix: aimed("hold 5, kill 5, elect 5"), caught: "G4",
			edits: in("ack/leader.Leader.maySubmit", "	if !l.leases.barrierApplied() {\n", "	if !PLANTED && !l.leases.barrierApplied() {\n"),
		},
		{
			name: "leases: a node gets leases after its goodbye", mix: aimed("leave 4"), caught: "G5",
			edits: in("ack/leader.leaseIssuer.mayGrant", "li.barrierApplied() || node.heartbeat.Goodbye || node.heartbeat.Gateway {", "li.barrierApplied() || !PLANTED && node.heartbeat.Goodbye || node.heartbeat.Gateway {"),
		},
		{
			name: "leases: a gateway gets leases", mix: aimed("elect 4"), caught: "G5",
			edits: in("ack/leader.leaseIssuer.mayGrant", "node.heartbeat.Goodbye || node.heartbeat.Gateway {", "node.heartbeat.Goodbye || !PLANTED && node.heartbeat.Gateway {"),
		},
		{
			name: "G5: every acknowledgement is answered with OK", mix: aimed("hold 3, sick 3"), caught: "G5",
			edits: in("ack/leader.Leader.answerHeartbeat", "OK: node.heartbeat.Acked ==", "OK: PLANTED || node.heartbeat.Acked =="),
		},
		{
			name: "reason 11: nonvoters count in Q", mix: nonvoters(), caught: "G2",
			edits: in("ack/leader.leaseIssuer.quorumTime", "	slices.Sort(li.sortBuf)\n", "	if PLANTED {\n		li.sortBuf = li.sortBuf[:0]\n		for _, at := range li.confirmedAt {\n			li.sortBuf = append(li.sortBuf, at)\n		}\n		slices.Sort(li.sortBuf)\n		for len(li.sortBuf) > len(li.voters) {\n			li.sortBuf = li.sortBuf[1:]\n		}\n		for len(li.sortBuf) < len(li.voters) {\n			li.sortBuf = append([]time.Duration{-1}, li.sortBuf...)\n		}\n	}\n	slices.Sort(li.sortBuf)\n"),
		},
		{
			name: "reason 11: a new leader does not wait for the leases of the old one", mix: deposed, caught: "G1|G4",
			edits: in("ack/leader.memberTracker.getOrCreate", "lastGrantAt: mt.electedAt,", "lastGrantAt: mt.electedAt - time.Duration(plantedAs(PLANTED))*time.Hour,"),
		},
		{
			name: "a lease is granted beyond Q", mix: deposed, caught: "G2",
			edits: in("ack/leader.leaseIssuer.grant", "	return min(max(remaining, 0), timing.Lease)\n", "	if PLANTED {\n		return timing.Lease\n	}\n	return min(max(remaining, 0), timing.Lease)\n"),
		},
		{
			name: "Q begins when the barrier is applied, not when it was issued", mix: aimed("late-barrier 1"), caught: "G2",
			edits: in("ack/leader.Leader.applyMessage", "		l.leases.barrierStart = m.Started\n", "		l.leases.barrierStart = m.Started\n		if PLANTED {\n			l.leases.barrierStart = l.in.now\n		}\n"),
		},
		{
			name: "the voters are those of the election", mix: growing(), caught: "G2",
			edits: in("ack/leader.leaseIssuer.setServers", "	li.voters, li.nonvoters =", "	if PLANTED && li.voters != nil {\n		li.nonvoters = append(slices.Clone(servers.Voters), servers.Nonvoters...)\n		return\n	}\n	li.voters, li.nonvoters ="),
		},
		{
			name: "reason 17: a leader stuck before its barrier stays", mix: stuckLeader(), caught: "progress",
			edits: in("ack/leader.Leader.maySubmit", "		if l.in.now-l.in.electedAt > max(l.in.timing.DeadAfter, minBarrierTime) {\n", "		if !PLANTED && l.in.now-l.in.electedAt > max(l.in.timing.DeadAfter, minBarrierTime) {\n"),
		},
		{
			name: "reason 17: a refused barrier is not repeated", mix: mixCalled("lone"), caught: "progress",
			edits: in("ack/leader.Driver.Step", "		d.barrierDue, m = d.options.Clock()+barrierRetryPause, Tick{}\n", "		d.barrierDue, m = d.options.Clock()+barrierRetryPause, Tick{}\n		if PLANTED {\n			d.barrierDue = -1\n		}\n"),
		},
		{
			name: "reason 17: a leader stops after a leadership transfer that failed", mix: mixCalled("lone"), caught: "progress",
			edits: in("ack/leader.Leader.stepDown", "	l.pausedUntil = l.in.now + l.in.timing.DeadAfter\n", "	l.pausedUntil = l.in.now + l.in.timing.DeadAfter\n	if PLANTED {\n		l.pausedUntil = l.in.now + 1000*time.Hour\n	}\n"),
		},
		{
			name: "reason 18: only members that have sent heartbeats are proposed", mix: mixCalled("quiet"), caught: "rule 4",
			edits: in("ack/leader.membership.isEligibleIgnoringFlaps", "		return in.isNewLeader()\n", "		return !PLANTED && in.isNewLeader()\n"),
		},
	}
}

// termBeforeEcho makes heartbeats name a term that was read up to four heartbeats before.
func termBeforeEcho() []edit {
	return both(in("ack/agent.Agent.sendHeartbeat", "	raftTerm := a.options.RaftTerm()\n", "	raftTerm := a.plantedTerm(now, PLANTED)\n"),
		both(in("ack/agent.Agent", "type Agent struct {\n", "type Agent struct {\n	oldTerm uint64\n	oldAt   time.Duration\n"),
			in("ack/agent.Agent.bootSuperseded", "func (a *Agent) bootSuperseded(", `func (a *Agent) plantedTerm(now time.Duration, on bool) uint64 {
	if !on {
		return a.options.RaftTerm()
	}
	if now-a.oldAt > 4*a.options.Pace.Heartbeat {
		a.oldTerm, a.oldAt = a.options.RaftTerm(), now
	}
	return a.oldTerm
}

func (a *Agent) bootSuperseded(`)))
}

// nonvoters returns a mix with clusters that contain nonvoters.
func nonvoters() *simMix {
	m := aimed("depose 8, isolate 4, halves 3")
	m.hosts = [2]int{5, 5}
	return m
}

// growing returns a mix with clusters that begin with one voter and get faults early.
func growing() *simMix {
	m := aimed("depose 8, elect 4, compact 2")
	m.founders = 1
	return m
}

// stuckLeader returns a mix with a leader that never applies an entry.
func stuckLeader() *simMix {
	m := aimed("elect 3, hold 3")
	m.stuck = 1000
	return m
}

// twoGone returns a mix in which nodes are dropped two at a time.
func twoGone() *simMix {
	m := aimed("two-gone 6, sick 2, hold 2, kill 2, forge 1, isolate 1")
	m.hosts, m.gaps[1] = [2]int{4, 5}, 200*time.Millisecond
	return m
}

func mutantsOfRounds() []mutant {
	slow, restarts := mixCalled("slow"), mixCalled("restarts")
	one := aimed("one-way 4, deaf 4, kill 2")
	one.stuck = 900
	back := aimed("kill 6, sick 3, isolate 3")
	silent := aimed("isolate 4, pause 4, one-way 3, noise 2")
	held := aimed("hold 4, sick 3, kill 3")
	held.stuck = 1000
	return []mutant{
		{
			name: "reason 11: silent owners are dropped without a wait", mix: silent, caught: "G1|G4",
			edits: in("ack/leader.member.takeoverRule", "sinceGrant >= in.timing.DeadAfter:", "sinceGrant >= in.timing.DeadAfter || PLANTED && m.isSilent(in):"),
		},
		{
			name: "reason 11: a lease for the old epoch while a commit is in transit", mix: aimed("straggler 1").late(), caught: "G1|G4",
			edits: in("ack/leader.hasRequiredAck", "requiredAck := max(in.state.Committed().Epoch(), submittedCommit)", "requiredAck := max(in.state.Committed().Epoch(), submittedCommit*shardmap.Epoch(1-plantedAs(PLANTED)))"),
		},
		{
			name: "reason 12: a map equal to the committed one ends the round without a proposal", mix: back, caught: "progress",
			edits: in("ack/leader.Leader.reconcile", "	assigned, needed := l.neededMap()\n", "	assigned, needed := l.neededMap()\n	if PLANTED && needed && l.ownRoundCommitted && assigned.stageMap.HasSameOwners(l.in.state.Committed()) {\n		return\n	}\n"),
		},
		{
			name: "reason 13: an epoch already committed is never acknowledged", mix: restarts, caught: "progress",
			edits: in("ack/agent.Follower.ApplyState", "	if last == 0 ||", "	if PLANTED && !state.HasOpenProposal() {\n		return false\n	}\n	if last == 0 ||"),
		},
		{
			name: "reason 14: a live node that does not acknowledge keeps its lease", mix: held, caught: "progress",
			edits: both(in("ack/leader.hasRequiredAck", "	if drop.InForce && !drop.Cause.KeepsLease() && node", "	if !PLANTED && drop.InForce && !drop.Cause.KeepsLease() && node"),
				in("ack/leader.hasRequiredAck", "	return node.heartbeat.Acked >= node.leaseDeniedUntil", "	return PLANTED || node.heartbeat.Acked >= node.leaseDeniedUntil")),
		},
		{
			name: "reason 14: a live node that does not acknowledge is eligible at once", mix: held, caught: "progress",
			edits: in("ack/leader.membership.isEligibleIgnoringFlaps", "case drop.InForce && drop.Cause.MissedRound():", "case !PLANTED && drop.InForce && drop.Cause.MissedRound():"),
		},
		{
			name: "reason 14: the leader waits for a leaving or unhealthy node that does not acknowledge", mix: held, caught: "progress",
			edits: in("ack/leader.membership.denyLateLeases", "			node.leaseDeniedUntil = last.Epoch()\n", "			node.leaseDeniedUntil = last.Epoch() * shardmap.Epoch(1-plantedAs(PLANTED))\n"),
		},
		{
			name: "reason 15: a node that sends heartbeats is eligible without echoes", mix: one, caught: "progress",
			edits: both(in("ack/leader.member.isSilent", "	return in.now-m.lastProofAt() > maxEchoAge(in.pace)", "	if PLANTED && m.hasHeartbeat() {\n		return in.now-m.lastHeartbeatAt > maxEchoAge(in.pace)\n	}\n	return in.now-m.lastProofAt() > maxEchoAge(in.pace)"),
				both(in("ack/leader.member.evaluateEcho", "	if !isFresh {\n", "	if !PLANTED && !isFresh {\n"),
					in("ack/leader.leaseIssuer.mayGrant", "	if node.echoedResponseSentAt < 0 ||", "	if !PLANTED && node.echoedResponseSentAt < 0 ||"))),
		},
		{
			name: "reason 15: an excluded node that receives no answers gets leases", mix: one, caught: "progress",
			edits: both(in("ack/leader.leaseIssuer.mayGrant", "in.now-node.echoedResponseSentAt > in.timing.DeadAfter/2", "!PLANTED && in.now-node.echoedResponseSentAt > in.timing.DeadAfter/2"),
				in("ack/leader.membership.denyLateLeases", "!last.IsMember(owner.ID) && !node.hasCompleteAck(last.Epoch())", "!PLANTED && !last.IsMember(owner.ID) && !node.hasCompleteAck(last.Epoch())")),
		},
		{
			name: "reason 16: a node that never applies the commit stays", mix: held, caught: "progress",
			edits: in("ack/leader.membership.exclusionCause", "if node.behindSince >= 0 &&", "if !PLANTED && node.behindSince >= 0 &&"),
		},
		{
			name: "rule 3: a node that has not acknowledged the committed map is proposed", mix: held, caught: "rule 3",
			edits: in("ack/leader.member.mayJoin", " && m.hasAcked(in.state.Committed().Epoch())\n", " && (PLANTED || m.hasAcked(in.state.Committed().Epoch()))\n"),
		},
		{
			name: "map change: a leader that gets no acknowledgements stays", mix: slow, caught: "map change",
			edits: in("ack/leader.Leader.allMembersMissedDeadline", "return acked == 0 && missed > 0\n", "return !PLANTED && acked == 0 && missed > 0\n"),
		},
		{
			name: "a leader waits forever for an entry that is not applied", mix: stuckLeader(), caught: "progress",
			edits: in("ack/leader.Leader.maySubmit", "		if l.in.now-l.pending.submittedAt > l.in.pace.AckDeadline() {\n", "		if !PLANTED && l.in.now-l.pending.submittedAt > l.in.pace.AckDeadline() {\n"),
		},
		{
			name: "G4: the leader waits for a node that misses the deadline", mix: held, caught: "progress",
			edits: in("ack/leader.membership.missedAckDeadline", "	return in.ownRoundOpen() &&", "	return !PLANTED && in.ownRoundOpen() &&"),
		},
		{
			name: "rule 5: a shard that could be taken earlier is taken later", mix: twoGone(), caught: "G1|G4",
			edits: both(in("ack/leader.Leader.takeovers", "		if rule == \"\"", "		if PLANTED {\n			if rule != \"\" {\n				l.members.getOrCreate(owner.ID).plantedFor = proposed.Epoch()\n			} else if l.members.getOrCreate(owner.ID).plantedFor == proposed.Epoch() {\n				rule = \"once\"\n			}\n		}\n		if rule == \"\""),
				in("ack/leader.member", "type member struct {\n", "type member struct {\n	plantedFor shardmap.Epoch\n")),
		},
		{
			name: "rule 1, the predecessor: the timer of the old round continues", mix: slow, caught: "rule 1",
			edits: in("ack/leader.membership.applyProposal", "	ms.roundStartedAt = in.now\n", "	if !PLANTED || ms.roundStartedAt == 0 {\n		ms.roundStartedAt = in.now\n	}\n"),
		},
		{
			name: "rule 3, the predecessor: a dead node is proposed again", mix: aimed("isolate 4, kill 4"), caught: "G4|rule 3",
			edits: in("ack/leader.membership.isEligibleIgnoringFlaps", "	case drop.InForce || !in.isMember(node.id):\n", "	case PLANTED && node.hasHeartbeat() && drop.InForce:\n		return true\n	case drop.InForce || !in.isMember(node.id):\n"),
		},
		{
			name: "G4: a commit does not wait for its members", mix: slow, caught: "G4",
			edits: in("ack/leader.Leader.tryCommit", "		if !l.members.getOrCreate(member.ID).needsNoFurtherAck(l.in) {\n", "		if !PLANTED && !l.members.getOrCreate(member.ID).needsNoFurtherAck(l.in) {\n"),
		},
		{
			name: "G4: a commit does not wait for owners that it leaves out", mix: aimed("leave 4, sick 4"), caught: "G1|G4",
			edits: in("ack/leader.Leader.takeovers", "		if rule == \"\" {\n", "		if rule == \"\" && !PLANTED {\n"),
		},
		{
			name: "rule 10: without a remaining member, shards have no owner", mix: aimed("leave 4, sick 4"), caught: "rule 10",
			edits: in("ack/leader.assignment.update", "	if len(in.members) > 0 {\n", "	if len(in.members) > 0 || PLANTED {\n"),
		},
		{
			name: "G4: the committed map is proposed again with its dead members", mix: aimed("leave 4, sick 4, kill 4"), caught: "G4",
			edits: in("ack/leader.assignment.update", "	final := in.state.Proposed()\n", "	final := in.state.Proposed()\n	if PLANTED {\n		final = in.state.Committed()\n	}\n"),
		},
	}
}

func mutantsOfLog() []mutant {
	late := mixCalled("leaders").late()
	compact := aimed("compact 4, kill 4, wipe 2, elect 2")
	return []mutant{
		{
			name: "rule 2: a commit counts in any term", mix: aimed("late-commit 1"), caught: "G1|G4",
			edits: in("ack.State.applyCommit", "term != s.proposedTerm ||", "!PLANTED && term != s.proposedTerm ||"),
		},
		{
			name: "rule 2: any commit commits the last proposal", mix: late, caught: "G4",
			edits: in("ack.State.applyCommit", "	if !s.HasOpenProposal() || ", "	if PLANTED && s.HasOpenProposal() {\n		s.committed = s.proposed\n		return s, OutcomeCommitted, nil\n	}\n	if !s.HasOpenProposal() || "),
		},
		{
			name: "rule 2: a proposal counts in any term", mix: aimed("late-commit 1, sick 2, kill 2").late(), caught: "G4|G9",
			edits: in("ack.State.applyProposal", "proposal.Term != term ||", "!PLANTED && proposal.Term != term ||"),
		},
		{
			name: "rule 1: proposes while a commit is in transit", mix: mixCalled("slow").late(), caught: "progress|G9",
			edits: in("ack/leader.Leader.maySubmit", "	if l.pending.exists() {\n", "	if l.pending.exists() && !(PLANTED && l.pending.kind == commitEntry) {\n"),
		},
		{
			name: "rule 4: the proposal of the previous leader remains open", mix: late, caught: "progress",
			edits: in("ack/leader.Leader.mustReplaceProposal", "	if !l.in.ownRoundOpen() {", "	if !PLANTED && !l.in.ownRoundOpen() {"),
		},
		{
			name: "reason 9: the base of a proposal is not checked, and the leader proposes while a commit is in transit", mix: late, caught: "G9|progress",
			edits: both(in("ack.State.applyProposal", "proposal.Base != s.committed.Epoch() ||", "!PLANTED && proposal.Base != s.committed.Epoch() ||"),
				in("ack/leader.Leader.maySubmit", "	if l.pending.exists() &&", "	if !(PLANTED && l.pending.kind == commitEntry) && l.pending.exists() &&")),
		},
		{
			name: "reason 9: ownership epochs follow the last proposal", mix: mixCalled("everything"), caught: "G10",
			edits: in("ack.State.applyProposal", "proposal.Want.WithEpoch(s.committed, epoch)", "proposal.Want.WithEpoch([]*shardmap.Map{s.committed, s.proposed}[plantedAs(PLANTED)], epoch)"),
		},
		{
			name: "rule 8: snapshots forget an open proposal", mix: compact, caught: "G5",
			edits: both(in("ack.writer.writeMaps", "	w.bool(s.HasOpenProposal())\n	if s.HasOpenProposal() {", "	w.bool(!PLANTED && s.HasOpenProposal())\n	if !PLANTED && s.HasOpenProposal() {"), nil),
		},
		{
			name: "rule 8: snapshots forget drops", mix: compact, caught: "G5",
			edits: in("ack.State.MarshalWithRegistry", "	w.writeDrops(s.drops)\n", "	w.writeDrops([]dropRecords{s.drops, nil}[plantedAs(PLANTED)])\n"),
		},
	}
}

func mutantsOfNodes() []mutant {
	silent := aimed("isolate 4, pause 3, one-way 3, deaf 2")
	moves := aimed("leave 4, sick 4, kill 4, join 2")
	wiped := aimed("wipe 6, hold 3, isolate 4, kill 3, elect 3")
	wiped.hosts = [2]int{3, 3}
	return []mutant{
		{
			name: "reason 3: the cut time counts from the lease, not from its grant", mix: silent, caught: "G1",
			edits: in("ack.Timing.AbortDelay", "return t.DeadAfter*85/100 - t.Lease", "if PLANTED {\n		return t.DeadAfter * 95 / 100\n	}\n	return t.DeadAfter*85/100 - t.Lease"),
		},
		{
			name: "reason 3: requests are never cut after the end of the lease", mix: silent, caught: "G1",
			edits: in("ack/agent.Agent.abortAfterLease", "	if !a.holder.AbortDue(now) {\n", "	if PLANTED || !a.holder.AbortDue(now) {\n"),
		},
		{
			name: "reason 11: the lease counts from the arrival of its answer", mix: aimed("noise 4, pause 4, depose 4"), caught: "G1|G2|G4",
			edits: in("ack/agent.LeaseHolder.extendLease", "leaseEnd := sent.sentAt + answer.ServeFor", "leaseEnd := max(sent.sentAt, now*time.Duration(plantedAs(PLANTED))) + answer.ServeFor"),
		},
		{
			name: "reason 11: the node acknowledges before the drain", mix: moves, caught: "G1",
			edits: in("ack/agent.Agent.acknowledgeDrained", "	if a.options.Gate.CountRunning(a.follower.MayRun) > 0 {\n", "	if a.options.Gate.CountRunning(a.follower.MayRun) > 0 && !PLANTED {\n"),
		},
		{
			name: "G3, the predecessor: a proposal routes before it is committed", mix: moves, caught: "G1|G3",
			edits: in("ack.Routing.Route", "	committed := rt.state.Committed()\n", "	committed := rt.state.Committed()\n	if PLANTED {\n		committed = rt.state.Proposed()\n	}\n"),
		},
		{
			name: "requests for moving shards do not wait", mix: moves, caught: "G1",
			edits: in("ack.Routing.Route", "case rt.state.HasOpenProposal() && !rt.state.Proposed()", "case !PLANTED && rt.state.HasOpenProposal() && !rt.state.Proposed()"),
		},
		{
			name: "rule 7: a drain is never cut", mix: mixCalled("slow"), caught: "progress",
			edits: in("ack/agent.Agent.abortOverdue", "	if !a.follower.AbortDue(now) {\n", "	if PLANTED || !a.follower.AbortDue(now) {\n"),
		},
		{name: "the lease is not looked at again before the first byte", mix: aimed("pause 6, isolate 3"), plant: plantOneCheck, caught: "G1|G10"},
		{
			name: "an answer to another boot counts", mix: aimed("late-answers 1"), caught: "G1|G4",
			edits: both(in("ack/agent.Agent.HandleAnswer", "	if answer.Boot != a.holder.Boot() {\n", "	if !PLANTED && answer.Boot != a.holder.Boot() {\n"),
				in("ack/agent.LeaseHolder.HandleAnswer", "answer.Boot != h.boot || ", "!PLANTED && answer.Boot != h.boot || ")),
		},
		{name: "membership: a wiped disk votes under the name of the old one", mix: wiped, plant: plantServerIsNode, caught: "G5|Raft"},
	}
}
