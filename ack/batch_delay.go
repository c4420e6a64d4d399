package ack

import (
	"time"

	"shardway/shardmap"
)

const (
	// gatherShare is the part of dead-after for which causes that only add are
	// gathered.
	batchFraction = 5
	// firstWait is how long the first map waits for the nodes that found the cluster,
	// counted from the first that could have shards, and the longest for which
	// additions are gathered, however long dead-after is.
	maxBatchDelay = 2 * time.Second
)

// gathering is how long a cause for want may wait for further ones. Who is added a
// little later costs a map more, and shards that move twice; a shard without a
// certain owner waits for nobody.
func (l *Leader) batchDelay(want *shardmap.Map) time.Duration {
	switch {
	case l.state.Last().Epoch() == 0:
		if len(want.Members()) < l.expectedNodes() {
			return maxBatchDelay
		}
		return 0
	case !l.roundDone && !l.state.Open():
		return 0
	case l.onlyAddsNodes(want):
		return min(l.maxTiming.DeadAfter/batchFraction, maxBatchDelay)
	}
	return minBatchDelay
}

// expected is how many nodes the first map is to have: those that found the cluster,
// without the gateways and those who leave already.
func (l *Leader) expectedNodes() int {
	count := l.o.BootstrapExpect
	for _, n := range l.members {
		if n.heartbeat.Gateway || n.heartbeat.Leaving || n.heartbeat.Goodbye {
			count--
		}
	}
	return count
}

// adds reports that want has all that the last proposal has, and somebody beside who
// owns nothing yet. Who comes back while the map that routes still has it is no
// addition: its shards are held until then.
func (l *Leader) onlyAddsNodes(want *shardmap.Map) bool {
	last, base := l.state.Last(), l.state.Committed()
	kept := 0
	for _, m := range want.Members() {
		old, ok := findMember(last, m.ID)
		switch {
		case ok && old.Weight == m.Weight:
			kept++
		case ok || base.Has(m.ID):
			return false
		}
	}
	return kept == len(last.Members()) && len(want.Members()) > kept
}

// memberOf returns the member of that id.
func findMember(m *shardmap.Map, id shardmap.NodeID) (shardmap.Member, bool) {
	for _, x := range m.Members() {
		if x.ID == id {
			return x, true
		}
	}
	return shardmap.Member{}, false
}
