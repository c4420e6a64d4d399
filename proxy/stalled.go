package proxy

import (
	"shardway/proxy/inflight"
	"shardway/proxy/route"
)

// Stalled returns the nodes to which this node has forwarded requests that were in progress at the
// previous call already. Each node is returned once. The caller checks whether these nodes can
// still be reached, because a broken path causes no error until the retransmissions of the kernel
// time out. One goroutine calls Stalled.
func (s *Server) Stalled() []string {
	var nodes []string
	seen := map[string]bool{}
	s.stalledScratch = s.conns.Visit(s.stalledScratch[:0], func(all []*client) {
		for _, c := range all {
			if node, stalled := c.stall.isStalled(&c.slot); stalled && !seen[node] {
				seen[node] = true
				nodes = append(nodes, node)
			}
		}
	})
	return nodes
}

// stallDetector detects that a connection still runs the same request as a while ago.
type stallDetector struct {
	lastRun uint32 // number of the run at the last call of isStalled
}

// isStalled reports whether the run in slot is the same as at the last call, and was forwarded to
// another node. node is the name of that node.
func (stall *stallDetector) isStalled(slot *inflight.Slot) (node string, stalled bool) {
	nodeName := slot.NodeName() // loaded before the run, so it is not the node of a later run
	current := slot.Load()
	isSameRun := current.Number == stall.lastRun
	stall.lastRun = current.Number
	runsAtNode := current.Kind == route.Remote && !current.IsCancelled() && nodeName != ""
	if isSameRun && runsAtNode {
		return nodeName, true
	}
	return "", false
}
