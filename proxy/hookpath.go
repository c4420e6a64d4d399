package proxy

import "shardway/internal/problem"

// refuseHookPath responds to a request for the path of the hooks, and reports whether it did.
func (c *client) refuseHookPath() bool {
	if !c.isHookPath() {
		return false
	}
	c.reply.sendProblem(&problem.Problem{Code: problem.NotFound, Detail: "the app's hooks are not for clients (--hooks)"})
	return true
}

// isHookPath reports whether an app could read the path of the request as the path of its hooks.
// The hooks of all services are protected on all hosts.
func (c *client) isHookPath() bool {
	if c.server.hookPath.Matches(c.keys.Grow, c.req.Path()) {
		return true
	}
	for i := range c.server.furtherHookPaths {
		if c.server.furtherHookPaths[i].Matches(c.keys.Grow, c.req.Path()) {
			return true
		}
	}
	return false
}
