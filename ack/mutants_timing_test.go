package ack_test

import "time"

// retimes is aimed at changes of the timing.
func retimes(list string) *simMix {
	m := aimed(list)
	m.gaps[1] = 4 * time.Second
	return m
}

// mutantsOfTiming let a node serve by one timing while the leader waits by another.
func mutantsOfTiming() []mutant {
	cut := retimes("retime-cut 6, isolate 2")
	pausing := aimed("elect 4, sick 4, kill 3, hold 2, laggard 2")
	pausing.pauses = 1000
	return []mutant{
		{
			name: "stop-the-world: only requests for moving shards wait", mix: pausing, caught: "G11",
			edits: in("ack.stopsAllRequests", "	if state.HasOpenProposal() {\n", "	if !PLANTED && state.HasOpenProposal() {\n"),
		},
		{
			name: "stop-the-world: a map of any leader ends the pause", mix: pausing, caught: "G11",
			edits: in("ack.stopsAllRequests", "leaseTerm == state.ProposedTerm()\n", "(PLANTED || leaseTerm == state.ProposedTerm())\n"),
		},
		{
			name: "stop-the-world: a lease of another leader does not end the pause", mix: pausing, caught: "G11|progress",
			edits: in("ack/agent.Agent.publishLease", " || termChanged && a.stopsTheWorld() {", " || !PLANTED && termChanged && a.stopsTheWorld() {"),
		},
		{
			name: "timing: a leader grants by a timing that is not committed", mix: retimes("retime-lost 4"), caught: "G1|G2",
			edits: both(in("ack/leader.Leader.ChangeTiming", "	return ack.EncodeTiming(", "	l.timings.planted = timing\n	return ack.EncodeTiming("),
				both(in("ack/leader.timingTracker.grantTiming", "	return state.Timing()\n", "	if PLANTED && tt.planted != (ack.Timing{}) {\n		return tt.planted\n	}\n	return state.Timing()\n"),
					in("ack/leader.timingTracker", "type timingTracker struct {\n", "type timingTracker struct {\n	planted ack.Timing\n"))),
		},
		{
			name: "timing: a leader waits by the timing in force, though it is shorter", mix: cut, caught: "G1",
			edits: in("ack/leader.timingTracker.waitTiming", "	if tt.transitionRemaining(now, state) > 0 {\n", "	if !PLANTED && tt.transitionRemaining(now, state) > 0 {\n"),
		},
		{
			name: "timing: of two takeover policies, the one in force counts alone", mix: retimes("retime-takeover 1"), caught: "G1",
			edits: in("ack.Timing.Longer", "	if other.Takeover.strictness() > t.Takeover.strictness() {\n", "	if !PLANTED && other.Takeover.strictness() > t.Takeover.strictness() {\n"),
		},
		{
			name: "timing: changes follow each other at once", mix: cut, caught: "G1",
			edits: in("ack/leader.Leader.ChangeTiming", "	if wait := l.timings.transitionRemaining(now, l.in.state); wait > 0 {\n", "	if wait := l.timings.transitionRemaining(now, l.in.state); wait > 0 && !PLANTED {\n"),
		},
		{
			name: "timing: two changes replace the same one", mix: cut, caught: "G1",
			edits: in("ack.State.applyTiming", "entry.Replaces != s.timingIndex", "!PLANTED && entry.Replaces != s.timingIndex"),
		},
		{
			name: "timing: a new leader counts the time before its election", mix: cut, caught: "G1",
			edits: in("ack/leader.New", "changeSeenAt: now}", "changeSeenAt: now - time.Duration(plantedAs(PLANTED))*time.Hour}"),
		},
		{
			name: "timing: a leader waits and grants by its flags", mix: retimes("isolate 4, depose 4, elect 2, pause 2"), caught: "G1|G2|G4",
			edits: in("ack/leader.timingTracker.grantTiming", "	if !state.Bootstrapped() {\n", "	if PLANTED || !state.Bootstrapped() {\n"),
		},
		{
			name: "timing: a node obeys its flags", mix: retimes("isolate 4, pause 3, one-way 3, deaf 2"), caught: "G1",
			edits: in("ack/agent.LeaseHolder.extendLease", "		h.abortAt, h.leaseLength = sent.sentAt+answer.AbortAfter, answer.LeaseDuration\n", "		h.abortAt, h.leaseLength = sent.sentAt+answer.AbortAfter, answer.LeaseDuration\n		if PLANTED {\n			h.abortAt = leaseEnd + ack.DefaultTiming().AbortDelay()\n		}\n"),
		},
		{
			name: "rule 8: snapshots forget the previous timing", mix: retimes("retime-cut 6, compact 4, kill 4, wipe 2"), caught: "G5",
			edits: in("ack.State.MarshalWithRegistry", "		w.writeTiming(s.previousTiming)\n", "		w.writeTiming([]Timing{s.previousTiming, s.timing}[plantedAs(PLANTED)])\n"),
		},
	}
}
