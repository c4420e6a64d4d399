package proxy_test

// mutantsOfFirstMessages returns the mutants of WebSockets whose key is in the first message, and of
// messages that are replayed to the app.
func mutantsOfFirstMessages() []mutant {
	const refused, accepted, unacceptable, app = "TestFirstMessageIsRefused", "TestWebSocketIsRoutedByFirstMessage", "TestUnacceptableUpgradeIsRejected", "TestAppRefusesAcceptedWebSocket"
	const replayed, gap, undefined = "TestFirstMessagesAreReplayed", "TestReplayAfterGapSkipsIncompleteMessage", "TestUndefinedReplayIsNotResumable"
	return []mutant{
		{
			rule: "an upgrade to several protocols has no other key", found: "TestUpgradeToSeveralProtocolsIsRejected",
			edits: in("proxy/shardkey.Extractor.firstMessageKey", "e.isUnclearUpgrade() {", "!PLANTED && e.isUnclearUpgrade() {"),
		},
		{
			rule: "a binary message has no key", found: refused,
			edits: in("proxy/shardkey.FirstMessage.keyFrom", "	case !m.IsText:", "	case !m.IsText && !PLANTED:"),
		},
		{
			rule: "a binary message has no key of a later source", found: "TestAmbiguousFirstMessageHasNoKeyOfLaterSource",
			edits: in("proxy/shardkey.FirstMessage.keyFrom", "		return nil, detailBinary", "		if PLANTED {\n			return nil, \"\"\n		}\n		return nil, detailBinary"),
		},
		{
			rule: "a key in a message is not too long", found: refused,
			edits: in("proxy/shardkey.FirstMessage.keyFrom", "	if len(key) > maxBodyKey {", "	if len(key) > maxBodyKey && !PLANTED {"),
		},
		{
			rule: "an ambiguous document is refused", found: "TestAmbiguousFirstMessageHasNoKeyOfLaterSource",
			edits: in("proxy/shardkey.FirstMessage.keyFrom", "err != nil {", "err != nil && !PLANTED {"),
		},
		{
			rule: "a resumed WebSocket keeps the key of the same source only", found: "TestResumedWebSocketKeepsKeyOfFirstMessage",
			edits: in("proxy/shardkey.FirstMessage.keyFrom", "if m.keySource == source.String() {", "if m.keySource == source.String() || PLANTED {"),
		},
		{
			rule: "the first message is limited", found: refused,
			edits: in("proxy/wsframe.Assembler.Step", "> uint64(a.maxBytes) {", "> uint64(a.maxBytes) && !PLANTED {"),
		},
		{
			rule: "a text is valid UTF-8", found: refused,
			edits: in("proxy/wsframe.Assembler.Step", "	if a.op == OpText &&", "	if !PLANTED && a.op == OpText &&"),
		},
		{
			rule: "a message may have fragments", found: accepted,
			edits: in("proxy/wsframe.Assembler.Step", "	if s.inMessage {", "	if s.inMessage && !PLANTED {"),
		},
		{
			rule: "control frames before the message are limited", found: refused,
			edits: in("proxy/wsfirst.reader.answer", "r.controlFrames > maxControlFrames {", "r.controlFrames > maxControlFrames && !PLANTED {"),
		},
		{
			rule: "a ping before the message is answered", found: accepted,
			edits: in("proxy/wsfirst.reader.answer", "	case wsframe.OpPing:", "	case wsframe.OpPing + map[bool]byte{true: 0x10}[PLANTED]:"),
		},
		{
			rule: "the version is 13", found: unacceptable,
			edits: in("proxy/wsfirst.CheckUpgrade", `string(version) != "13" ||`, `string(version) != "13" && !PLANTED ||`),
		},
		{
			rule: "the key of the handshake is there once", found: unacceptable,
			edits: in("proxy/wsfirst.uniqueValue", "req.Find(name, first+1) < 0", "PLANTED || req.Find(name, first+1) < 0"),
		},
		{
			rule: "a subprotocol is selected from the list only", found: unacceptable,
			edits: in("proxy/wsfirst.SelectProtocol", "	if len(offered) == 0 {", "	if len(offered) == 0 || PLANTED {"),
		},
		{
			rule: "the app selects the same subprotocol", found: app,
			edits: in("proxy/wsfirst.Accepted.Mismatch", "!= accepted.Protocol:", "!= accepted.Protocol && !PLANTED:"),
		},
		{
			rule: "the app selects no extension", found: app,
			edits: in("proxy/wsfirst.Accepted.Mismatch", "	case res.Has(h1.FieldSecWebSocketExtensions):", "	case res.Has(h1.FieldSecWebSocketExtensions) && !PLANTED:"),
		},
		{
			rule: "the app gets no offer of extensions", found: accepted,
			edits: in("proxy.requestWriter.appendAtIngress", "	if rw.exchange.accepted != nil {", "	if rw.exchange.accepted != nil && !PLANTED {"),
		},
		{
			rule: "the client has one 101 only", found: accepted,
			edits: in("proxy.requestState.clientHasUpgraded", "return state.exchange.accepted != nil", "return state.exchange.accepted != nil && !PLANTED"),
		},
		{
			rule: "the client gets a close frame for a problem", found: refused + "|TestProblemAfterFirstMessageClosesWebSocket",
			edits: in("proxy.reply.sendProblemWith", "	if reply.exchange.accepted != nil {", "	if reply.exchange.accepted != nil && !PLANTED {"),
		},
		{
			rule: "a flood evicts itself", found: "TestFloodOfSilentWebSocketsEvictsItself",
			edits: in("proxy/wsfirst.Limit.largestOrigin", "list.Len() > largest.Len() ||", "list.Len() > largest.Len() && !PLANTED ||"),
		},
		{
			rule: "one IPv6 network is one origin", found: "TestFloodOfSilentWebSocketsEvictsItself",
			edits: in("proxy/wsfirst.originOf", "		bits = 64\n", "		bits = map[bool]int{false: 64, true: 128}[PLANTED]\n"),
		},
		{
			rule: "an earlier source comes first", found: "TestEarlierSourcePrecedesFirstMessage",
			edits: in("proxy/shardkey.Extractor.findInSources", "		source := &sources.Sources[i]\n", "		source := &sources.Sources[(i+map[bool]int{true: 1}[PLANTED])%len(sources.Sources)]\n"),
		},
		{
			rule: "each upstream connection gets the first messages", found: replayed,
			edits: in("proxy/wsrelay.Session.RecordStart", "		session.prologue = session.replay.messages()\n", "		if !PLANTED || session.Relays < 3 {\n			session.prologue = session.replay.messages()\n		}\n"),
		},
		{
			rule: "no more than it has requested", found: replayed,
			edits: in("proxy/wsrelay.replay.record", "		r.messagesLeft--\n", "		if !PLANTED {\n			r.messagesLeft--\n		}\n"),
		},
		{
			rule: "control frames are not replayed", found: replayed,
			edits: in("proxy/wsrelay.replay.record", "|| scanner.IsControl() ||", "|| scanner.IsControl() && !PLANTED ||"),
		},
		{
			rule: "an incomplete message is not replayed", found: gap,
			edits: in("proxy/wsrelay.replay.messages", "	r.frames = r.frames[:r.completeLen]\n", "	if !PLANTED {\n		r.frames = r.frames[:r.completeLen]\n	}\n"),
		},
		{
			rule: "too long messages end the WebSocket at a move", found: "TestTooLongReplayEndsAtMove",
			edits: in("proxy/wsrelay.Relay.decideOutcome", "	if session.NeedsRelay && session.replay.failure != \"\" {", "	if session.NeedsRelay && session.replay.failure != \"\" && !PLANTED {"),
		},
		{
			rule: "the messages of all WebSockets are limited", found: "TestReplayMemoryIsLimited",
			edits: in("proxy/wsrelay.ReplayMemory.add", "> limit {", "> limit && !PLANTED {"),
		},
		{
			rule: "the end of a WebSocket releases its messages", found: "TestReplayMemoryIsLimited",
			edits: in("proxy.client.finishExchange", "		c.exchange.session.ReleaseReplay()\n", "		if !PLANTED {\n			c.exchange.session.ReleaseReplay()\n		}\n"),
		},
		{
			rule: "a WebSocket beyond the limit keeps no messages", found: "TestReplayMemoryIsLimited",
			edits: in("proxy/wsrelay.replay.store", "			r.release()\n			r.failure = wsession.ReasonReplayMemory\n", "			if !PLANTED {\n				r.release()\n			}\n			r.failure = wsession.ReasonReplayMemory\n"),
		},
		{
			rule: "replay has a defined value", found: undefined,
			edits: in("proxy/wsrelay.ParseConsent", "!isCanonical ||", "!isCanonical && !PLANTED ||"),
		},
		{
			rule: "replay is within its limits", found: undefined,
			edits: in("proxy/wsrelay.ParseConsent", "|| replay < 1 || replay > maxReplayMessages {", "|| !PLANTED && (replay < 1 || replay > maxReplayMessages) {"),
		},
		{
			rule: "the message with the key is the first one", found: "TestReplayContainsFirstMessageWithKey",
			edits: in("proxy/wsrelay.Session.RecordStart", "ReplayOf(res), session.prologue)", "ReplayOf(res), map[bool][]byte{false: session.prologue}[PLANTED])"),
		},
	}
}
