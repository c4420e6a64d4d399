package proxy

// Stalled returns the nodes that this one has forwarded requests to which were
// running at the last call already, each once. The caller looks whether they can
// still be reached: a wire that was cut says nothing by itself for as long as the
// kernel has patience. It is called from one goroutine.
func (s *Server) Stalled() []string {
	var nodes []string
	seen := map[string]bool{}
	s.stalledScratch = s.conns.visit(s.stalledScratch[:0], func(all []*client) {
		for _, c := range all {
			if node, stalled := c.ranAtLastCall(); stalled && !seen[node] {
				seen[node] = true
				nodes = append(nodes, node)
			}
		}
	})
	return nodes
}

// stalls reports whether the connection runs at another node what it ran at the last call.
func (c *client) ranAtLastCall() (node string, stalled bool) {
	at := c.slot.node.Load()
	r := c.slot.load()
	stalled = r.kind == Remote && r.cause == causeNone && r.number == c.lastSeen
	c.lastSeen = r.number
	if stalled && at != nil {
		return *at, true
	}
	return "", false
}
