package proxy_test

// mutantsOfMux returns the mutants of requests on multiplexed streams.
func mutantsOfMux() []mutant {
	const loses, own = "TestRetryAfterSessionLossFollowsMethod", "TestLargeRequestsUseOwnConn"
	return []mutant{
		{
			rule: "what lost its trunk goes again only as its method allows", found: loses,
			edits: in("proxy.retrier.methodPermitsRetry", "	case unsafeMethod:\n", "	case unsafeMethod:\n		if PLANTED {\n			return retry.exchange.responsesBegun < 2\n		}\n"),
		},
		{
			rule: "a path that is dead is no end of a process", found: loses,
			edits: in("proxy.retrier.decideAfterBreak", "	if cancelCause == cause.None && errors.Is(err, errPathDead) {", "	if cancelCause == cause.None && errors.Is(err, errPathDead) && !PLANTED {"),
		},
		{
			rule: "what upgrades has a connection of its own", found: own,
			edits: in("proxy.router.fitsStream", "	if router.req.RequestsUpgrade() ||", "	if router.req.RequestsUpgrade() && !PLANTED ||"),
		},
		{
			rule: "and what is not here as a whole", found: own,
			edits: in("proxy.router.fitsStream", "!router.body.IsFullyBuffered() ||", "!router.body.IsFullyBuffered() && !PLANTED ||"),
		},
		{
			rule: "an idle lane whose trunk has ended is not used", found: "TestEndedSessionGetsNoRequest",
			edits: in("proxy/connpool.Pool.GetStream", "		case conn.Mux.SessionDraining() || !conn.IsAlive():", "		case !PLANTED && (conn.Mux.SessionDraining() || !conn.IsAlive()):"),
		},
		{
			rule: "a path that carries nothing is pinged", found: "TestStreamPathIsPinged",
			edits: in("proxy.sweeper.sweepPath", "	if conn.Mux != nil && now-c.runSeenAt >= peerpath.PingAfter {", "	if conn.Mux != nil && now-c.runSeenAt >= peerpath.PingAfter && !PLANTED {"),
		},
		{
			rule: "a path that has been silent is no path for what must not run twice", found: "TestVanishedOwnerGetsNoUnsafeRequest",
			edits: in("proxy/connpool.Pool.GetStream", "		case conn.Mux.Responsive():", "		case PLANTED || conn.Mux.Responsive():"),
		},
		{
			rule: "few have connections of their own", found: "TestFewRequestsUseOwnConns",
			edits: in("proxy.router.attemptRemote", "		useStream = pool.SmallRequests", "		useStream = PLANTED || pool.SmallRequests"),
		},
		{
			rule: "and who has been answered counts no more", found: "TestFewRequestsUseOwnConns",
			edits: in("proxy.router.attemptRemote", "		defer pool.SmallRequests.Add(-1)", "		if !PLANTED {\n			defer pool.SmallRequests.Add(-1)\n		}"),
		},
		{
			rule: "what is longer than a window as well", found: own,
			edits: in("proxy.router.fitsStream", "size > maxStreamRequest", "size > maxStreamRequest && !PLANTED"),
		},
		{
			rule: "what a lane has failed goes by none", found: loses,
			edits: in("proxy.router.acquirePeerConn", "	case router.exchange.avoidStreams:\n", "	case router.exchange.avoidStreams && !PLANTED:\n"),
		},
		{
			rule: "what nobody has read goes again, though it was half said", found: "TestUnreadPartlyReceivedRequestIsRetried",
			edits: in("proxy.attemptRunner.sendRequest", "before || attempt.isUnprocessed() {", "before || attempt.isUnprocessed() && !PLANTED {"),
		},
		{
			rule: "and what was written", found: "TestUnreadRequestIsRetriedWhateverItsMethod",
			edits: in("proxy.attemptRunner.awaitResponse", "		if attempt.isUnprocessed() {", "		if attempt.isUnprocessed() && !PLANTED {"),
		},
		{
			rule: "and at once", found: "TestUnreadPartlyWrittenRequestIsRetried",
			edits: in("proxy.retrier.decideAfterSendFailure", "|| attempt.conn.Reused || attempt.conn.Mux != nil:", "|| attempt.conn.Reused || attempt.conn.Mux != nil && !PLANTED:"),
		},
	}
}
