package proxy_test

// mistakesOfLanes are those with requests that share a connection.
func mistakesOfLanes() []mistake {
	const loses, own = "TestWhatLosesItsTrunkGoesAgainAsItsMethodAllows", "TestWhatIsNotSmallHasAConnectionOfItsOwn"
	const size = "TestTheSizeOfAnAnswerIsExpectedToBeAsBefore"
	return []mistake{
		{
			rule: "what lost its trunk goes again only as its method allows", found: loses,
			edits: in("trip.go", "	again := c.x.safety == safeMethod && c.x.heads < 2", "	again := (PLANTED || c.x.safety == safeMethod) && c.x.heads < 2"),
		},
		{
			rule: "a path that is dead is no end of a process", found: loses,
			edits: in("trip.go", "	if why == causeNone && errors.Is(err, errDeaf) {", "	if why == causeNone && errors.Is(err, errDeaf) && !PLANTED {"),
		},
		{
			rule: "what upgrades has a connection of its own", found: own,
			edits: in("lane.go", "	if c.req.Upgrades() ||", "	if c.req.Upgrades() && !PLANTED ||"),
		},
		{
			rule: "and what is not here as a whole", found: own,
			edits: in("lane.go", "!c.up.whole() ||", "!c.up.whole() && !PLANTED ||"),
		},
		{
			rule: "large answers are remembered", found: size,
			edits: in("sizes.go", "	if known != now {", "	if known != now && !PLANTED {"),
		},
		{
			rule: "and so are small ones", found: size,
			edits: in("sizes.go", "	if !large {", "	if !large && !PLANTED {"),
		},
		{
			rule: "an idle lane whose trunk has ended is not used", found: "TestARequestFindsNoLaneOfATrunkThatEnded",
			edits: in("lane.go", "		case l.lane.Over() || !l.Alive():", "		case !PLANTED && (l.lane.Over() || !l.Alive()):"),
		},
		{
			rule: "a path that carries nothing is pinged", found: "TestThePathOfLanesIsPinged",
			edits: in("sweep.go", "	if l.lane != nil && now-c.since >= pingAfter {", "	if l.lane != nil && now-c.since >= pingAfter && !PLANTED {"),
		},
		{
			rule: "a path that has been silent is no path for what must not run twice", found: "TestAVanishedOwnerGetsNoRequestThatMustNotRunTwice",
			edits: in("lane.go", "		case l.lane.Fresh():", "		case PLANTED || l.lane.Fresh():"),
		},
		{
			rule: "and has one witness", found: "TestATrunkIsOneWitness",
			edits: in("hear.go", "				if slices.Contains(carriers", "				if !PLANTED && slices.Contains(carriers"),
		},
		{
			rule: "few have connections of their own", found: "TestFewRequestsHaveConnectionsOfTheirOwn",
			edits: in("flow.go", "		lanes = p.small", "		lanes = PLANTED || p.small"),
		},
		{
			rule: "and who has been answered counts no more", found: "TestFewRequestsHaveConnectionsOfTheirOwn",
			edits: in("flow.go", "		defer p.small.Add(-1)", "		if !PLANTED {\n			defer p.small.Add(-1)\n		}"),
		},
		{
			rule: "what is longer than a window as well", found: own,
			edits: in("lane.go", "len(c.req.Raw())+len(c.up.kept) > laneRequest", "len(c.req.Raw())+len(c.up.kept) > laneRequest && !PLANTED"),
		},
		{
			rule: "what a lane has failed goes by none", found: loses,
			edits: in("lane.go", "	case c.x.laneless:\n", "	case c.x.laneless && !PLANTED:\n"),
		},
		{
			rule: "what nobody has read goes again, though it was half said", found: "TestWhatWasNotTakenGoesAgainThoughItWasHalfSaid",
			edits: in("flow.go", "before || p.untaken() {", "before || p.untaken() && !PLANTED {"),
		},
		{
			rule: "and what was written", found: "TestWhatWasNotTakenGoesAgainWhateverItIs",
			edits: in("flow.go", "		if p.untaken() {", "		if p.untaken() && !PLANTED {"),
		},
		{
			rule: "and at once", found: "TestWhatWasNotTakenGoesAgainThoughItWasHalfWritten",
			edits: in("trip.go", "|| p.l.reused || p.l.lane != nil:", "|| p.l.reused || p.l.lane != nil && !PLANTED:"),
		},
	}
}
