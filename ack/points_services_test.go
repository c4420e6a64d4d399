package ack_test

// pointsOfServices are those of docs/internals/protocol-services.md.
func pointsOfServices() []point {
	return []point{
		{
			of: "services", clause: "a service is removed only if none of its shards has an owner, in the committed and in the proposed map",
			planted: []string{"services: a service is removed while its shards have owners", "services: the proposed map does not count for a removal"},
		},
		{of: "services", clause: "the leader also refuses it while a node runs the service", explained: "It protects the operator, and no guarantee depends on it. TestServiceIsRemovedAfterItsNodes."},
		{of: "services", clause: "the ID of a service is never used again", planted: []string{"services: an ID is used again"}},
		{of: "services", clause: "all nodes have the same ranges, which do not overlap", explained: "The simulation removes services too rarely in the order that leaves a gap. FuzzServiceChanges checks it, and TestServicesGetTheLowestFreeRange."},
		{of: "services", clause: "a removed service leaves only departures", explained: "TestRemovedServiceLeavesOnlyDepartures."},
		{
			of: "services", clause: "the shards of a service are at the nodes that run it, with their instances of it",
			planted: []string{"services: the report about one service counts for another one", "services: a node gets shards of a service that it does not run"},
		},
		{of: "services", clause: "an election alone moves no shard", planted: []string{"services: a new leader takes shards from nodes without a heartbeat"}},
		{of: "services", clause: "the leader adds a service once all nodes have loaded one configuration that names it", planted: []string{"services: a service is added before all nodes have loaded it"}},
		{of: "services", clause: "the routes of a service become active after the service exists", planted: []string{"services: routes become active before their service exists"}},
		{of: "services", clause: "the list exists before a map with a node that reports services", planted: []string{"services: a map with several instances precedes the list"}},
		{of: "services", clause: "a node that restarts in place gets no shard of a new service", planted: []string{"services: a restarting node gets a shard of a new service without its acknowledgement"}},
		{of: "services", clause: "a longer map changes nothing for the shards of other services", planted: []string{"services: a longer map forgets what the app has acquired"}},
		{of: "services", clause: "a hook call names its service and counts its shards from the beginning of the range", planted: []string{"services: a hook call counts its shards in the map"}},
		{of: "services", clause: "a call for shards of a removed service keeps its range", explained: "The simulation keeps the instances of a service apart. TestHookCallsNameTheirService."},
		{of: "services", clause: "an unhealthy app gets no first shards of a service", planted: []string{"services: an unhealthy app gets its first shards of a service"}},
		{of: "services", clause: "the shards of a service stay if most of its apps are unhealthy", planted: []string{"services: a service moves although most of its apps are unhealthy"}},
		{of: "services", clause: "no service influences which shards of another one move", explained: "It is a property of shardmap.Assign, which tests of that package compare with a reference."},
		{of: "services", clause: "snapshots contain the list", explained: "Each entry of servicesLog is followed by a snapshot: TestServicesGetTheLowestFreeRange."},
	}
}
