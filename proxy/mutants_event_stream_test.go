package proxy_test

// mutantsOfEventStreams returns the mutants of resumable event streams.
func mutantsOfEventStreams() []mutant {
	const others, goes, ends = "TestOtherEventStreamsAreCancelled", "TestEventStreamResumesAtNextOwner", "TestUnsuitableResponseEndsResumedStream"
	return []mutant{
		{
			rule: "a stream goes on if its app says so", found: others,
			edits: in("proxy.responseRelay.permitsResume", "strings.EqualFold(string(res.Known(h1.FieldShardwayStream)), eventrelay.ValueResume) &&", "(PLANTED || strings.EqualFold(string(res.Known(h1.FieldShardwayStream)), eventrelay.ValueResume)) &&"),
		},
		{
			rule: "of a GET", found: others,
			edits: in("proxy.responseRelay.isRepeatableGet", `string(rr.req.Method()) == "GET" &&`, `(PLANTED || string(rr.req.Method()) == "GET") &&`),
		},
		{
			rule: "without a body", found: others,
			edits: in("proxy.responseRelay.isRepeatableGet", "rr.req.Body.Kind() == h1.NoBody", "(PLANTED || rr.req.Body.Kind() == h1.NoBody)"),
		},
		{
			rule: "that asks for no range", found: others,
			edits: in("proxy.responseRelay.isRepeatableGet", `rr.req.Value("Range") == nil`, `(PLANTED || rr.req.Value("Range") == nil)`),
		},
		{
			rule: "and has shown an id", found: others,
			edits: in("proxy/eventrelay.Relay.resumableFlag", "(hasID || hasEarlierID)", "(hasID || hasEarlierID || PLANTED)"),
		},
		{
			rule: "which a request can carry", found: others,
			edits: in("proxy/eventstream.Scanner.ID", "!s.ids.seen || s.ids.invalid {", "!s.ids.seen || s.ids.invalid && !PLANTED {"),
		},
		{
			rule: "not coded", found: others + "|" + ends,
			edits: in("proxy/eventrelay.IsResumableResponse", `res.Value("Content-Encoding") == nil &&`, `(PLANTED || res.Value("Content-Encoding") == nil) &&`),
		},
		{
			rule: "nor a part", found: others,
			edits: in("proxy/eventrelay.IsResumableResponse", `res.Value("Content-Range") == nil`, `(PLANTED || res.Value("Content-Range") == nil)`),
		},
		{
			rule: "nor of a known length", found: "TestEventStreamWithLengthIsCancelled",
			edits: in("proxy/eventrelay.IsResumableResponse", "res.ContentLength() < 0 &&", "(PLANTED || res.ContentLength() < 0) &&"),
		},
		{
			rule: "answered with 200 as an event stream", found: others + "|" + ends,
			edits: in("proxy/eventrelay.IsEvents", "|| res.Status() != 200 {", "|| res.Status() != 200 && !PLANTED {"),
		},
		{
			rule: "as is the request for a further leg", found: ends,
			edits: in("proxy.retrier.acceptsResumption", "	case !eventrelay.IsResumableResponse(&attempt.conn.Response):", "	case !PLANTED && !eventrelay.IsResumableResponse(&attempt.conn.Response):"),
		},
		{
			rule: "it ends between events", found: "TestIncompleteEventOfDeadOwnerIsDropped",
			edits: in("proxy/eventstream.Buffer.Write", "	h.buffered = append(h.buffered, p...)\n	return nil", "	if PLANTED {\n		return h.flush(w, p)\n	}\n	h.buffered = append(h.buffered, p...)\n	return nil"),
		},
		{
			rule: "at once when its shard moves", found: "TestOnlyResumableStreamsEndAtOnce",
			edits: in("proxy.sweeper.eventStreamGrace", "		return 0 //", "		if PLANTED {\n			return grace\n		}\n		return 0 //"),
		},
		{
			rule: "the next owner is asked with the last id", found: goes,
			edits: in("proxy.requestWriter.appendAtIngress", "		dst = stream.AppendHeaders(dst, attempt.slot.Events.LastEventID())", "		id := attempt.slot.Events.LastEventID()\n		if PLANTED {\n			id = nil\n		}\n		dst = stream.AppendHeaders(dst, id)"),
		},
		{
			rule: "and with no other", found: goes,
			edits: in("proxy.requestWriter.appendAtIngress", "		edit.Drop |= h1.FieldSetOf(h1.FieldLastEventID)\n", "		if !PLANTED {\n			edit.Drop |= h1.FieldSetOf(h1.FieldLastEventID)\n		}\n"),
		},
		{
			rule: "an empty one sends no header", found: goes,
			edits: in("proxy/eventrelay.Stream.AppendHeaders", "	if len(id) > 0 {", "	if len(id) > 0 || PLANTED {"),
		},
		{
			rule: "each request has its number", found: goes,
			edits: in("proxy/eventrelay.Stream.AppendHeaders", "AppendResumed(dst, stream.resumeRequests+1)", "AppendResumed(dst, stream.resumeRequests+map[bool]uint64{false: 1}[PLANTED])"),
		},
		{
			rule: "also one that broke off at an owner", found: "TestEachResumeRequestHasItsNumber",
			edits: in("proxy.requestState.readResumption", "state.exchange.senderResumeCount > 0 {\n		state.exchange.safety", "state.exchange.senderResumeCount > 0 && !PLANTED {\n		state.exchange.safety"),
		},
		{
			rule: "and one that is asked at once", found: "TestResumeRequestHasNumber",
			edits: in("proxy.attemptRunner.sendRequest", "		runner.exchange.eventStream.CountRequest() // SendChecked also", "		if !PLANTED {\n			runner.exchange.eventStream.CountRequest()\n		} // SendChecked also"),
		},
		{
			rule: "one that is not answered moves on with its shard, from this node", found: "TestUnansweredResumeFollowsItsShard",
			edits: in("proxy.retrier.decideAfterDrainTimeout", "	case retry.exchange.eventStream != nil:", "	case retry.exchange.eventStream != nil && !PLANTED:"),
		},
		{
			rule: "and from another", found: "TestUnansweredResumeFollowsItsShard",
			edits: in("proxy.attemptRunner.processResumedStream", "brokeAtOwner(attempt) || drainedAtOwner(attempt) {", "brokeAtOwner(attempt) || drainedAtOwner(attempt) && !PLANTED {"),
		},
		{
			rule: "with all of its time to wait in", found: "TestUnansweredResumeFollowsItsShard",
			edits: in("proxy.retrier.retryAtNextOwner", "	retry.resetRetries()\n	return decision{action: actionRetry}", "	if !PLANTED {\n		retry.resetRetries()\n	}\n	return decision{action: actionRetry}"),
		},
		{
			rule: "but not for ever at one owner", found: "TestRepeatedlyDrainedResumeEnds",
			edits: in("proxy.retrier.retryAtNextOwner", "	stream.Epoch = attempt.epoch\n", "	if !PLANTED {\n		stream.Epoch = attempt.epoch\n	}\n"),
		},
		{
			rule: "a byte order mark stays behind", found: goes,
			edits: in("proxy/eventstream.Buffer.Write", "	if h.mayBeBOM {", "	if h.mayBeBOM && !PLANTED {"),
		},
		{
			rule: "what is not whole is forgotten", found: "TestIncompleteEventOfDeadOwnerIsDropped",
			edits: in("proxy/eventstream.Buffer.Resume", "func (h *Buffer) Resume() {\n	h.reset()", "func (h *Buffer) Resume() {\n	if !PLANTED {\n		h.reset()\n	}"),
		},
		{
			rule: "an event that is too long ends its stream", found: "TestStreamCancelledInLongEventEnds",
			edits: in("proxy.responseRelay.canResumeAfter", "&& !sentPartOfEvent &&", "&& (PLANTED || !sentPartOfEvent) &&"),
		},
		{
			rule: "the app's clean end is final", found: goes + "|TestLastResponseNeedsNoResumePermission",
			edits: in("proxy/eventrelay.Relay.Copy", "		case errors.Is(err, io.EOF) && e.buffer != nil:\n			return nil, e.buffer.End(writer)", "		case errors.Is(err, io.EOF) && e.buffer != nil:\n			if PLANTED {\n				return ErrEnded, writer.Flush()\n			}\n			return nil, e.buffer.End(writer)"),
		},
		{
			rule: "it waits in a room of its own, too", found: "TestStreamsHaveOwnQueue",
			edits: in("proxy.requestWait.enterQueue", "	case wait.exchange.eventStream != nil:", "	case wait.exchange.eventStream != nil && !PLANTED:"),
		},
		{
			rule: "an owner that breaks it off again and again is not asked for ever", found: "TestRepeatedlyBrokenStreamEnds",
			edits: in("proxy/eventrelay.Stream.TryResume", "!oldest.IsZero() && now.Sub(oldest) < resumePeriod {", "!oldest.IsZero() && now.Sub(oldest) < resumePeriod && !PLANTED {"),
		},
		{
			rule: "but each owner of the stream has its own limit", found: "TestLimitOfResumptionsAppliesPerOwner",
			edits: in("proxy/eventrelay.Stream.TryResume", "		stream.recentResumes = [maxResumes]time.Time{}\n", "		if !PLANTED {\n			stream.recentResumes = [maxResumes]time.Time{}\n		}\n"),
		},
		{
			rule: "an owner that drains its clients does not end the streams of other nodes", found: "TestStreamOfPeerContinuesWhileClientsDrain",
			edits: in("proxy.sweeper.causeOfStreamEnd", "&& !sweeper.continuesForPeer(c, current) {", "&& (PLANTED || !sweeper.continuesForPeer(c, current)) {"),
		},
		{
			rule: "a restart in place is no break", found: "TestStreamSurvivesRestartsInPlace",
			edits: in("proxy.requestWait.waitFor", "	if result.reason == route.ReasonRestarting {", "	if result.reason == route.ReasonRestarting && !PLANTED {"),
		},
	}
}
