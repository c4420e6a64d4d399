package proxy_test

// mistakesOfLanes are those with requests that share a connection.
func mistakesOfLanes() []mistake {
	const loses, own = "TestWhatLosesItsTrunkGoesAgainAsItsMethodAllows", "TestWhatIsNotSmallHasAConnectionOfItsOwn"
	const size = "TestTheSizeOfAnAnswerIsExpectedToBeAsBefore"
	return []mistake{
		{
			rule: "what lost its trunk goes again only as its method allows", found: loses,
			edits: in("proxy.client.goAgain", "	again := c.x.safety == safeMethod && c.x.heads < 2", "	again := (PLANTED || c.x.safety == safeMethod) && c.x.heads < 2"),
		},
		{
			rule: "a path that is dead is no end of a process", found: loses,
			edits: in("proxy.client.broken", "	if why == causeNone && errors.Is(err, errDeaf) {", "	if why == causeNone && errors.Is(err, errDeaf) && !PLANTED {"),
		},
		{
			rule: "what upgrades has a connection of its own", found: own,
			edits: in("proxy.client.small", "	if c.req.Upgrades() ||", "	if c.req.Upgrades() && !PLANTED ||"),
		},
		{
			rule: "and what is not here as a whole", found: own,
			edits: in("proxy.client.small", "!c.up.whole() ||", "!c.up.whole() && !PLANTED ||"),
		},
		{
			rule: "large answers are remembered", found: size,
			edits: in("proxy.sizes.note", "	if known != now {", "	if known != now && !PLANTED {"),
		},
		{
			rule: "and so are small ones", found: size,
			edits: in("proxy.sizes.note", "	if !large {", "	if !large && !PLANTED {"),
		},
		{
			rule: "an idle lane whose trunk has ended is not used", found: "TestARequestFindsNoLaneOfATrunkThatEnded",
			edits: in("proxy.pool.takeLane", "		case l.lane.SessionDraining() || !l.Alive():", "		case !PLANTED && (l.lane.SessionDraining() || !l.Alive()):"),
		},
		{
			rule: "a path that carries nothing is pinged", found: "TestThePathOfLanesIsPinged",
			edits: in("proxy.Server.sweepPath", "	if l.lane != nil && now-c.since >= pingAfter {", "	if l.lane != nil && now-c.since >= pingAfter && !PLANTED {"),
		},
		{
			rule: "a path that has been silent is no path for what must not run twice", found: "TestAVanishedOwnerGetsNoRequestThatMustNotRunTwice",
			edits: in("proxy.pool.takeLane", "		case l.lane.Responsive():", "		case PLANTED || l.lane.Responsive():"),
		},
		{
			rule: "and has one witness", found: "TestATrunkIsOneWitness",
			edits: in("proxy.pool.witnesses", "				if slices.Contains(carriers", "				if !PLANTED && slices.Contains(carriers"),
		},
		{
			rule: "few have connections of their own", found: "TestFewRequestsHaveConnectionsOfTheirOwn",
			edits: in("proxy.client.remote", "		lanes = p.small", "		lanes = PLANTED || p.small"),
		},
		{
			rule: "and who has been answered counts no more", found: "TestFewRequestsHaveConnectionsOfTheirOwn",
			edits: in("proxy.client.remote", "		defer p.small.Add(-1)", "		if !PLANTED {\n			defer p.small.Add(-1)\n		}"),
		},
		{
			rule: "what is longer than a window as well", found: own,
			edits: in("proxy.client.small", "len(c.req.Raw())+len(c.up.kept) > laneRequest", "len(c.req.Raw())+len(c.up.kept) > laneRequest && !PLANTED"),
		},
		{
			rule: "what a lane has failed goes by none", found: loses,
			edits: in("proxy.client.linkTo", "	case c.x.laneless:\n", "	case c.x.laneless && !PLANTED:\n"),
		},
		{
			rule: "what nobody has read goes again, though it was half said", found: "TestWhatWasNotTakenGoesAgainThoughItWasHalfSaid",
			edits: in("proxy.client.depart", "before || p.untaken() {", "before || p.untaken() && !PLANTED {"),
		},
		{
			rule: "and what was written", found: "TestWhatWasNotTakenGoesAgainWhateverItIs",
			edits: in("proxy.client.arrive", "		if p.untaken() {", "		if p.untaken() && !PLANTED {"),
		},
		{
			rule: "and at once", found: "TestWhatWasNotTakenGoesAgainThoughItWasHalfWritten",
			edits: in("proxy.client.notSent", "|| p.l.reused || p.l.lane != nil:", "|| p.l.reused || p.l.lane != nil && !PLANTED:"),
		},
	}
}
