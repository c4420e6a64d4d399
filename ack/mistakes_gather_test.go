package ack_test

// mistakesOfGathering are about what a leader lets wait for more of its kind.
func mistakesOfGathering() []mistake {
	joins := aimed("join 4, sick 4, leave 2, kill 2")
	born := *mixCalled("births")
	born.stuck = 900
	return []mistake{
		{
			name: "gathering: the first map is proposed before all who found the cluster are there", mix: joins, caught: "first map",
			edits: in("ack.Leader.gathering", "if len(want.Members()) < l.expected() {", "if !PLANTED && len(want.Members()) < l.expected() {"),
		},
		{
			name: "gathering: the first map waits for them for ever", mix: &born, caught: "progress",
			edits: in("ack.Leader.gathering", "			return firstWait\n", "			if PLANTED {\n				return time.Hour\n			}\n			return firstWait\n"),
		},
		{
			name: "gathering: a loss is gathered too", mix: joins, caught: "gathering",
			edits: in("ack.Leader.gathering", "	case l.adds(want):", "	case PLANTED || l.adds(want):"),
		},
		{
			name: "gathering: additions are gathered for ever", mix: joins, caught: "progress",
			edits: in("ack.Leader.gathering", "		return min(l.t.DeadAfter/gatherShare, firstWait)\n", "		if PLANTED {\n			return time.Hour\n		}\n		return min(l.t.DeadAfter/gatherShare, firstWait)\n"),
		},
	}
}
