package gossip

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/serf/serf"
)

// If the join addresses of a new node belong to two clusters, neither may add the node by chance. The
// node announces no disk before it has contacted each join address once, and no leader adds a node
// without a disk. The node accepts the members of the first cluster that responds, because it has no
// other way to find them. It refuses members of another cluster. It then continues to announce no disk
// until that address belongs to the first cluster, or the node restarts.

// choiceTimeout is how long a node waits for its join addresses before a cluster may add it.
const choiceTimeout = 3 * time.Second

// Conflict is a pair of join addresses that belong to different clusters.
type Conflict struct {
	First, Second Party
}

// Party is a cluster found at a join address: its ID, the node that responded, and the gossip
// address of this node.
type Party struct{ Cluster, Node, Addr string }

// clusterChoice records which clusters the join addresses of a node belong to.
type clusterChoice struct {
	// undecided is true while the node announces no disk.
	undecided atomic.Bool
	// first is the cluster that responded first. It is used while this node has no cluster.
	first atomic.Pointer[Party]

	mu sync.Mutex // protects conflicts
	// conflicts has the join addresses that belong to another cluster.
	conflicts map[netip.AddrPort]Conflict
}

// announcedTags returns the tags as other nodes receive them.
func (g *Gossip) announcedTags() Tags {
	t := *g.tags.Load()
	if t.Cluster == "" && g.choice.undecided.Load() {
		t.Disk = ""
	}
	return t
}

// decide allows a cluster to add the node if the join addresses do not belong to different
// clusters.
func (g *Gossip) decide() {
	if _, conflict := g.Conflict(); !conflict && g.choice.undecided.CompareAndSwap(true, false) {
		notify(g.tagsChanged)
	}
}

// Conflict returns two join addresses that belong to different clusters. found is false if there
// are none.
func (g *Gossip) Conflict() (c Conflict, found bool) {
	g.choice.mu.Lock()
	defer g.choice.mu.Unlock()
	var first netip.AddrPort
	for addr, x := range g.choice.conflicts {
		if !found || addr.Compare(first) < 0 {
			c, first, found = x, addr, true
		}
	}
	return c, found
}

// recordJoinResult records whether a join address belongs to another cluster than this node, or
// than the first cluster.
func (g *Gossip) recordJoinResult(to netip.AddrPort, err error) {
	g.choice.mu.Lock()
	defer g.choice.mu.Unlock()
	r, refused := errors.AsType[*RefusedError](err)
	switch {
	case err == nil:
		delete(g.choice.conflicts, to)
	case refused && r.What == tagCluster && !r.Superseded && !r.theirFault:
		c := Conflict{First: Party{Cluster: r.Mine}, Second: Party{r.Theirs, r.Member, to.String()}}
		if met := g.choice.first.Load(); met != nil && met.Cluster == r.Mine {
			c.First = *met
		}
		if g.choice.conflicts == nil {
			g.choice.conflicts = map[netip.AddrPort]Conflict{}
		}
		g.choice.conflicts[to] = c
	}
}

// recordFirst records the cluster of a member that was accepted while this node has none. The lock
// of memberlist is held.
func (i *clusterChoice) recordFirst(m *serf.Member) {
	if cluster := m.Tags[tagCluster]; cluster != "" && i.first.Load() == nil {
		i.first.CompareAndSwap(nil, &Party{cluster, m.Name, addrOf(*m).String()})
	}
}

// forgetDeadChoice forgets the first cluster if none of its members is alive.
func (g *Gossip) forgetDeadChoice() {
	met := g.choice.first.Load()
	if met == nil {
		return
	}
	for _, m := range g.serf.Members() {
		if m.Status == serf.StatusAlive && m.Tags[tagCluster] == met.Cluster {
			return
		}
	}
	g.choice.first.CompareAndSwap(met, nil)
}
