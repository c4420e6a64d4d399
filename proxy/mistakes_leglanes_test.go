package proxy_test

// mistakesOfLegLanes are those with sockets that go by lanes.
func mistakesOfLegLanes() []mistake {
	const refused, once = "TestSocketWhoseLaneIsRefusedGoesByAConnection", "TestLaneOfASocketIsUsedOnce"
	return []mistake{
		{
			rule: "sockets go by lanes", found: "TestKeptSocketsShareATrunk",
			edits: in("proxy.client.linkTo", "	case c.x.sock != nil:\n", "	case PLANTED:\n	case c.x.sock != nil:\n"),
		},
		{
			rule: "and so do their next legs", found: "TestKeptSocketsShareATrunk",
			edits: in("proxy.pool.start", "	leg := p.forLeg()\n", "	leg := p.forLeg() && !PLANTED\n"),
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
			edits: in("proxy.exchange.again", "	x.laneless = false", "	x.laneless = PLANTED"),
		},
		{
			rule: "the lane of a socket is kept for nobody", found: once,
			edits: in("proxy.pool.keepLane", "|| l.lone ||", "|| l.lone && !PLANTED ||"),
		},
		{
			rule: "nor given to a request", found: "TestLanesOfSocketsAreForSockets",
			edits: in("proxy.pool.give", "	if l.lone {\n", "	if l.lone && !PLANTED {\n"),
		},
		{
			rule: "nor made for one", found: "TestLanesOfSocketsAreForSockets",
			edits: in("proxy.pool.forLeg", "p.mu.line.n-p.mu.line.keeps <= p.mu.dialing-p.mu.laning", "(PLANTED || p.mu.line.n-p.mu.line.keeps <= p.mu.dialing-p.mu.laning)"),
		},
		{
			rule: "no more ask by lanes than the owner lets", found: "TestWaitingSocketsGoOnFewAtATime",
			edits: in("proxy.pool.mostDials", "	if tempo == maxUpgrades && !p.forLeg() {", "	if tempo == maxUpgrades && (PLANTED || !p.forLeg()) {"),
		},
		{
			rule: "an owner whose answers by lanes are late is late", found: "TestFewSocketsComeBackToALateOwner",
			edits: in("proxy.pool.landed", "	if l.lone && l.flies {", "	if l.lone && l.flies && !PLANTED {"),
		},
		{
			rule: "a path is pinged once for all that go by it", found: "TestThePathOfSocketsIsPinged",
			edits: in("proxy.hearing.ping", "	if p := h.path(l); !p.pinged {\n", "	if p := h.path(l); !p.pinged && !PLANTED {\n"),
		},
	}
}
