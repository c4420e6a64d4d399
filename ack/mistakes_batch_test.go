package ack_test

// mistakesOfGathering are about what a leader lets wait for more of its kind.
func mistakesOfGathering() []mistake {
	joins := aimed("join 4, sick 4, leave 2, kill 2")
	born := *mixCalled("births")
	born.stuck = 900
	return []mistake{
		{
			name: "gathering: the first map is proposed before all who found the cluster are there", mix: joins, caught: "first map",
			edits: in("ack.Leader.batchDelay", "if len(want.Members()) < l.expectedNodes() {", "if !PLANTED && len(want.Members()) < l.expectedNodes() {"),
		},
		{
			name: "gathering: the first map waits for them for ever", mix: &born, caught: "progress",
			edits: in("ack.Leader.batchDelay", "			return maxBatchDelay\n", "			if PLANTED {\n				return time.Hour\n			}\n			return maxBatchDelay\n"),
		},
		{
			name: "gathering: a loss is gathered too", mix: joins, caught: "gathering",
			edits: in("ack.Leader.batchDelay", "	case l.onlyAddsNodes(want):", "	case PLANTED || l.onlyAddsNodes(want):"),
		},
		{
			name: "gathering: additions are gathered for ever", mix: joins, caught: "progress",
			edits: in("ack.Leader.batchDelay", "		return min(l.maxTiming.DeadAfter/batchFraction, maxBatchDelay)\n", "		if PLANTED {\n			return time.Hour\n		}\n		return min(l.maxTiming.DeadAfter/batchFraction, maxBatchDelay)\n"),
		},
	}
}
