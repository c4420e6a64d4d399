package proxy_test

// mutantsOfWebSocketMux returns the mutants of WebSockets on multiplexed streams.
func mutantsOfWebSocketMux() []mutant {
	const refused, once = "TestWebSocketWithRefusedStreamUsesConn", "TestWebSocketStreamIsUsedOnce"
	return []mutant{
		{
			rule: "sockets go by lanes", found: "TestResumableWebSocketsShareSession",
			edits: in("proxy.router.acquirePeerConn", "	case router.exchange.session != nil:\n", "	case PLANTED:\n	case router.exchange.session != nil:\n"),
		},
		{
			rule: "and so do their next legs", found: "TestResumableWebSocketsShareSession",
			edits: in("proxy/connpool.Pool.startDial", "opensStream: p.mu.dials.nextOpensStream(&p.mu.queue),", "opensStream: p.mu.dials.nextOpensStream(&p.mu.queue) && !PLANTED,"),
		},
		{
			rule: "a socket that transferred much has a connection next", found: "TestBulkWebSocketGetsOwnConnNext",
			edits: in("proxy.exchange.mayUseStream", "!exchange.session.LastRelayBulk\n", "(PLANTED || !exchange.session.LastRelayBulk)\n"),
		},
		{
			rule: "and a lane once it is quiet", found: "TestBulkWebSocketGetsOwnConnNext",
			edits: in("proxy/wsrelay.Relay.isBulk", "	return transferred >= bulkBytes && transferred", "	return PLANTED && relay.session.LastRelayBulk || transferred >= bulkBytes && transferred"),
		},
		{
			rule: "what is not kept has a connection", found: "TestOtherWebSocketsUseOwnConns",
			edits: in("proxy.responseRelay.relayUpgrade", "		rr.recordWebSocketPath(attempt, true)\n", "		rr.recordWebSocketPath(attempt, !PLANTED)\n"),
		},
		{
			rule: "until one is kept", found: "TestOtherWebSocketsUseOwnConns",
			edits: in("proxy.responseRelay.startSession", "	rr.recordWebSocketPath(attempt, false)\n", "	rr.recordWebSocketPath(attempt, PLANTED)\n"),
		},
		{
			rule: "a leg whose lane was refused goes by a connection, and the next one by a lane again", found: refused,
			edits: in("proxy.exchange.prepareRetry", "	exchange.avoidStreams = false", "	exchange.avoidStreams = PLANTED"),
		},
		{
			rule: "the lane of a socket is kept for nobody", found: once,
			edits: in("proxy/connpool.Pool.putIdleStream", "|| conn.SingleUse ||", "|| conn.SingleUse && !PLANTED ||"),
		},
		{
			rule: "no more ask by lanes than the owner lets", found: "TestWaitingWebSocketsAreReleasedInBatches",
			edits: in("proxy/connpool.Pool.maxConcurrentDials", "	if !isPaced && !p.mu.dials.nextOpensStream(&p.mu.queue) {", "	if !isPaced && (PLANTED || !p.mu.dials.nextOpensStream(&p.mu.queue)) {"),
		},
		{
			rule: "an owner whose answers by lanes are late is late", found: "TestFewWebSocketsResumeAtLateOwner",
			edits: in("proxy/connpool.Pool.RecordUpgradeResponse", "	if conn.SingleUse && conn.awaitingUpgrade {", "	if conn.SingleUse && conn.awaitingUpgrade && !PLANTED {"),
		},
		{
			rule: "a path is pinged once for all that go by it", found: "TestWebSocketPathIsPinged",
			edits: in("proxy/peerpath.Detector.Ping", "	if path := detector.path(stream); !path.pinged {\n", "	if path := detector.path(stream); !path.pinged && !PLANTED {\n"),
		},
	}
}
