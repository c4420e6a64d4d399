package proxy

import "shardway/proxy/route"

// Stalled returns the nodes to which this node has forwarded requests that were in progress at the
// previous call already. Each node is returned once. The caller checks whether these nodes can
// still be reached, because a broken path causes no error until the retransmissions of the kernel
// time out. One goroutine calls Stalled.
func (s *Server) Stalled() []string {
	var nodes []string
	seen := map[string]bool{}
	s.stalledScratch = s.conns.Visit(s.stalledScratch[:0], func(all []*client) {
		for _, c := range all {
			if node, stalled := c.ranAtLastCall(); stalled && !seen[node] {
				seen[node] = true
				nodes = append(nodes, node)
			}
		}
	})
	return nodes
}

// ranAtLastCall reports whether the connection still runs the request that it ran at the last call,
// and its node.
func (c *client) ranAtLastCall() (node string, stalled bool) {
	nodeName := c.slot.NodeName() // loaded before the run, so it is not the node of a later run
	current := c.slot.Load()
	isSameRun := current.Number == c.stalledSeenRun
	c.stalledSeenRun = current.Number
	runsAtNode := current.Kind == route.Remote && !current.IsCancelled() && nodeName != ""
	if isSameRun && runsAtNode {
		return nodeName, true
	}
	return "", false
}
