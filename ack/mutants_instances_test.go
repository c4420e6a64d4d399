package ack_test

// mutantsOfInstances are faults in how a shard moves between two app instances of one node.
func mutantsOfInstances() []mutant {
	const faults = "instance-hang 8, instance-sick 6, instance-die 4"
	several := func(list string) *simMix {
		m := aimed(list)
		m.instances = 100
		return m
	}
	withHooks := func() *simMix {
		m := several(faults)
		m.hooks = 100
		return m
	}
	withCaches := func(list string) *simMix {
		m := several(list)
		m.caches = 100
		return m
	}
	const lists = "instance-list 10, instance-drain 6, instance-die 3, kill 2, elect 2"
	const drains = "instance-drain 8, instance-die 5, instance-hang 3, leave 2, policy 3, elect 4"
	return []mutant{
		{
			name: "instances: a shard is served while it moves to a sibling", mix: several(faults), caught: "G1|G10",
			edits: in("ack.Routing.Route", "!rt.state.Proposed().HasSameOwner(committed, shard):", "(PLANTED && rt.state.Proposed().Owner(shard) != owner || !PLANTED && !rt.state.Proposed().HasSameOwner(committed, shard)):"),
		},
		{
			name: "instances: a node acknowledges before the old instance has drained", mix: several(faults), caught: "G1",
			edits: in("ack/agent.Follower.WillOwn", "!movesWithinNode(committed, proposed, shard)", "(PLANTED || !movesWithinNode(committed, proposed, shard))"),
		},
		{
			name: "instances: the old instance does not release a shard", mix: withHooks(), caught: "hooks",
			edits: in("ack/agent.hookMachine.isMoving", "|| movesWithinNode(committed, proposed, shard)", "|| !PLANTED && movesWithinNode(committed, proposed, shard)"),
		},
		{
			name: "instances: hook calls go to the first instance", mix: withHooks(), caught: "hooks",
			edits: in("ack/agent.hookMachine.startCallsOf", "		instance := m.shards[shards[0]].instance\n", "		instance := m.shards[shards[0]].instance\n		if PLANTED {\n			instance = 0\n		}\n"),
		},
		{
			name: "instances: the release of an instance does not reach its sibling", mix: withHooks(), caught: "hooks",
			edits: in("ack/leader.memberTracker.nextServer", "nextOwner == \"\" ||", "nextOwner == \"\" || PLANTED && nextOwner == owner ||"),
		},
		{
			name: "instances: departures belong to the first instance", mix: withCaches(faults + ", leave 3, join 2"), caught: "returns|G9",
			edits: in("ack.departures.recordMoves", "		from := shardmap.InstanceID(move.From, move.FromInstance)\n", "		from := shardmap.InstanceID(move.From, move.FromInstance*shardmap.Instance(1-plantedAs(PLANTED)))\n"),
		},
		{
			name: "instances: the log has no report of further instances", mix: withCaches(faults + ", leave 3, join 2"), caught: "returns",
			edits: in("ack/leader.memberTracker.newAppReports", "			if in.state.NeedsAppReport(report) {\n", "			if in.state.NeedsAppReport(report) && !(PLANTED && i > 0) {\n"),
		},
		{
			name: "instances: previous owners are nodes", mix: withHooks(), caught: "hooks",
			edits: in("ack.previousOwners.withCommit", "owners[move.Shard] = shardmap.InstanceID(move.From, move.FromInstance)\n", "owners[move.Shard] = shardmap.InstanceID(move.From, move.FromInstance*shardmap.Instance(1-plantedAs(PLANTED)))\n"),
		},
		{
			name: "instances: an instance that is not configured may own shards", mix: several(lists), caught: "instances",
			edits: in("ack/agent.InstanceSelector.mayOwnShards", "case check.Absent:", "case check.Absent && !PLANTED:"),
		},
		{
			name: "instances: shards move to drained instances", mix: several(lists), caught: "instances",
			edits: in("ack.Policy.Placement", "Drained: p.Drained, GraduallyDrained", "Drained: map[bool]map[shardmap.NodeID]bool{false: p.Drained}[PLANTED], GraduallyDrained"),
		},
		{
			name: "instances: shards of a failed instance wait at a drained node", mix: several(drains), caught: "G9",
			edits: in("ack/leader.assignment.withFailedShards", "			if !a.hasFailed(", "			if PLANTED || !a.hasFailed("),
		},
		{
			name: "instances: a node with a drained first instance counts as drained after an election", mix: several(drains), caught: "G9|staging",
			edits: in("ack/leader.member.healthyInstances", "	if m.hasHeartbeat() && !in.isRestarting(m) {\n", "	if PLANTED || m.hasHeartbeat() && !in.isRestarting(m) {\n"),
		},
		{
			name: "instances: drained instances count as failed after an election", mix: several(drains), caught: "G9|staging",
			edits: in("ack/leader.member.healthyInstances", "isNamed && node == m.id {", "!PLANTED && isNamed && node == m.id {"),
		},
		{
			name: "instances: moves within a node count as idle after an election", mix: several(faults + ", policy 10, elect 6, depose 3"), caught: "gradual drain",
			edits: in("ack/leader.isGradualMove", "|| move.IsWithinNode() ||", "|| !PLANTED && move.IsWithinNode() ||"),
		},
	}
}

// pointsOfInstances are those of docs/internals/protocol-instances.md.
func pointsOfInstances() []point {
	return []point{
		{of: "instances", clause: "requests go only to the instance of both maps", planted: []string{"instances: a shard is served while it moves to a sibling"}},
		{of: "instances", clause: "a node drains the old instance before it acknowledges", planted: []string{"instances: a node acknowledges before the old instance has drained"}},
		{of: "instances", clause: "hooks go to the instance that holds the shard", planted: []string{"instances: the old instance does not release a shard", "instances: hook calls go to the first instance"}},
		{of: "instances", clause: "a sibling gets the release", planted: []string{"instances: the release of an instance does not reach its sibling", "instances: previous owners are nodes"}},
		{of: "instances", clause: "a shard returns to no instance that it has left", planted: []string{"instances: departures belong to the first instance", "instances: the log has no report of further instances"}},
		{of: "instances", clause: "an address that is not configured gets no shards", planted: []string{"instances: an instance that is not configured may own shards"}},
		{of: "instances", clause: "a drained instance gets no shards", planted: []string{"instances: shards move to drained instances"}},
		{of: "instances", clause: "shards of a failed instance do not wait for a stage", planted: []string{"instances: shards of a failed instance wait at a drained node"}},
		{
			of: "instances", clause: "a new leader counts no instance as failed or drained before a heartbeat",
			planted: []string{"instances: a node with a drained first instance counts as drained after an election", "instances: drained instances count as failed after an election"},
		},
		{of: "instances", clause: "a move within a node is no gradual move", planted: []string{"instances: moves within a node count as idle after an election"}},
		{
			of: "instances", clause: "a restart in place keeps the instances",
			explained: "Assign keeps them, and the leader also requires the acknowledgement for any other map. TestInstancesStayEvenOverManyChanges and the mix instances check both.",
		},
		{
			of: "instances", clause: "an instance without a healthy sibling keeps its shards",
			explained: "It saves moves, and has no other effect: TestInstanceWithoutAHealthySiblingKeepsItsShards.",
		},
	}
}
