package proxy_test

// mistakesOfLegLanes are those with sockets that go by lanes.
func mistakesOfLegLanes() []mistake {
	const refused, once = "TestSocketWhoseLaneIsRefusedGoesByAConnection", "TestLaneOfASocketIsUsedOnce"
	return []mistake{
		{
			rule: "sockets go by lanes", found: "TestKeptSocketsShareATrunk",
			edits: in("lane.go", "	case c.x.sock != nil:\n", "	case PLANTED:\n	case c.x.sock != nil:\n"),
		},
		{
			rule: "and so do their next legs", found: "TestKeptSocketsShareATrunk",
			edits: in("dialing.go", "	leg := p.forLeg()\n", "	leg := p.forLeg() && !PLANTED\n"),
		},
		{
			rule: "a socket that transferred much has a connection next", found: "TestHeavySocketHasAConnectionOfItsOwnNext",
			edits: in("leglane.go", "!x.sock.heavy }", "(PLANTED || !x.sock.heavy) }"),
		},
		{
			rule: "and a lane once it is quiet", found: "TestHeavySocketHasAConnectionOfItsOwnNext",
			edits: in("leglane.go", "	return n >= heavyLeg && n", "	return PLANTED && l.k.heavy || n >= heavyLeg && n"),
		},
		{
			rule: "what is not kept has a connection", found: "TestSocketsThatAreNotKeptHaveConnectionsOfTheirOwn",
			edits: in("tunnel.go", "		y.notePath(p, true)\n", "		y.notePath(p, !PLANTED)\n"),
		},
		{
			rule: "until one is kept", found: "TestSocketsThatAreNotKeptHaveConnectionsOfTheirOwn",
			edits: in("socketleg.go", "	y.notePath(p, false)\n", "	y.notePath(p, PLANTED)\n"),
		},
		{
			rule: "a leg whose lane was refused goes by a connection, and the next one by a lane again", found: refused,
			edits: in("socketleg.go", "	x.laneless = false", "	x.laneless = PLANTED"),
		},
		{
			rule: "the lane of a socket is kept for nobody", found: once,
			edits: in("lane.go", "|| l.lone ||", "|| l.lone && !PLANTED ||"),
		},
		{
			rule: "nor given to a request", found: "TestLanesOfSocketsAreForSockets",
			edits: in("pool.go", "	if l.lone {\n", "	if l.lone && !PLANTED {\n"),
		},
		{
			rule: "nor made for one", found: "TestLanesOfSocketsAreForSockets",
			edits: in("leglane.go", "p.mu.line.n-p.mu.line.keeps <= p.mu.dialing-p.mu.laning", "(PLANTED || p.mu.line.n-p.mu.line.keeps <= p.mu.dialing-p.mu.laning)"),
		},
		{
			rule: "no more ask by lanes than the owner lets", found: "TestWaitingSocketsGoOnFewAtATime",
			edits: in("dialing.go", "	if tempo == maxUpgrades && !p.forLeg() {", "	if tempo == maxUpgrades && (PLANTED || !p.forLeg()) {"),
		},
		{
			rule: "an owner whose answers by lanes are late is late", found: "TestFewSocketsComeBackToALateOwner",
			edits: in("tempo.go", "	if l.lone && l.flies {", "	if l.lone && l.flies && !PLANTED {"),
		},
		{
			rule: "a path is pinged once for all that go by it", found: "TestThePathOfSocketsIsPinged",
			edits: in("hear.go", "	if p := h.path(l); !p.pinged {\n", "	if p := h.path(l); !p.pinged && !PLANTED {\n"),
		},
	}
}
