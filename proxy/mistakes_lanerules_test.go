package proxy_test

import "slices"

// mistakesOfLaneRules are those with when a request has no lane, and with lanes that are idle.
// They edit what mistakesOfLanes has edited.
func mistakesOfLaneRules() []mistake {
	return slices.Concat(mistakesOfPaths(), []mistake{
		{
			rule: "an idle lane whose trunk takes no more is not used", found: "TestAnIdleLaneOfARetiredTrunkIsNotUsedAgain",
			edits: in("proxy.pool.takeLane", "l.lane.SessionDraining() ||", "l.lane.SessionDraining() && !PLANTED ||"),
		},
		{
			rule: "nor one by which something came", found: "TestALaneThatWasNotQuietIsNotUsedAgain",
			edits: in("proxy.pool.takeLane", " !l.Alive()):", " !l.Alive() && !PLANTED):"),
		},
		{
			rule: "who expects to be asked has a connection of its own", found: "TestWhatExpectsToBeAskedHasAConnectionOfItsOwn",
			edits: in("proxy.client.small", " c.req.Expects() ||", " c.req.Expects() && !PLANTED ||"),
		},
		{
			rule: "and a stream that goes on", found: "TestAStreamThatGoesOnHasConnectionsOfItsOwn",
			edits: in("proxy.client.small", " c.x.resumed != nil {", " c.x.resumed != nil && !PLANTED {"),
		},
		{
			rule: "and one like it while it goes on", found: "TestStreamsThatGoOnLeaveTheLanesToOthers",
			edits: in("proxy.relay.pass", "		y.learn(p, further, true)", "		y.learn(p, further || PLANTED, true)"),
		},
		{
			rule: "and what takes long", found: "TestAnAnswerThatTakesLongLeavesTheLanesToOthers",
			edits: in("proxy.Server.sweepRun", "key := c.long.Swap(0); key != 0 {", "key := c.long.Swap(0); key != 0 && !PLANTED {"),
		},
		{
			rule: "also when it has ended", found: "TestAnAnswerThatTakesLongLeavesTheLanesToOthers",
			edits: in("proxy.relay.pass", "y.learn(p, further, tookLong ||", "y.learn(p, further, tookLong && !PLANTED ||"),
		},
		{
			rule: "what lost its trunk leaves the budget to others", found: "TestWhatLosesItsTrunkGoesAgainOnNoBudget",
			edits: in("proxy.client.affords", "	if c.x.tries == 1 && p.l", "	if !PLANTED && c.x.tries == 1 && p.l"),
		},
		{
			rule: "but not what failed alone", found: "TestWhatLosesItsTrunkGoesAgainOnNoBudget",
			edits: in("proxy.client.affords", "p.l.lane.SessionDraining() && (why", "(PLANTED || p.l.lane.SessionDraining()) && (why"),
		},
		{
			rule: "what was refused goes by no lane any more", found: "TestARequestWhoseLaneIsRefusedRunsOnceByAConnection",
			edits: in("proxy.client.notSent", "	c.x.laneless = c.x.laneless || p.l.lane != nil\n	if !errors", "	c.x.laneless = c.x.laneless || p.l.lane != nil && !PLANTED\n	if !errors"),
		},
	})
}
