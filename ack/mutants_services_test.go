package ack_test

// mutantsOfServices are faults in how several services share the map.
func mutantsOfServices() []mutant {
	of := func(list string) *simMix {
		m := aimed(list)
		m.services = 100
		return m
	}
	withHooks := func(list string) *simMix {
		m := of(list)
		m.hooks = 100
		return m
	}
	const lists = "service-add 10, service-list 8, service-retire 6, service-remove 6, kill 3, elect 3"
	const health = "service-add 8, service-list 4, instance-sick 10, instance-die 6, restart 3, elect 2"
	return []mutant{
		{
			name: "services: a service is removed while its shards have owners", mix: of(lists), caught: "services",
			edits: in("ack.State.isServiceInUse", "		if s.committed.Owner(shard)", "		if !PLANTED && s.committed.Owner(shard)"),
		},
		{
			name: "services: the proposed map does not count for a removal", mix: of(lists), caught: "services",
			edits: in("ack.State.isServiceInUse", "|| s.proposed.Owner(shard) != \"\"", "|| !PLANTED && s.proposed.Owner(shard) != \"\""),
		},
		{
			name: "services: an ID is used again", mix: of(lists), caught: "services|panic",
			edits: in("ack.serviceList.with", "	l.lastID++\n", "	l.lastID++\n	if PLANTED {\n		l.lastID = uint64(len(l.services)) + 1\n	}\n"),
		},
		{
			name: "services: the report about one service counts for another one", mix: of(lists), caught: "services",
			edits: in("ack.Heartbeat.ServiceReport", "return report.ID == service.ID }", "return report.ID == service.ID || PLANTED }"),
		},
		{
			name: "services: a node gets shards of a service that it does not run", mix: of(lists), caught: "services",
			edits: in("ack/leader.serviceRunners.instancesOf", "	return report.Instances, runs\n", "	return report.Instances, runs || PLANTED\n"),
		},
		{
			name: "services: a new leader takes shards from nodes without a heartbeat", mix: of("service-add 6, elect 10, depose 6, one-way 4, hold 3"), caught: "services",
			edits: in("ack/leader.serviceRunners.instancesOf", "		return instances, runs\n", "		return instances, runs && !PLANTED\n"),
		},
		{
			name: "services: a map with several instances precedes the list", mix: of("elect 10, depose 8, isolate 6, kill 4"), caught: "services",
			edits: in("ack/leader.policyQueue.addServiceList", "	if len(q.requests) > 0 ||", "	if PLANTED || len(q.requests) > 0 ||"),
		},
		{
			name: "services: a restarting node gets a shard of a new service without its acknowledgement", mix: of("service-add 12, restart 10, elect 6, service-list 6"), caught: "G4",
			edits: in("ack/leader.sameShards", "shardmap.Shard(proposed.Len())", "shardmap.Shard([]int{proposed.Len(), committed.Len()}[plantedAs(PLANTED)])"),
		},
		{
			name: "services: a longer map forgets what the app has acquired", mix: withHooks(lists), caught: "hooks",
			edits: in("ack/agent.hookMachine.allocateShards", "		m.shards = append(m.shards, make([]heldShard, missing)...)\n", "		m.shards = append(m.shards, make([]heldShard, missing)...)\n		if PLANTED {\n			m.shards = make([]heldShard, len(m.shards))\n		}\n"),
		},
		{
			name: "services: a hook call counts its shards in the map", mix: withHooks(lists), caught: "services",
			edits: in("ack/agent.heldShard.setService", "	if !state.HasServices() {\n", "	if PLANTED || !state.HasServices() {\n"),
		},
		{
			name: "services: an unhealthy app gets its first shards of a service", mix: of(health), caught: "services",
			edits: in("ack/leader.serviceRunners.placement", "excluded, _ := sr.excludes(in, node, service); excluded {", "excluded, _ := sr.excludes(in, node, service); excluded && !PLANTED {"),
		},
		{
			name: "services: a service is added before all nodes have loaded it", mix: of("keys 12, elect 3, kill 2"), caught: "services",
			edits: in("ack/leader.keyConfigChange.missingServices", "!c.isLoadedByAll(in, nodes, membership)", "!PLANTED && !c.isLoadedByAll(in, nodes, membership)"),
		},
		{
			name: "services: routes become active before their service exists", mix: of("keys 12, elect 3, kill 2"), caught: "keys",
			edits: append(in("ack/leader.policyQueue.addLoadedServices", "	if len(q.requests) > 0 {", "	if PLANTED || len(q.requests) > 0 {"),
				in("ack/leader.keyConfigChange.configToActivate", "|| c.lacksService(in):", "|| !PLANTED && c.lacksService(in):")...),
		},
		{
			name: "services: a service moves although most of its apps are unhealthy", mix: of(health), caught: "health",
			edits: in("ack/leader.serviceRunners.excludes", "health.excludes(app), runs", "(health.excludes(app) || PLANTED && app.unhealthy), runs"),
		},
	}
}
