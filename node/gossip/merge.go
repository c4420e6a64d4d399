package gossip

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/hashicorp/serf/serf"

	"shardway/endpoints"
	"shardway/node/clusterid"
)

// RefusedError is why this node and another one do not belong to the same cluster.
type RefusedError struct {
	// Member and Addr are the name and the gossip address of the other node.
	Member, Addr string
	// What names the tag that differs: "cluster", "shards", "level" or "version".
	What string
	// Mine and Theirs are the two values.
	Mine, Theirs string
	// Peer is the announced peer address of the other node; it may be empty.
	Peer string
	// Superseded means that the cluster of the other node claims to be a recovery of the cluster of
	// this node. This node must then stop, even if it serves requests. The claim comes from gossip and
	// may be outdated.
	Superseded bool
	// theirFault means that the other node must change: it has no cluster yet, or its cluster is
	// superseded by the cluster of this node.
	theirFault bool
	// noCluster means that this node has no cluster yet. Mine is the cluster that responded first.
	noCluster bool
}

// Error contains both values and the remedy.
func (e *RefusedError) Error() string {
	who := fmt.Sprintf("gossip: node %q at %s", e.Member, e.Addr)
	switch e.What {
	case tagShards:
		return fmt.Sprintf("%s has %s shards, this node has %s: start this one with --shards %s, or join another cluster", who, e.Theirs, e.Mine, e.Theirs)
	case tagCluster:
		if e.Superseded {
			return fmt.Sprintf("%s belongs to cluster %s, which was recovered from this node's cluster %s without it: the contents of this data directory are no longer valid; start with an empty --data directory to join", who, e.Theirs, e.Mine)
		}
		if e.noCluster {
			return fmt.Sprintf("%s belongs to cluster %s, another join address to cluster %s: name addresses of one cluster in --join", who, e.Theirs, e.Mine)
		}
		return fmt.Sprintf("%s belongs to cluster %s, the data directory of this node to cluster %s: join another address, or start with an empty --data directory", who, e.Theirs, e.Mine)
	case tagLevel:
		if e.theirFault {
			return fmt.Sprintf("%s knows format version %s, and format version %s is in force in this node's cluster: it must run the version of the other nodes", who, e.Theirs, e.Mine)
		}
		return fmt.Sprintf("%s belongs to a cluster in which format version %s is in force, and this program knows format version %s: run the version of the other nodes", who, e.Theirs, e.Mine)
	default:
		return fmt.Sprintf("%s uses protocol version %s, this node version %s: run compatible versions", who, e.Theirs, e.Mine)
	}
}

// mergeDelegate decides which members this node accepts. Serf calls it for the members of a state
// exchange and for each alive message. memberlist holds its lock during a call, so mergeDelegate
// only compares values.
type mergeDelegate struct {
	self        string
	mine        *atomic.Pointer[Tags]
	choice      *clusterChoice // nil means that a node without a cluster accepts members of any cluster
	lastRefusal atomic.Pointer[RefusedError]
	onRefusal   func(*RefusedError)
	// onAccepted is called with each accepted member. nil means no call.
	onAccepted func(*serf.Member)
}

var _ serf.MergeDelegate = (*mergeDelegate)(nil)

// NotifyMerge refuses all members if one of them belongs to another cluster. It reports that the
// cluster of this node is superseded in preference to other reasons. It ignores members that have
// left, because their cluster may no longer exist.
func (g *mergeDelegate) NotifyMerge(all []*serf.Member) error {
	mine := g.mine.Load()
	undecided := mine.Cluster == "" && g.choice != nil
	if met := g.requiredCluster(all); undecided && met != "" {
		as := *mine
		as.Cluster = met
		mine = &as
	}
	var worst *RefusedError
	for _, m := range all {
		if m.Name == g.self || m.Status == serf.StatusLeft {
			continue
		}
		if e := checkMember(mine, m); e != nil && undecided && e.What == tagCluster {
			e.noCluster, e.Superseded, e.theirFault = true, false, false
			worst = e
		} else if e != nil && (worst == nil || e.Superseded && !worst.Superseded) {
			worst = e
		}
	}
	if worst == nil {
		for _, m := range all {
			if g.onAccepted != nil && m.Status != serf.StatusLeft {
				g.onAccepted(m)
			}
			if undecided && m.Name != g.self && m.Status != serf.StatusLeft {
				g.choice.recordFirst(m)
			}
		}
		return nil
	}
	g.lastRefusal.Store(worst)
	g.onRefusal(worst)
	return worst
}

// requiredCluster returns the cluster that members must have while this node has none: the one
// that responded first, or the cluster of any member in all. It returns "" if none is known.
func (g *mergeDelegate) requiredCluster(all []*serf.Member) string {
	if g.choice == nil {
		return ""
	}
	if met := g.choice.first.Load(); met != nil {
		return met.Cluster
	}
	for _, m := range all {
		if cluster := m.Tags[tagCluster]; cluster != "" && m.Name != g.self && m.Status != serf.StatusLeft {
			return cluster
		}
	}
	return ""
}

// checkMember compares the tags of this node and of a member. A tag that one of them does not have
// is not compared, for example if the member only announces endpoints.
func checkMember(mine *Tags, m *serf.Member) *RefusedError {
	member := newMember(*m)
	e := &RefusedError{
		Member: m.Name, Addr: member.Addr.String(), Peer: member.Tags.Endpoints[endpoints.Peer],
		theirFault: mine.Cluster != "" && (m.Tags[tagCluster] == "" || clusterid.Supersedes(mine.Cluster, m.Tags[tagCluster])),
	}
	if isForeign(m.Tags) {
		return nil
	}
	if v := m.Tags[tagProtocol]; v != strconv.Itoa(protocol) {
		e.What, e.Mine, e.Theirs = "version", strconv.Itoa(protocol), fmt.Sprintf("%q", v)
		return e
	}
	if theirs := m.Tags[tagShards]; theirs != "" && mine.Shards != 0 && theirs != strconv.Itoa(mine.Shards) {
		e.What, e.Mine, e.Theirs = tagShards, strconv.Itoa(mine.Shards), theirs
		return e
	}
	if theirs := m.Tags[tagCluster]; theirs != "" && mine.Cluster != "" && theirs != mine.Cluster {
		e.What, e.Mine, e.Theirs = tagCluster, mine.Cluster, theirs
		e.Superseded = clusterid.Supersedes(theirs, mine.Cluster)
		return e
	}
	return e.checkLevels(mine.Levels, parseLevels(m.Tags[tagLevel]))
}

// checkLevels compares the format versions of both nodes. A node that does not support the current
// level of the other one cannot decode its messages. It returns nil if both are compatible.
func (e *RefusedError) checkLevels(mine, theirs Levels) *RefusedError {
	number := func(n uint8) string { return strconv.Itoa(int(n)) }
	switch {
	case mine == (Levels{}) || theirs == (Levels{}):
		return nil
	case theirs.InForce > mine.Known:
		e.What, e.Mine, e.Theirs, e.theirFault = tagLevel, number(mine.Known), number(theirs.InForce), false
		return e
	case mine.InForce > theirs.Known:
		e.What, e.Mine, e.Theirs, e.theirFault = tagLevel, number(mine.InForce), number(theirs.Known), true
		return e
	}
	return nil
}
