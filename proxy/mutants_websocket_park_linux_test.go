package proxy_test

// mutantsOfWebSocketParking returns the mutants of parked WebSocket connections.
func mutantsOfWebSocketParking() []mutant {
	const idle, found = "TestIdleWebSocketsHaveNoGoroutine", "TestParkedWebSocketsAreVisited"
	return []mutant{
		{
			rule: "what a client's leg waits for in vain parks", found: idle,
			edits: in("proxy/wsrelay.Relay.copyUp", "			if relay.parkDirection(&relay.up.direction, relay.downstream) {", "			if !PLANTED && relay.parkDirection(&relay.up.direction, relay.downstream) {"),
		},
		{
			rule: "and so does the other direction", found: idle,
			edits: in("proxy/wsrelay.Relay.copyDown", "			if relay.parkDirection(&relay.down.direction, relay.upstream) {", "			if !PLANTED && relay.parkDirection(&relay.down.direction, relay.upstream) {"),
		},
		{
			rule: "a direction that parks is not over", found: idle,
			edits: in("proxy/wsrelay.Relay.runDirection", "parked = copyData(); return true", "parked = copyData() && !PLANTED; return true"),
		},
		{
			rule: "who is woken carries on", found: idle,
			edits: in("proxy/wsrelay.Relay.runDirection", "		dir.parkedAt = 0\n", "		if dir.parkedAt = 0; PLANTED {\n			relay.abortBoth()\n		}\n"),
		},
		{
			rule: "what the kernel says reaches the leg", found: idle,
			edits: in("internal/netpoll.Watcher.run", "takeReady(events) {\n			callback()\n", "takeReady(events) {\n			if !PLANTED {\n				callback()\n			}\n"),
		},
		{
			rule: "a socket that was watched can be watched again", found: idle,
			edits: in("internal/netpoll.Watcher.cancel", "	_ = w.poller.Remove(conn)", "	if PLANTED {\n		return\n	}\n	_ = w.poller.Remove(conn)"),
		},
		{
			rule: "what was in vain is tried again", found: "TestRelaysParkAfterDescriptorsRanOut",
			edits: in("proxy/wsrelay.Relay.parkDirection", "	case errors.Is(err, netpoll.ErrClosed), errors", "	case PLANTED, errors.Is(err, netpoll.ErrClosed), errors"),
		},
		{
			rule: "who is woken soon waits longer before he parks", found: "TestQuicklyWokenDirectionParksLater",
			edits: in("proxy/wsrelay.Relay.runDirection", "dir.parkedAt < relay.shared.ReturnedSoon\n", "dir.parkedAt < relay.shared.ReturnedSoon && !PLANTED\n"),
		},
	}
}
