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
	First, Second JoinedCluster
}

// JoinedCluster is the cluster that was found at a join address: its ID, the node that responded, and
// the gossip address of that node.
type JoinedCluster struct{ Cluster, Node, Addr string }

// clusterChoice records which clusters the join addresses of a node belong to.
type clusterChoice struct {
	// undecided is true while the node announces no disk.
	undecided atomic.Bool
	// firstJoined is the cluster that responded first. It only matters while this node has no
	// cluster.
	firstJoined atomic.Pointer[JoinedCluster]

	mu sync.Mutex // protects conflicts
	// conflicts has the join addresses that belong to another cluster.
	conflicts map[netip.AddrPort]Conflict
}

// announcedTags returns the tags as other nodes receive them.
func (g *Gossip) announcedTags() Tags {
	tags := *g.tags.Load()
	if tags.Cluster == "" && g.clusterChoice.undecided.Load() {
		tags.Disk = ""
	}
	return tags
}

// allowAdding announces the disk of this node, so that a cluster may add the node. It does nothing if
// the join addresses belong to different clusters.
func (g *Gossip) allowAdding() {
	if _, conflict := g.JoinConflict(); !conflict && g.clusterChoice.undecided.CompareAndSwap(true, false) {
		notify(g.tagsChanged)
	}
}

// JoinConflict returns two join addresses that belong to different clusters. found is false if there
// are none.
func (g *Gossip) JoinConflict() (conflict Conflict, found bool) {
	g.clusterChoice.mu.Lock()
	defer g.clusterChoice.mu.Unlock()
	var first netip.AddrPort
	for addr, candidate := range g.clusterChoice.conflicts {
		if !found || addr.Compare(first) < 0 {
			conflict, first, found = candidate, addr, true
		}
	}
	return conflict, found
}

// recordJoinResult records whether a join address belongs to a different cluster than this node, or
// than the first cluster.
func (g *Gossip) recordJoinResult(addr netip.AddrPort, err error) {
	g.clusterChoice.mu.Lock()
	defer g.clusterChoice.mu.Unlock()
	refusal, refused := errors.AsType[*RefusedError](err)
	switch {
	case err == nil:
		delete(g.clusterChoice.conflicts, addr)
	case refused && refusal.Tag == tagCluster && !refusal.Superseded && !refusal.remoteMustChange:
		conflict := Conflict{First: JoinedCluster{Cluster: refusal.LocalValue}, Second: JoinedCluster{refusal.RemoteValue, refusal.Member, addr.String()}}
		if first := g.clusterChoice.firstJoined.Load(); first != nil && first.Cluster == refusal.LocalValue {
			conflict.First = *first
		}
		if g.clusterChoice.conflicts == nil {
			g.clusterChoice.conflicts = map[netip.AddrPort]Conflict{}
		}
		g.clusterChoice.conflicts[addr] = conflict
	}
}

// recordFirst records the cluster of a member that was accepted while this node has none. The lock
// of memberlist is held.
func (c *clusterChoice) recordFirst(member *serf.Member) {
	if cluster := member.Tags[tagCluster]; cluster != "" && c.firstJoined.Load() == nil {
		c.firstJoined.CompareAndSwap(nil, &JoinedCluster{cluster, member.Name, addrOf(*member).String()})
	}
}

// forgetDeadCluster forgets the first cluster if none of its members is alive.
func (g *Gossip) forgetDeadCluster() {
	first := g.clusterChoice.firstJoined.Load()
	if first == nil {
		return
	}
	for _, member := range g.serf.Members() {
		if member.Status == serf.StatusAlive && member.Tags[tagCluster] == first.Cluster {
			return
		}
	}
	g.clusterChoice.firstJoined.CompareAndSwap(first, nil)
}
