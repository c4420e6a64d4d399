package ack_test

// mutantsOfApps are faults in how the health of all apps affects the map.
func mutantsOfApps() []mutant {
	most := aimed("sick-most 8, sick 2, elect 1")
	flaps := aimed("flap 8, sick 2")
	losses := aimed("flap-loss 8, kill 4")
	return []mutant{
		{
			name: "apps: shards leave an unhealthy app though most apps are unhealthy", mix: most, caught: "health",
			edits: in("ack/leader.clusterAppHealth.excludes", "	return !h.panicMode && !h.mostMayFail\n", "	return PLANTED || !h.panicMode && !h.mostMayFail\n"),
		},
		{
			name: "apps: shards leave an app that refuses connections though most apps are unhealthy", mix: most, caught: "health",
			edits: in("ack/leader.clusterAppHealth.excludes", "		return !h.mostUnhealthy && !h.mostRefuseConns\n", "		return PLANTED || !h.mostUnhealthy && !h.mostRefuseConns\n"),
		},
		{
			name: "apps: shards never leave an unhealthy app after most apps were unhealthy once", mix: most, caught: "batching",
			edits: in("ack/leader.clusterAppHealth.update", "	} else if in.now-h.lastMostUnhealthy > panicRecovery {\n", "	} else if !PLANTED && in.now-h.lastMostUnhealthy > panicRecovery {\n"),
		},
		{
			name: "apps: an app that flaps gets shards again at once", mix: flaps, caught: "health",
			edits: in("ack/leader.member.remainingHoldTime", "	return max(m.healthySince+ack.FlapPause(m.heartbeat.App.FlapCount)-in.now, 0)\n", "	if PLANTED {\n		return 0\n	}\n	return max(m.healthySince+ack.FlapPause(m.heartbeat.App.FlapCount)-in.now, 0)\n"),
		},
		{
			name: "apps: an app that flaps is held back though no other node can own its shards", mix: losses, caught: "health",
			edits: in("ack/leader.membership.isEligible", "(ms.allOwnersHeldBack || !node.isHeldBack(in))", "(!PLANTED && ms.allOwnersHeldBack || !node.isHeldBack(in))"),
		},
	}
}

// pointsOfApps are those of docs/internals/protocol-failures.md, "When apps are unhealthy".
func pointsOfApps() []point {
	return []point{
		{of: "apps", clause: "while most apps are unhealthy, shards stay for that reason", planted: []string{
			"apps: shards leave an unhealthy app though most apps are unhealthy", "apps: shards leave an app that refuses connections though most apps are unhealthy",
		}},
		{of: "apps", clause: "until few are unhealthy", planted: []string{"apps: shards never leave an unhealthy app after most apps were unhealthy once"}},
		{of: "apps", clause: "an app that flaps gets shards later each time", planted: []string{"apps: an app that flaps gets shards again at once"}},
		{of: "apps", clause: "but at once if no other node can own its shards", planted: []string{"apps: an app that flaps is held back though no other node can own its shards"}},
		{
			of: "apps", clause: "an app waits for others whose last checks failed",
			explained: "It saves moves if a dependency of all apps fails, and has no other effect: TestAppsThatFailTogetherKeepTheirShards, " +
				"TestElectionWhileMostAppsAreUnhealthyMovesNothing.",
		},
	}
}
