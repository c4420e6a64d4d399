package gossip

import "github.com/hashicorp/serf/serf"

// Knows reports whether gossip shows a node with this ID that has not left.
func (g *Gossip) Knows(id string) bool {
	for _, m := range g.serf.Members() {
		if m.Name == id && m.Tags[tagNode] == id {
			return m.Status != serf.StatusLeft
		}
	}
	return false
}
