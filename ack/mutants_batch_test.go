package ack_test

// mutantsOfBatching are faults in how a leader batches changes of the map.
func mutantsOfBatching() []mutant {
	joins := aimed("join 4, sick 4, leave 2, kill 2")
	bootstrapping := *mixCalled("births")
	bootstrapping.stuck = 900
	return []mutant{
		{
			name: "batching: the first map is proposed before all founding nodes are eligible", mix: joins, caught: "first map",
			edits: in("ack/leader.Leader.batchDelay", "if len(want.Members()) < l.expectedNodes() {", "if !PLANTED && len(want.Members()) < l.expectedNodes() {"),
		},
		{
			name: "batching: the first map waits forever for the founding nodes", mix: &bootstrapping, caught: "progress",
			edits: in("ack/leader.Leader.batchDelay", "			return maxBatchDelay\n", "			if PLANTED {\n				return time.Hour\n			}\n			return maxBatchDelay\n"),
		},
		{
			name: "batching: a loss is delayed, too", mix: joins, caught: "batching",
			edits: in("ack/leader.Leader.batchDelay", "	case l.onlyAddsNodes(want):", "	case PLANTED || l.onlyAddsNodes(want):"),
		},
		{
			name: "batching: additions are delayed forever", mix: joins, caught: "progress",
			edits: in("ack/leader.Leader.batchDelay", "		return min(l.maxTiming.DeadAfter/batchFraction, maxBatchDelay)\n", "		if PLANTED {\n			return time.Hour\n		}\n		return min(l.maxTiming.DeadAfter/batchFraction, maxBatchDelay)\n"),
		},
	}
}
