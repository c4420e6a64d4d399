package ack_test

// mistakesOfApps are about what the health of all apps together does to the map.
func mistakesOfApps() []mistake {
	most := aimed("sick-most 8, sick 2, elect 1")
	flaps := aimed("flap 8, sick 2")
	losses := aimed("flap-loss 8, kill 4")
	return []mistake{
		{
			name: "apps: an app is left though most are unhealthy", mix: most, caught: "health",
			edits: in("ack.Leader.excludedForHealth", "		return !h.panicMode && !h.mostFailing\n", "		return PLANTED || !h.panicMode && !h.mostFailing\n"),
		},
		{
			name: "apps: one that refuses connections is left though most are unhealthy", mix: most, caught: "health",
			edits: in("ack.Leader.excludedForHealth", "		return !h.mostUnhealthy && !h.mostRefused\n", "		return PLANTED || !h.mostUnhealthy && !h.mostRefused\n"),
		},
		{
			name: "apps: once most were unhealthy, none is left ever again", mix: most, caught: "gathering",
			edits: in("ack.Leader.updateAppsHealth", "	} else if now-h.lastMostUnhealthy > panicRecovery {\n", "	} else if !PLANTED && now-h.lastMostUnhealthy > panicRecovery {\n"),
		},
		{
			name: "apps: one that flaps comes back at once", mix: flaps, caught: "health",
			edits: in("ack.Leader.holdRemaining", "	return max(n.healthySince+flapPause(n.heartbeat.App.Falls)-now, 0)\n", "	if PLANTED {\n		return 0\n	}\n	return max(n.healthySince+flapPause(n.heartbeat.App.Falls)-now, 0)\n"),
		},
		{
			name: "apps: one that flaps is held back though nobody else can own its shards", mix: losses, caught: "health",
			edits: in("ack.Leader.isEligible", "(l.appsHealth.onlyHeldBack || !l.isHeldBack(now, n))", "(!PLANTED && l.appsHealth.onlyHeldBack || !l.isHeldBack(now, n))"),
		},
	}
}

// pointsOfApps are those of docs/internals/protocol-leases.md, "When apps are unhealthy".
func pointsOfApps() []point {
	return []point{
		{of: "apps", clause: "where most apps are unhealthy none is left for that", planted: []string{
			"apps: an app is left though most are unhealthy", "apps: one that refuses connections is left though most are unhealthy",
		}},
		{of: "apps", clause: "until they are few again", planted: []string{"apps: once most were unhealthy, none is left ever again"}},
		{of: "apps", clause: "one that flaps comes back later each time", planted: []string{"apps: one that flaps comes back at once"}},
		{of: "apps", clause: "but at once where nobody else can own its shards", planted: []string{"apps: one that flaps is held back though nobody else can own its shards"}},
		{
			of: "apps", clause: "an app waits for others whose last checks failed",
			explained: "It saves moves where a dependency is lost, and decides nothing else: TestAppsThatFailTogetherKeepTheirShards, " +
				"TestElectionWhileMostAppsAreUnhealthyMovesNothing.",
		},
	}
}
