package ack_test

// pointsOfPolicy are those of docs/internals/protocol-settings.md, "What operators ask".
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
			of: "policy", clause: "of a node that is being emptied only what it has said to be idle moves, by the map that routes",
			planted: []string{"emptying: what is busy moves at once", "emptying: what was idle by an earlier map moves"},
		},
		{of: "policy", clause: "a new leader goes by what the open round takes: it was idle", planted: []string{"emptying: a new leader does not go by the open round"}},
		{of: "policy", clause: "a round goes by what was idle as it began", planted: []string{"emptying: a round is replaced when something else is idle"}},
		{
			of: "policy", clause: "the rest moves when the time is over that a leader counts as that of a pause",
			planted: []string{
				"emptying: a new leader counts one from before its election", "emptying: one asked for again is not counted anew", "emptying: it never ends",
			},
		},
		{of: "policy", clause: "snapshots have that, too", planted: []string{"rule 8: snapshots forget who is being emptied"}},
		{of: "policy", clause: "without anybody else the last map stays", planted: []string{"emptying: who is being emptied counts as one who is left"}},
		{of: "stages", clause: "a map takes from a live owner what that says to be idle", planted: []string{"staging: a busy shard moves with the idle ones"}},
		{of: "stages", clause: "all of that", planted: []string{"staging: an idle shard never moves before drain-timeout"}},
		{of: "stages", clause: "by the map that routes", planted: []string{"staging: what was idle by an earlier map moves"}},
		{of: "stages", clause: "an answer counts beside another entry", planted: []string{"staging: an answer that comes beside another entry is dropped"}},
		{of: "stages", clause: "and for one change", planted: []string{"staging: answers count in the next change"}},
		{of: "stages", clause: "busy shards wait for drain-timeout", planted: []string{"staging: busy shards move after the first map"}},
		{of: "stages", clause: "and no longer", planted: []string{"staging: a stage never ends"}},
		{of: "stages", clause: "what is lost waits for no answer", planted: []string{"staging: the shards of a dead owner wait for an answer"}},
		{of: "stages", clause: "with rebalance mode stop-the-world there is one map", planted: []string{"staging: each map of several pauses the cluster"}},
		{
			of: "stages", clause: "a round goes on without a shard whose request began after the answer",
			explained: "TestRoundGoesOnWithoutAShardThatHoldsItUp: otherwise the round lasts for drain-timeout, and breaks nothing.",
		},
		{of: "stages", clause: "a silent owner has all shards moved", explained: "TestSilentOwnerHasAllShardsMovedAtOnce."},
		{
			of: "policy", clause: "a quarantine ends as a pause does",
			planted: []string{
				"quarantine: a new leader counts one from before its election", "quarantine: one asked for again is not counted anew",
				"quarantine: one without an end ends", "quarantine: none ends by itself", "quarantine: it is lifted by who has the same hash key alone",
			},
		},
		{of: "policy", clause: "each node refuses what its log says", planted: []string{"rule 8: snapshots forget quarantines"}},
		{
			of: "policy", clause: "a quarantine outlives the cluster",
			explained: "Recovery is no part of the simulation. TestQuarantineOutlivesTheCluster.",
		},
	}
}
