package gossip

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/serf/serf"
)

// A node without a cluster must not be added to one by chance when its join addresses belong to
// two. Until each join address was asked once, it announces no disk, and no leader adds a node
// without a disk. The members of the first cluster that answers are accepted, because there is
// no other way to learn of them; those of another cluster are refused, and then the node goes on
// announcing no disk, until that address belongs to the first cluster or the node is restarted.

// identityPatience bounds the time for which a node waits for the answers of join addresses
// before it may be added to a cluster.
const choiceTimeout = 3 * time.Second

// Conflict is two join addresses that belong to different clusters.
type Conflict struct {
	First, Second Party
}

// Party is one cluster as a join address showed it. Cluster is the id, Node the node that
// answered, and Addr its gossip address.
type Party struct{ Cluster, Node, Addr string }

// identity is what a node knows of the clusters to which its join addresses belong.
type clusterChoice struct {
	// undecided is true while the node announces no disk.
	undecided atomic.Bool
	// met is the cluster that answered first, while this node has none.
	first atomic.Pointer[Party]

	mu sync.Mutex
	// conflicts are the addresses that belong to another cluster.
	conflicts map[netip.AddrPort]Conflict
}

// announced returns the tags as the others get them.
func (g *Gossip) announcedTags() Tags {
	t := *g.tags.Load()
	if t.Cluster == "" && g.choice.undecided.Load() {
		t.Disk = ""
	}
	return t
}

// decide lets the node be added to the cluster that its join addresses have shown, if they show
// only one.
func (g *Gossip) decide() {
	if _, conflict := g.Conflict(); !conflict && g.choice.undecided.CompareAndSwap(true, false) {
		notify(g.tagsChanged)
	}
}

// Conflict returns two join addresses that belong to different clusters; false: there are none.
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

// noteJoin notes whether a join address belongs to another cluster than this node, or than the
// cluster that answered first.
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

// meet notes the cluster of members that are accepted while this node has none. memberlist's lock
// is held.
func (i *clusterChoice) recordFirst(m *serf.Member) {
	if cluster := m.Tags[tagCluster]; cluster != "" && i.first.Load() == nil {
		i.first.CompareAndSwap(nil, &Party{cluster, m.Name, addrOf(*m).String()})
	}
}

// forgetMet forgets the cluster that answered first if none of its members is alive any more.
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
