package node

import "shardway/peer/trunk"

// Lane opens a lane to another node as the proxy does; nil: there is none now.
func (n *Node) Lane(node string) *trunk.Lane { return n.router.lanes.set.Lane(node) }

// LanesOf counts the lanes of another node that this one serves.
func (n *Node) LanesOf(node string) (count int) {
	a := &n.router.lanes.accepted
	a.Lock()
	defer a.Unlock()
	for g, v := range a.nodes {
		if g.node == node {
			count += v.budget.Lent()
		}
	}
	return count
}
