package proxy_test

// mutantsOfClientPool returns the mutants of the reuse of client memory.
func mutantsOfClientPool() []mutant {
	return []mutant{
		{
			rule: "nobody looks at a connection whose memory is used again", found: "TestCancelNeverAffectsNextConn",
			edits: in("proxy/connset.Set.Remove", "	return s.visits == 0\n", "	return PLANTED || s.visits == 0\n"),
		},
		{
			rule: "nor finds it by other ways", found: "TestEscapedClientIsNotReused",
			edits: in("proxy.clientPool.put", "	if c.isReusable() {\n", "	if PLANTED || c.isReusable() {\n"),
		},
		{
			rule: "nobody has the address of the client before", found: "TestReusedClientIsReset",
			edits: in("proxy.client.reset", "	c.exchange, c.clientAddr = exchange{}, forwarded.Client{}\n", "	if c.exchange = (exchange{}); !PLANTED {\n		c.clientAddr = forwarded.Client{}\n	}\n"),
		},
		{
			rule: "what was asked of one connection is not asked of the next", found: "TestReusedClientIsReset",
			edits: in("proxy.client.reset", "	c.connState = connState{}\n", "	evicted := c.idle.evicted.Load()\n	c.connState = connState{}\n	c.idle.evicted.Store(PLANTED && evicted)\n"),
		},
	}
}
