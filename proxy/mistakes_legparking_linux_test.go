package proxy_test

// mistakesOfLegParking are those with legs that have no goroutine.
func mistakesOfLegParking() []mistake {
	const idle, found = "TestIdleSocketsHaveNoGoroutine", "TestParkedSocketsAreFound"
	return []mistake{
		{
			rule: "what a client's leg waits for in vain parks", found: idle,
			edits: in("proxy.leg.upward", "			if l.park(&l.up.half, l.near) {", "			if !PLANTED && l.park(&l.up.half, l.near) {"),
		},
		{
			rule: "and so does the other direction", found: idle,
			edits: in("proxy.leg.downward", "			if l.park(&l.down.half, l.far) {", "			if !PLANTED && l.park(&l.down.half, l.far) {"),
		},
		{
			rule: "a direction that parks is not over", found: idle,
			edits: in("proxy.leg.carries", "parked = direction(); return true", "parked = direction() && !PLANTED; return true"),
		},
		{
			rule: "who is woken carries on", found: idle,
			edits: in("proxy.leg.carries", "		h.since = 0\n", "		if h.since = 0; PLANTED {\n			l.cutBoth()\n		}\n"),
		},
		{
			rule: "what the kernel says reaches the leg", found: idle,
			edits: in("proxy.roost.run", "			f()\n		}\n	}\n	r.mu.Lock()", "			if !PLANTED {\n				f()\n			}\n		}\n	}\n	r.mu.Lock()"),
		},
		{
			rule: "a socket that was watched can be watched again", found: idle,
			edits: in("proxy.roost.leave", "	_ = r.lookout.Remove(conn)", "	if PLANTED {\n		return\n	}\n	_ = r.lookout.Remove(conn)"),
		},
		{
			rule: "what was in vain is tried again", found: "TestLegsParkAfterAMomentWithoutDescriptors",
			edits: in("proxy.leg.park", "	case isPermanent(err):\n", "	case isPermanent(err) || PLANTED:\n"),
		},
		{
			rule: "who is woken soon waits longer before he parks", found: "TestWhoIsWokenSoonParksLater",
			edits: in("proxy.leg.carries", "h.since < parkAfterReturn {", "h.since < parkAfterReturn && !PLANTED {"),
		},
	}
}
