package proxy

// keysBy returns the key configuration by which keys are found under a table.
func (a *asked) keysBy(t *Table) *Keys {
	if t.keys != nil {
		return t.keys
	}
	return a.set.Keys
}

// rekey finds the key of a request anew, because the key configuration has changed since it
// was found. A request that may have run may have another owner now, so only one of a safe
// method goes on.
func (c *client) rekey(by *Keys) verdict {
	if c.x.mayHaveRun() && c.x.safety != safeMethod {
		return fail(brokenCode(c.x.route), mayHaveRun)
	}
	c.keys.keys = by
	found, bad := c.keys.find(c.s.upstream == nil)
	switch {
	case bad != nil && c.x.resumed != nil:
		c.reply.giveUp(resumeLate, bad.Detail)
		return done
	case bad != nil:
		c.reply.problem(bad)
		return done
	}
	c.x.found, c.x.by, c.x.sharded = found, by, false
	return verdict{}
}
