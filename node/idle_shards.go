package node

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"shardway/ack"
	"shardway/node/leaderloop"
	"shardway/shardmap"
)

const (
	// minWebSocketBatch is the number of resumable WebSockets that move together at least, if that many
	// exist.
	minWebSocketBatch = 16
)

// acceptsNewKeys reports whether keys that are created for new sessions may belong to a node: the
// node neither drains nor is cordoned. "" means this node.
func (n *Node) acceptsNewKeys(node string) bool {
	id := shardmap.NodeID(node)
	if node == "" || id == n.self {
		if id = n.self; n.agent.leaving.Load() {
			return false
		}
	}
	p := n.fsm.state.Load().Policy()
	return !p.IsDraining(id) && !p.Cordoned[id]
}

// idleShards returns the shards that can move now. These are the shards without running requests
// and without a hold of the app (see appHolds), and some of the shards that have only resumable
// WebSockets. The latter move in batches, because each hand-over of a WebSocket wakes three processes.
func (n *Node) idleShards() leaderloop.IdleReport {
	state := n.router.State()
	m := state.Committed()
	webSockets, total := n.upstreamWebSockets()
	return leaderloop.IdleReport{Map: uint64(m.Epoch()), Shards: movableShards(m.Shards(n.self), n.busy(m), webSockets, n.webSocketPacer.nextBatch(time.Now(), total, state.Policy().GradualDrains[n.self]))}
}

// upstreamWebSockets counts the upstream connections of resumable WebSockets, by shard and in total.
func (n *Node) upstreamWebSockets() (byShard map[shardmap.Shard]int, total int) {
	byShard = map[shardmap.Shard]int{}
	for _, x := range n.proxy.WebSocketCounts() {
		byShard[x.Shard] = x.Resumable
		total += x.Resumable
	}
	return byShard, total
}

// movableShards returns the shards without running requests, and some shards that have only
// resumable WebSockets. running returns the number of requests of a shard, and webSockets contains how
// many of these are resumable WebSockets. Shards with few WebSockets come first. All returned shards
// together have at most batch WebSockets, except that a single shard may exceed batch.
func movableShards(shards iter.Seq[shardmap.Shard], running func(shardmap.Shard) int, webSockets map[shardmap.Shard]int, batch int) []shardmap.Shard {
	idle := []shardmap.Shard{}
	var resumable []shardmap.Shard
	for s := range shards {
		switch running(s) {
		case 0:
			idle = append(idle, s)
		case webSockets[s]:
			resumable = append(resumable, s)
		}
	}
	slices.SortStableFunc(resumable, func(a, b shardmap.Shard) int { return cmp.Compare(webSockets[a], webSockets[b]) })
	if batch <= 0 {
		return idle
	}
	for i, s := range resumable {
		if batch -= webSockets[s]; batch < 0 && i > 0 {
			break
		}
		idle = append(idle, s)
	}
	return idle
}

// webSocketPacer spreads the hand-overs of a node's resumable WebSockets over the time of a gradual
// drain. The interval between two polls may vary, because a map change lasts as long as the apps
// take. The zero value is ready for use. Its methods may be called from any goroutine.
type webSocketPacer struct {
	mu                 sync.Mutex
	drainSince         uint64 // GradualDrain.Since of the current drain
	started, lastBatch time.Time
}

// nextBatch returns how many of total WebSockets must move now.
func (p *webSocketPacer) nextBatch(now time.Time, total int, drain ack.GradualDrain) int {
	if drain.Index == 0 {
		return 0 // this node has not applied the entry of the drain yet
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drainSince != drain.Index {
		p.drainSince, p.started, p.lastBatch = drain.Index, now, now.Add(-leaderloop.IdlePollEvery)
	}
	step := now.Sub(p.lastBatch)
	p.lastBatch = now
	remaining := drain.Duration*3/4 - now.Sub(p.started) // the last quarter is for shards that were busy
	if remaining <= step {
		return total
	}
	return max(minWebSocketBatch, int(math.Ceil(float64(total)*float64(step)/float64(remaining))))
}
