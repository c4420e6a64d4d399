package gossip

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/hashicorp/serf/serf"
)

// RefusedError says why this node and another one do not belong together.
type RefusedError struct {
	// Member and Addr are the other one.
	Member, Addr string
	// What they disagree about: "cluster", "shards" or "version".
	What string
	// Mine and Theirs are the two values.
	Mine, Theirs string
	// newcomer means that this node is in a cluster and the other in none.
	newcomer bool
}

// Error names both values and what to do.
func (e *RefusedError) Error() string {
	who := fmt.Sprintf("gossip: node %q at %s", e.Member, e.Addr)
	switch e.What {
	case tagShards:
		return fmt.Sprintf("%s has %s shards, this node has %s: start this one with --shards %s, or join another cluster", who, e.Theirs, e.Mine, e.Theirs)
	case tagCluster:
		return fmt.Sprintf("%s belongs to cluster %s, the data directory of this node to cluster %s: join another address, or start with an empty --data directory", who, e.Theirs, e.Mine)
	default:
		return fmt.Sprintf("%s speaks version %s, this node version %s: run versions that know each other", who, e.Theirs, e.Mine)
	}
}

// gate is the delegate that Serf asks about every member it hears of: those at
// the other end of a join, and each alive message. memberlist holds its lock
// during a call, so gate only compares.
type gate struct {
	self string
	mine *atomic.Pointer[Tags]
	last atomic.Pointer[RefusedError]
	told func(*RefusedError)
}

var _ serf.MergeDelegate = (*gate)(nil)

// NotifyMerge refuses all of them if one is of another cluster. Members that
// left are no reason: their cluster may be gone.
func (g *gate) NotifyMerge(all []*serf.Member) error {
	mine := g.mine.Load()
	for _, m := range all {
		if m.Name == g.self || m.Status == serf.StatusLeft {
			continue
		}
		if e := refuse(mine, m); e != nil {
			g.last.Store(e)
			g.told(e)
			return e
		}
	}
	return nil
}

// refuse compares what both know. Without a cluster id or shards, as of a
// member that only announces, there is nothing to compare.
func refuse(mine *Tags, m *serf.Member) *RefusedError {
	e := &RefusedError{
		Member: m.Name, Addr: newMember(*m).Addr.String(),
		newcomer: mine.Cluster != "" && m.Tags[tagCluster] == "",
	}
	if foreign(m.Tags) {
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
		return e
	}
	return nil
}
