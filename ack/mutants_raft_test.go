package ack_test

import "shardway/ack"

// mutantsOfDisks send a message before the disk has its content, or give a node id to a wrong
// process.
func mutantsOfDisks() []mutant {
	power := aimed("power 8, outage 3, split 6, elect 4, sick 2, disk 1")
	power.hosts, power.gaps[1], power.faults = [2]int{3, 3}, power.gaps[1]/10, [2]int{10, 30}
	doubles := aimed("twin 6, elect 2, depose 2, isolate 2")
	doubles.twins = 100
	strict := doubles.under(ack.TakeoverTimeout)
	pair := aimed("deaf-spare 1")
	pair.hosts, pair.founders, pair.faults = [2]int{2, 2}, 1, [2]int{1, 1}
	return []mutant{
		{name: "membership: a vote is given before it is synced", mix: power, plant: plantVoteNotSynced, caught: "Raft"},
		{name: "membership: entries are acknowledged before they are synced", mix: power, plant: plantLogNotSynced, caught: "G5"},
		{name: "leases: a boot is stated before it is synced", mix: power, plant: plantBootNotSynced, caught: "membership"},
		{name: "membership: a node's name goes to another disk once it is not heard", mix: doubles, plant: plantNameAtOnce, caught: "G1"},
		{
			name: "membership: crash evidence frees a node's name under takeover timeout", mix: strict, caught: "G1",
			edits: in("ack/leader.member.processGone", "m.hasCrashed() && in.timing.Takeover != ack.TakeoverTimeout\n", "m.hasCrashed() && (PLANTED || in.timing.Takeover != ack.TakeoverTimeout)\n"),
		},
		{name: "membership: who was only heard gets a vote", mix: pair, plant: plantHeardVotes, caught: "progress"},
		{
			name: "bootstrap: a cluster is bootstrapped twice", mix: mixCalled("births"), caught: "bootstrap",
			edits: in("ack.State.applyBootstrap", "	if s.Bootstrapped() {\n", "	if s.Bootstrapped() && !PLANTED {\n"),
		},
	}
}
