package proxy_test

// mutantsOfInstances returns the mutants of the rules for several app instances of a node.
func mutantsOfInstances() []mutant {
	return []mutant{
		{
			rule: "a request is not sent to an instance that has lost its shard", found: "TestRequestIsRoutedAgainIfItsShardMovesToASibling",
			edits: in("proxy.router.admitAttempt", "&& epoch != dest.Epoch {", "&& epoch != dest.Epoch && !PLANTED {"),
		},
		{
			rule: "a request goes to the instance of its shard", found: "TestRequestsGoToTheInstanceOfTheirShard",
			edits: in("proxy.router.localPool", "pool = router.server.upstreams.App(dest.Instance)\n", "pool = router.server.upstreams.App(dest.Instance)\n		if PLANTED {\n			pool = router.server.upstreams.App(0)\n		}\n"),
		},
		{
			rule: "a request that waits for a connection leaves when its shard moves to a sibling", found: "TestQueuedRequestsMoveToTheSiblingOfTheirShard",
			edits: in("proxy/connpool.Pool.ShardMoved", "|| r.Instance != p.opts.Instance", "|| !PLANTED && r.Instance != p.opts.Instance"),
		},
		{
			rule: "an instance that is not configured gets no request", found: "TestShardOfAnAbsentInstanceWaits",
			edits: in("proxy/upstream.Pools.App", "	return p.apps[instance]\n", "	if PLANTED && p.apps[instance] == nil {\n		return p.apps[0]\n	}\n	return p.apps[instance]\n"),
		},
		{
			rule: "a request without a key goes to a healthy instance", found: "TestRequestsWithoutKeyUseHealthyInstances",
			edits: in("proxy/upstream.Pools.KeylessInstance", "(isHealthy == nil || isHealthy(instance))", "(PLANTED || isHealthy == nil || isHealthy(instance))"),
		},
	}
}
