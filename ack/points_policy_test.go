package ack_test

// pointsOfPolicy are those of docs/protocol.md, "What operators ask".
func pointsOfPolicy() []point {
	return []point{
		{of: "policy", clause: "a change counts in the term of the leader that was asked", planted: []string{"policy: a change of an earlier term counts"}},
		{of: "policy", clause: "and enters the log when the entry before it has come to something", planted: []string{"policy: a change enters the log beside a proposal"}},
		{of: "policy", clause: "it decides where shards go, never who may serve", planted: []string{"policy: it grants a lease"}},
		{of: "policy", clause: "who is drained is no member", planted: []string{"policy: who is drained counts as a member, and nobody else is left"}},
		{
			of: "policy", clause: "and is no dead one for that, after an election",
			explained: "TestDrainThroughAnElectionDropsNobody: it costs the requests that were forwarded to it, which the simulation does not have.",
		},
		{of: "policy", clause: "what is lost is placed during a pause", planted: []string{"policy: a pause holds up a loss"}},
		{of: "policy", clause: "a pause is counted anew after an election", planted: []string{"policy: a new leader counts a pause from before its election"}},
		{of: "policy", clause: "and when it is asked for again", planted: []string{"policy: a pause asked for again is not counted anew"}},
		{of: "policy", clause: "no pin to a zone moves shards while it is not known who stands where", planted: []string{"policy: what is pinned to a zone moves while its node has not been heard"}},
		{of: "policy", clause: "snapshots have it", planted: []string{"rule 8: snapshots forget the policy"}},
		{
			of: "policy", clause: "drains, cordons and pauses do not outlive the cluster",
			explained: "Recovery is no part of the simulation. TestOnlyPinsAndWeightsOutliveTheCluster, and TestDrainedSurvivorOwnsEverythingAfterRecovery for rule 10.",
		},
		{of: "policy", clause: "it is bounded", explained: "TestPolicyIsBounded."},
		{
			of: "policy", clause: "no entry of it is one that a node could not read",
			explained: "Whoever asks in the simulation asks for what there is. TestChangesThatCannotBeReadAreRefused.",
		},
		{
			of: "policy", clause: "a quarantine ends as a pause does, and outlives the cluster",
			explained: "No map and no lease goes by it, so the simulation would see nothing. TestQuarantineEndsByItself, TestQuarantineOutlivesTheCluster.",
		},
	}
}
