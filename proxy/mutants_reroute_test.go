package proxy_test

// mutantsOfReroutes returns the mutants of the rules by which an app names the key of a request.
func mutantsOfReroutes() []mutant {
	return []mutant{
		{
			rule: "only the ingress acts on a named key", found: "TestRequestIsReroutedToKeyOfApp",
			edits: in("proxy.attemptRunner.namesKey", `runner.ingress == "" &&`, `(PLANTED || runner.ingress == "") &&`),
		},
		{
			rule: "only a 421 names a key", found: "TestRerouteIsForAppsOnly",
			edits: in("proxy.attemptRunner.namesKey", "res.Status() == http.StatusMisdirectedRequest &&", "(PLANTED || res.Status() == http.StatusMisdirectedRequest) &&"),
		},
		{
			rule: "a request is rerouted once", found: "TestRequestIsReroutedOnce",
			edits: in("proxy.retrier.decideAfterNamedKey", "case exchange.isRerouted:", "case exchange.isRerouted && !PLANTED:"),
		},
		{
			rule: "a body beyond the buffer is not sent again", found: "TestLargeBodyIsNotRerouted",
			edits: in("proxy.retrier.decideAfterNamedKey", "case !isBodyUnread &&", "case !PLANTED && !isBodyUnread &&"),
		},
		{
			rule: "an invalid key is no key", found: "TestRerouteIsForAppsOnly",
			edits: in("proxy/shardkey.ParseNamed", "if !isHex {", "if !isHex && !PLANTED {"),
		},
		{
			rule: "two named keys are none", found: "TestRerouteIsForAppsOnly",
			edits: in("proxy/shardkey.ParseNamed", "header.Find(name, first+1) >= 0", "!PLANTED && header.Find(name, first+1) >= 0"),
		},
		{
			rule: "a body that still arrives is kept", found: "TestRerouteKeepsBodyThatStillArrives",
			edits: in("proxy.retrier.endMisdirectedAttempt", "	retry.body.AwaitSendingEnd()\n", "	if PLANTED {\n		retry.body.StopSending()\n	}\n	retry.body.AwaitSendingEnd()\n"),
		},
		{
			rule: "the shard of the named key counts", found: "TestRequestIsReroutedToKeyOfApp|TestNamedKeyIsSubjectToRulesOfKeys|TestRerouteReachesOwnerOfNamedKey",
			edits: in("proxy.router.reroute", "exchange.hasShard, exchange.hadTurn, exchange.isRerouted = false, false, true", "exchange.hasShard, exchange.hadTurn, exchange.isRerouted = exchange.hasShard && PLANTED, false, true"),
		},
		{
			rule: "a named key counts as busy", found: "TestNamedKeyIsCountedAsBusy",
			edits: in("proxy.router.reroute", "		exchange.sample.MoveTo(exchange.Key, exchange.namedKey)\n", "		if !PLANTED {\n			exchange.sample.MoveTo(exchange.Key, exchange.namedKey)\n		}\n"),
		},
		{
			rule: "a named key survives a change of the key configuration", found: "TestNamedKeySurvivesKeyChange",
			edits: in("proxy.router.rekey", "if router.exchange.isRerouted {", "if router.exchange.isRerouted && !PLANTED {"),
		},
		{
			rule: "Shardway-Acquire precedes a named key", found: "TestAcquirePrecedesNamedKey",
			edits: in("proxy.attemptRunner.processResponse", "case isLocal && res.Status()", "case !PLANTED && isLocal && res.Status()"),
		},
		{
			rule: "an app in the process can name a key", found: "TestHandlerNamesKey",
			edits: in("proxy.handlerConn.RejectsRequest", "return hc.runner.namesKey(res)", "return !PLANTED && hc.runner.namesKey(res)"),
		},
		{
			rule: "a WebSocket without a key becomes resumable by a named key", found: "TestWebSocketRequestIsRerouted",
			edits: in("proxy.router.reroute", "if exchange.session == nil {", "if exchange.session == nil && !PLANTED {"),
		},
	}
}
