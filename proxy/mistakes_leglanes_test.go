package proxy_test

// mistakesOfLegLanes are those with sockets that go by lanes.
func mistakesOfLegLanes() []mistake {
	const refused, once = "TestSocketWhoseLaneIsRefusedGoesByAConnection", "TestLaneOfASocketIsUsedOnce"
	return []mistake{
		{
			rule: "sockets go by lanes", found: "TestKeptSocketsShareATrunk",
			edits: in("proxy.client.acquirePeerConn", "	case c.x.sock != nil:\n", "	case PLANTED:\n	case c.x.sock != nil:\n"),
		},
		{
			rule: "and so do their next legs", found: "TestKeptSocketsShareATrunk",
			edits: in("proxy.pool.startDial", "	leg := p.forWebSocket()\n", "	leg := p.forWebSocket() && !PLANTED\n"),
		},
		{
			rule: "a socket that transferred much has a connection next", found: "TestHeavySocketHasAConnectionOfItsOwnNext",
			edits: in("proxy.exchange.takesLane", "!x.sock.heavy }", "(PLANTED || !x.sock.heavy) }"),
		},
		{
			rule: "and a lane once it is quiet", found: "TestHeavySocketHasAConnectionOfItsOwnNext",
			edits: in("proxy.leg.heavy", "	return n >= heavyLeg && n", "	return PLANTED && l.k.heavy || n >= heavyLeg && n"),
		},
		{
			rule: "what is not kept has a connection", found: "TestSocketsThatAreNotKeptHaveConnectionsOfTheirOwn",
			edits: in("proxy.relay.tunnel", "		y.notePath(p, true)\n", "		y.notePath(p, !PLANTED)\n"),
		},
		{
			rule: "until one is kept", found: "TestSocketsThatAreNotKeptHaveConnectionsOfTheirOwn",
			edits: in("proxy.relay.keep", "	y.notePath(p, false)\n", "	y.notePath(p, PLANTED)\n"),
		},
		{
			rule: "a leg whose lane was refused goes by a connection, and the next one by a lane again", found: refused,
			edits: in("proxy.exchange.again", "	x.noStreams = false", "	x.noStreams = PLANTED"),
		},
		{
			rule: "the lane of a socket is kept for nobody", found: once,
			edits: in("proxy.pool.putIdleStream", "|| l.singleUse ||", "|| l.singleUse && !PLANTED ||"),
		},
		{
			rule: "nor given to a request", found: "TestLanesOfSocketsAreForSockets",
			edits: in("proxy.pool.assign", "	if l.singleUse {\n", "	if l.singleUse && !PLANTED {\n"),
		},
		{
			rule: "nor made for one", found: "TestLanesOfSocketsAreForSockets",
			edits: in("proxy.pool.forWebSocket", "p.mu.queue.n-p.mu.queue.upgrades <= p.mu.dialing-p.mu.dialingStreams", "(PLANTED || p.mu.queue.n-p.mu.queue.upgrades <= p.mu.dialing-p.mu.dialingStreams)"),
		},
		{
			rule: "no more ask by lanes than the owner lets", found: "TestWaitingSocketsGoOnFewAtATime",
			edits: in("proxy.pool.maxConcurrentDials", "	if tempo == maxUpgrades && !p.forWebSocket() {", "	if tempo == maxUpgrades && (PLANTED || !p.forWebSocket()) {"),
		},
		{
			rule: "an owner whose answers by lanes are late is late", found: "TestFewSocketsComeBackToALateOwner",
			edits: in("proxy.pool.upgradeResponded", "	if l.singleUse && l.awaitingUpgrade {", "	if l.singleUse && l.awaitingUpgrade && !PLANTED {"),
		},
		{
			rule: "a path is pinged once for all that go by it", found: "TestThePathOfSocketsIsPinged",
			edits: in("proxy.pathDetector.ping", "	if p := h.path(l); !p.pinged {\n", "	if p := h.path(l); !p.pinged && !PLANTED {\n"),
		},
	}
}
