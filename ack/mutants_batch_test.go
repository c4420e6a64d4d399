package ack_test

// mutantsOfBatching are faults in how a leader batches changes of the map.
func mutantsOfBatching() []mutant {
	joins := aimed("join 4, sick 4, leave 2, kill 2")
	bootstrapping := *mixCalled("births")
	bootstrapping.stuck = 900
	return []mutant{
		{
			name: "batching: the first map is proposed before all founding nodes are eligible", mix: joins, caught: "first map",
			edits: in("ack/leader.Leader.batchDelay", "if len(want.Members()) < l.members.expectedOwners(l.options.BootstrapExpect) {", "if !PLANTED && len(want.Members()) < l.members.expectedOwners(l.options.BootstrapExpect) {"),
		},
		{
			name: "batching: the first map waits forever for the founding nodes", mix: &bootstrapping, caught: "progress",
			edits: in("ack/leader.Leader.batchDelay", "			return maxBatchDelay\n", "			if PLANTED {\n				return time.Hour\n			}\n			return maxBatchDelay\n"),
		},
		{
			name: "batching: a loss is delayed, too", mix: joins, caught: "batching",
			edits: in("ack/leader.Leader.batchDelay", "	case onlyAddsNodes(l.in, want):", "	case PLANTED || onlyAddsNodes(l.in, want):"),
		},
		{
			name: "batching: additions are delayed forever", mix: joins, caught: "progress",
			edits: in("ack/leader.Leader.batchDelay", "		return min(l.in.timing.DeadAfter/batchFraction, maxBatchDelay)\n", "		if PLANTED {\n			return time.Hour\n		}\n		return min(l.in.timing.DeadAfter/batchFraction, maxBatchDelay)\n"),
		},
	}
}
