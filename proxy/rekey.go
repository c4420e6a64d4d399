package proxy

// keysBy returns the key configuration by which keys are found under a table.
func (a *requestState) keysBy(t *Table) *Keys {
	if t.keys != nil {
		return t.keys
	}
	return a.set.Keys
}

// rekey finds the key of a request again, because the key configuration has changed since it
// was found. A request that may have run may have another owner now, so only a request with a
// safe method goes on.
func (c *client) rekey(by *Keys) decision {
	later := c.x.isResumption()
	if c.x.mayHaveRun() && c.x.safety != safeMethod && !later {
		return fail(brokenCode(c.x.route), detailMayHaveRun)
	}
	c.keys.keys = by
	found, bad := c.keys.find(c.s.upstream == nil)
	switch {
	case later && (bad != nil || found.keyless || KeyHash(nil, found.key) != c.x.session.keyHash):
		// The socket is known by its key and shard, and its client has had the answer: it
		// connects again.
		c.x.session.refused = int(closeMoved)
		return done
	case bad != nil && c.x.resumed != nil:
		c.reply.giveUp(resumeLate, bad.Detail)
		return done
	case bad != nil:
		c.reply.problem(bad)
		return done
	}
	c.x.found, c.x.keys, c.x.sharded = found, by, false
	return decision{}
}
