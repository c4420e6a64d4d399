package ack_test

// pointsOfPolicy are those of docs/internals/protocol-policy.md, "Operator policy".
func pointsOfPolicy() []point {
	return []point{
		{of: "policy", clause: "a change counts in the term of the leader that received it", planted: []string{"policy: a change of an earlier term counts"}},
		{of: "policy", clause: "and enters the log after the previous entry has an outcome", planted: []string{"policy: a change enters the log while a proposal is in transit"}},
		{of: "policy", clause: "it decides where shards go, never who may serve", planted: []string{"policy: a policy grants a lease"}},
		{of: "policy", clause: "a drained node is no member", planted: []string{"policy: a drained node counts as a member, and no other node remains"}},
		{
			of: "policy", clause: "and does not count as dead after an election",
			explained: "TestDrainThroughAnElectionDropsNoNode: it costs the requests that were forwarded to the node, and the simulation forwards none.",
		},
		{of: "policy", clause: "lost shards are placed during a pause", planted: []string{"policy: a pause delays the map after a loss"}},
		{of: "policy", clause: "a pause starts again after an election", planted: []string{"policy: a new leader counts a pause from before its election"}},
		{of: "policy", clause: "and when it is requested again", planted: []string{"policy: a repeated pause does not start again"}},
		{of: "policy", clause: "no pin to a zone moves shards while zones of nodes are unknown", planted: []string{"policy: a shard pinned to a zone moves before its node has sent a heartbeat"}},
		{of: "policy", clause: "snapshots contain it", planted: []string{"rule 8: snapshots forget the policy"}},
		{
			of: "policy", clause: "drains, cordons and pauses do not outlive the cluster",
			explained: "The simulation has no recovery. TestOnlyPinsAndWeightsOutliveTheCluster, and TestDrainedSurvivorOwnsEverythingAfterRecovery for rule 10.",
		},
		{of: "policy", clause: "it is bounded", explained: "TestPolicyIsBounded."},
		{
			of: "policy", clause: "every entry of it can be decoded by a node",
			explained: "The simulation requests only valid changes. TestChangesThatCannotBeReadAreRefused.",
		},
		{
			of: "policy", clause: "a gradual drain moves only shards that the node reported as idle, in the committed map",
			planted: []string{"gradual drain: a busy shard moves at once", "gradual drain: a shard that was idle in an earlier map moves"},
		},
		{of: "policy", clause: "a new leader treats the shards of the open round as idle", planted: []string{"gradual drain: a new leader ignores the open round"}},
		{of: "policy", clause: "a round uses the shards that were idle at its begin", planted: []string{"gradual drain: a round is replaced when another shard is idle"}},
		{
			of: "policy", clause: "the remaining shards move at the end of a time that a leader counts like that of a pause",
			planted: []string{
				"gradual drain: a new leader counts the time before its election", "gradual drain: a repeated drain does not start again", "gradual drain: a drain never ends",
			},
		},
		{of: "policy", clause: "snapshots contain gradual drains, too", planted: []string{"rule 8: snapshots forget gradual drains"}},
		{
			of: "policy", clause: "a node that is marked as failed gets no shards, also while it restarts in place",
			planted: []string{"mark-failed: a marked node gets shards", "mark-failed: a restart in place keeps the shards of a marked node"},
		},
		{
			of: "policy", clause: "a drain does not leave it shards",
			planted: []string{"mark-failed: a marked node that drains keeps busy shards", "mark-failed: a marked node that drains safely keeps shards"},
		},
		{of: "policy", clause: "its shards are taken by the rules for other nodes", planted: []string{"mark-failed: the shards of a marked node are taken during its lease"}},
		{
			of: "policy", clause: "a mark ends the time that an open round gives a draining node",
			explained: "Without it, the round ends later and is as safe. TestMarkEndsTheWaitForADrainingNode.",
		},
		{of: "policy", clause: "snapshots contain marks", planted: []string{"rule 8: snapshots forget marks"}},
		{of: "policy", clause: "and reasons", planted: []string{"rule 8: snapshots forget reasons"}},
		{of: "policy", clause: "without another member the last map stays", planted: []string{"gradual drain: a draining node counts as a remaining member"}},
		{of: "staging", clause: "a map takes from a live owner the shards that it reports as idle", planted: []string{"staging: a busy shard moves with the idle ones"}},
		{of: "staging", clause: "all idle shards", planted: []string{"staging: an idle shard never moves before drain-timeout"}},
		{of: "staging", clause: "in the committed map", planted: []string{"staging: a shard that was idle in an earlier map moves"}},
		{of: "staging", clause: "an answer counts during another entry", planted: []string{"staging: an answer that arrives during another entry is dropped"}},
		{of: "staging", clause: "and for one change only", planted: []string{"staging: answers count for the next change"}},
		{of: "staging", clause: "busy shards wait for drain-timeout", planted: []string{"staging: busy shards move after the first map"}},
		{of: "staging", clause: "for up to drain-timeout", planted: []string{"staging: a stage never ends"}},
		{of: "staging", clause: "lost shards wait for no answer", planted: []string{"staging: the shards of a dead owner wait for an answer"}},
		{of: "staging", clause: "with rebalance mode stop-the-world, there is one map", planted: []string{"staging: each map of several pauses the cluster"}},
		{
			of: "staging", clause: "a round continues without a shard whose request began after the answer",
			explained: "TestRoundGoesOnWithoutAShardThatHoldsItUp: without the rule, the round lasts for drain-timeout, which violates no guarantee.",
		},
		{of: "staging", clause: "a silent owner has all shards moved", explained: "TestSilentOwnerHasAllShardsMovedAtOnce."},
		{
			of: "policy", clause: "a quarantine ends as a pause does",
			planted: []string{
				"quarantine: a new leader counts the time before its election", "quarantine: a repeated quarantine does not start again",
				"quarantine: an unlimited quarantine ends", "quarantine: no quarantine ends automatically", "quarantine: another key with the same hash lifts a quarantine",
			},
		},
		{of: "policy", clause: "each node refuses the keys that its log names", planted: []string{"rule 8: snapshots forget quarantines"}},
		{
			of: "policy", clause: "a quarantine outlives the cluster",
			explained: "The simulation has no recovery. TestQuarantineOutlivesTheCluster.",
		},
	}
}
