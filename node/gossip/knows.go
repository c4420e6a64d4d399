package gossip

import "github.com/hashicorp/serf/serf"

// HasNode reports whether gossip shows a node with this ID that has not left.
func (g *Gossip) HasNode(id string) bool {
	for _, member := range g.serf.Members() {
		if member.Name == id && isNode(id, member.Tags[tagNode]) {
			return member.Status != serf.StatusLeft
		}
	}
	return false
}
