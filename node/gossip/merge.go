package gossip

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/hashicorp/serf/serf"

	"shardway/endpoints"
	"shardway/node/lineage"
)

// RefusedError says why this node and another one do not belong together.
type RefusedError struct {
	// Member and Addr are the other one.
	Member, Addr string
	// What they disagree about: "cluster", "shards", "level" or "version".
	What string
	// Mine and Theirs are the two values.
	Mine, Theirs string
	// Peer is the address at which the other one is said to talk to nodes; empty: none is.
	Peer string
	// Superseded means that the other's cluster is said to be a recovery of this node's: then
	// this one must stop, whether it serves or not. It is gossip, and may be an old word.
	Superseded bool
	// theirs means that the other one is wrong: it is new and in no cluster, or its
	// cluster is superseded by this node's.
	theirFault bool
	// fresh means that this node has no cluster yet: Mine is the cluster that answered first.
	noCluster bool
}

// Error names both values and what to do.
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
		return fmt.Sprintf("%s speaks version %s, this node version %s: run compatible versions", who, e.Theirs, e.Mine)
	}
}

// gate is the delegate that Serf asks about every member it hears of: those at
// the other end of a join, and each alive message. memberlist holds its lock
// during a call, so gate only compares.
type mergeDelegate struct {
	self        string
	mine        *atomic.Pointer[Tags]
	choice      *clusterChoice // nil: members of any cluster are accepted while this node has none
	lastRefusal atomic.Pointer[RefusedError]
	onRefusal   func(*RefusedError)
	// heard is called with each member that is not refused; nil: nobody listens.
	onAccepted func(*serf.Member)
}

var _ serf.MergeDelegate = (*mergeDelegate)(nil)

// NotifyMerge refuses all of them if one is of another cluster; that this node's
// is superseded is the gravest reason. Members that left are none: their cluster
// may be gone.
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

// first returns the cluster with which members must agree while this node has none: the one that
// answered first, or that of any of all; empty: none is known.
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

// refuse compares what both know. Without a cluster id or shards, as of a
// member that only announces, there is nothing to compare.
func checkMember(mine *Tags, m *serf.Member) *RefusedError {
	member := newMember(*m)
	e := &RefusedError{
		Member: m.Name, Addr: member.Addr.String(), Peer: member.Tags.Endpoints[endpoints.Peer],
		theirFault: mine.Cluster != "" && (m.Tags[tagCluster] == "" || lineage.Supersedes(mine.Cluster, m.Tags[tagCluster])),
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
		e.Superseded = lineage.Supersedes(theirs, mine.Cluster)
		return e
	}
	return e.checkLevels(mine.Levels, parseLevels(m.Tags[tagLevel]))
}

// below compares the levels: who knows less than what is in force at the other would
// not understand it. It returns nil if either understands the other.
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
