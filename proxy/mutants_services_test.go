package proxy_test

// mutantsOfServices returns the mutants of the rules for several services of a cluster.
func mutantsOfServices() []mutant {
	return []mutant{
		{
			rule: "the app of one service gets no request of another one", found: "TestRequestsReachInstanceOfTheirService",
			edits: append(in("proxy.router.attemptLocal", "if !router.server.upstreams.RunsInstance(", "if !PLANTED && !router.server.upstreams.RunsInstance("),
				in("proxy.client.startAttempt", "|| !c.server.upstreams.RunsInstance(", "|| !PLANTED && !c.server.upstreams.RunsInstance(")...),
		},
		{
			rule: "a request without a key gets an app of its service", found: "TestKeylessRequestsUseInstancesOfTheirService",
			edits: in("proxy/upstream.Pools.KeylessInstance", "if pool == nil || !instances.Has(", "if pool == nil || !PLANTED && !instances.Has("),
		},
		{
			rule: "a node that does not run a service forwards its requests without a key", found: "TestKeylessRequestsReachNodeOfTheirService",
			edits: in("proxy.router.attemptKeyless", "if router.server.upstreams.RunsService(service) {", "if PLANTED || router.server.upstreams.RunsService(service) {"),
		},
		{
			rule: "a forwarded request without a key is refused by a node that does not run its service", found: "TestKeylessRequestsReachNodeOfTheirService",
			edits: in("proxy.router.attemptAsOwner", "if !router.server.upstreams.RunsService(", "if !PLANTED && !router.server.upstreams.RunsService("),
		},
		{
			rule: "an owner refuses a shard that its range does not have", found: "TestOwnerRefusesUnknownShardOfService",
			edits: in("proxy.exchange.resolveForwarded", "|| int(exchange.serviceShard) >= service.Shards", "|| !PLANTED && int(exchange.serviceShard) >= service.Shards"),
		},
		{
			rule: "an owner counts shards from the first shard of its own range", found: "TestNodesMayHaveDifferentRanges",
			edits: in("proxy.exchange.resolveForwarded", "exchange.shard = service.First + exchange.serviceShard", "exchange.shard = service.First*map[bool]shardmap.Shard{false: 1}[PLANTED] + exchange.serviceShard"),
		},
		{
			rule: "an ingress sends the number within the service", found: "TestNodesMayHaveDifferentRanges",
			edits: in("proxy.exchange.shardInService", "exchange.shard - exchange.firstShard", "exchange.shard - exchange.firstShard*map[bool]shardmap.Shard{false: 1}[PLANTED]"),
		},
		{
			rule: "the name of a service between nodes is valid", found: "TestOwnerRefusesUnknownShardOfService",
			edits: in("proxy.requestState.readService", "if !keysource.ValidServiceName(", "if !PLANTED && !keysource.ValidServiceName("),
		},
		{
			rule: "a client cannot set the service", found: "TestRequestsWithoutServicesAreUnchanged",
			edits: in("proxy.requestWriter.writeHeader", "Drop: h1.Shardway | h1.Lookalikes,", "Drop: h1.Shardway&^(map[bool]h1.FieldSet{true: h1.FieldSetOf(h1.FieldShardwayService)}[PLANTED]) | h1.Lookalikes,"),
		},
		{
			rule: "a request waits for a service that the table does not have", found: "TestRequestsWaitForTheirService",
			edits: in("proxy/route.Table.setServices", "if int(service.First)+service.Shards <= len(t.routeIndex) {", "if PLANTED || int(service.First)+service.Shards <= len(t.routeIndex) {"),
		},
		{
			rule: "keys without services belong to the service default", found: "TestKeysWithoutServicesBelongToDefault",
			edits: in("proxy.exchange.resolveShard", `|| table.HasServices() {`, `|| !PLANTED && table.HasServices() {`),
		},
		{
			rule: "a path of two services is refused", found: "TestAmbiguousServicesAreRejected",
			edits: in("proxy/shardkey.services.find", "case !unambiguous:", "case !unambiguous && !PLANTED:"),
		},
		{
			rule: "an invalid host is refused", found: "TestAmbiguousServicesAreRejected",
			edits: in("proxy/shardkey.services.find", "if !ok {", "if !ok && !PLANTED {"),
		},
		{
			rule: "a generated key belongs to a shard of its service", found: "TestMintedKeysBelongToTheirService",
			edits: in("proxy/shardkey.Extractor.place", "e.Place(e.rules.service, key)", `e.Place(map[bool]string{false: e.rules.service, true: "b"}[PLANTED], key)`),
		},
		{
			rule: "two services do not share the limits of a key", found: "TestServicesHaveTheirOwnSettings",
			edits: in("proxy.router.keyID", ".In(router.serviceSettings().serviceScope)", ".In(router.serviceSettings().serviceScope*map[bool]uint64{false: 1}[PLANTED])"),
		},
		{
			rule: "the hooks of all services are protected", found: "TestHooksOfAllServicesAreProtected",
			edits: in("proxy.client.isHookPath", "if c.server.furtherHookPaths[i].Matches(", "if !PLANTED && c.server.furtherHookPaths[i].Matches("),
		},
		{
			rule: "an event loop serves no request that the limits of a service may delay", found: "TestEventLoopObeysSettingsOfServices",
			edits: in("proxy.Settings.limitsKeys", "|| settings.servicesLimit", "|| !PLANTED && settings.servicesLimit"),
		},
	}
}
