package history

// History contains all observations of a test, with the times of one clock. The order
// within its slices has no meaning.
type History struct {
	Responses  []Response
	Followers  []Follower
	Runs       []Run
	Admissions []Admission
	// Maps are the committed shard maps that were observed.
	Maps []Map
	// Faults are the faults that the test injected.
	Faults []Fault
	// CPUWaits are the periods in which threads of nodes waited for a processor.
	CPUWaits []CPUWait
	// Drains and Cordons are the requests of operators. A drain is an excuse for a map
	// without that node. Neither of them excuses anything else.
	Drains  []Drain
	Cordons []Cordon
	// VoterSince contains, for each node that joined a running cluster, the time at which it got
	// its vote. Before that time, the node does not count for a majority. A node without an entry
	// always counts.
	VoterSince map[string]int64
}

// Check checks the observations of a test against the rules.
func Check(history History, rules Rules) *Report {
	rules = rules.withDefaults()
	report := &Report{
		Requests: len(history.Responses), Runs: len(history.Runs),
		ExcusedFailures: make(map[string]int), OverlapsByShard: make(map[uint32]int),
	}
	// Lookup tables.
	maps := newMapTimeline(history.Maps)
	runs := newRunIndex(&history, &rules)
	faults := newFaultTimeline(history.Faults, &rules)
	ingressNodes := ingressNodesByRequest(&history, &rules)
	owners := &shardOwners{maps: maps, runs: runs}
	majority := newMajority(maps, history.VoterSince, faults, &rules)
	report.Shards, report.StalledTime = len(runs.byShard), faults.stalledTime(history.Responses)

	ownership := &ownershipChecker{
		rules: &rules, report: report, allRuns: runs, faults: faults, waits: &cpuWaits{all: history.CPUWaits, rules: &rules},
		ingressNodes: ingressNodes, excusedOverlaps: make(map[string]bool),
	}
	excuses := &failureExcuses{
		rules: &rules, runs: runs, maps: maps, owners: owners, faults: faults, majority: majority, ingressNodes: ingressNodes,
	}
	responses := &responseChecker{
		rules: &rules, report: report, runs: runs, faults: faults, excuses: excuses, maps: maps, ownership: ownership,
	}
	exclusions := &exclusionChecker{rules: &rules, report: report, maps: maps, drains: history.Drains, faults: faults, majority: majority}
	placement := &placementChecker{
		rules: &rules, report: report, maps: maps, drains: history.Drains, cordons: history.Cordons, faults: faults,
	}
	streams := &streamChecker{
		rules: &rules, report: report, runs: runs, owners: owners, faults: faults, majority: majority, responses: responses,
	}
	headers := &runChecker{rules: &rules, report: report, runs: runs, ingressNodes: ingressNodes}
	instances := &instanceChecker{rules: &rules, report: report, maps: maps, drains: history.Drains, exclusions: exclusions}

	ownership.check(history.Admissions) // fills excusedOverlaps for the responses
	exclusions.check()
	placement.check()
	instances.check()
	responses.check(history.Responses)
	streams.check(history.Followers)
	headers.check(history.Runs)
	return report
}

// ingressNodesByRequest returns the node that received the last attempt of each request, by request
// ID.
func ingressNodesByRequest(history *History, rules *Rules) map[string]string {
	nodes := make(map[string]string, len(history.Responses))
	for i := range history.Responses {
		resp := &history.Responses[i]
		nodes[resp.ID] = rules.node(resp.lastAttempt().Target)
	}
	for _, follower := range history.Followers {
		for _, conn := range follower.Conns {
			nodes[conn.ID] = rules.node(conn.Target)
		}
	}
	return nodes
}
