package idleshards

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/node/leaderloop"
	"shardway/node/router"
	"shardway/proxy"
	"shardway/shardmap"
)

const (
	// minWebSocketBatch is the number of resumable WebSockets that move together at least, if that many
	// exist.
	minWebSocketBatch = 16
)

// Tracker determines which shards of this node are idle.
type Tracker struct {
	Self   shardmap.NodeID
	Clock  clock.Clock
	Router *router.Router
	Proxy  *proxy.Server
	Holds  *Holds
	Stages *Stages

	pacer webSocketPacer // paces hand-overs during a gradual drain
}

// Hold records that the app holds a shard for the duration d; zero ends the hold. It is the HoldShard
// function of proxy.Options.
func (t *Tracker) Hold(s shardmap.Shard, epoch uint64, d time.Duration) {
	until := time.Duration(0)
	if d > 0 {
		until = t.Clock.Now() + d
	}
	t.Holds.set(s, epoch, until)
}

// HeldCount returns the number of this node's shards that are held.
func (t *Tracker) HeldCount() int {
	return t.Holds.count(t.Router.State().Committed(), t.Self, t.Clock.Now())
}

// busy returns a function that counts the reasons why a shard of m is not idle: each running request or
// WebSocket counts one, and a hold counts one. A shard that is busy only because of a hold does not delay
// the acknowledgement of a proposal.
func (t *Tracker) busy(m *shardmap.Map) func(shardmap.Shard) int {
	now := t.Clock.Now()
	return func(s shardmap.Shard) int {
		count := t.Router.InFlight.CountOf(s)
		if t.Holds.has(s, uint64(m.OwnedSince(s)), now) {
			count++
		}
		return count
	}
}

// Answer returns the shards that can move now. These are the shards without running requests
// and without a hold of the app (see Holds), and some of the shards that have only resumable
// WebSockets. The latter move in batches, because each hand-over of a WebSocket wakes three processes.
func (t *Tracker) Answer() leaderloop.IdleReport {
	state := t.Router.State()
	m := state.Committed()
	webSockets, total := t.upstreamWebSockets()
	batch := t.pacer.nextBatch(time.Now(), total, state.Policy().GradualDrains[t.Self])
	return leaderloop.IdleReport{Map: uint64(m.Epoch()), Shards: movableShards(m.Shards(t.Self), t.busy(m), webSockets, batch)}
}

// upstreamWebSockets counts the upstream connections of resumable WebSockets, by shard and in total.
func (t *Tracker) upstreamWebSockets() (byShard map[shardmap.Shard]int, total int) {
	byShard = map[shardmap.Shard]int{}
	for _, count := range t.Proxy.WebSocketCounts() {
		byShard[count.Shard] = count.Resumable
		total += count.Resumable
	}
	return byShard, total
}

// AnswerStage returns the response to the leader's question q in a staged map change. It reports the
// shards that can move now. From the second question on, the following shards count as idle, too:
//
//   - Shards whose running requests have all started since the previous question. Otherwise a shard
//     with many short requests would never be idle.
//   - Shards that have only tunnels and event streams, because these end when their shard moves.
//
// Resumable WebSockets are handed over to the next owner, a batch with each question.
func (t *Tracker) AnswerStage(q leaderloop.StagedIdleRequest) leaderloop.IdleReport {
	m := t.Router.State().Committed()
	webSockets, total := t.upstreamWebSockets() // upstream connections of resumable WebSockets, by shard and in total
	runs := t.Proxy.LocalRuns()
	busy := t.busy(m)
	running, batch := busy, minWebSocketBatch
	switch {
	case q.Held: // the shards move anyway, so all WebSockets may move now
		batch = max(total, 1)
		running = func(s shardmap.Shard) int { return max(t.Router.InFlight.CountOf(s)-runs[s].Endless, 0) }
	case q.Number > 0: // later questions move larger batches, so that all WebSockets have moved after some questions
		batch = max(batch, total/max(4-q.Number, 1)+1)
		running = func(s shardmap.Shard) int {
			shard, count := runs[s], busy(s)
			// The count is higher if the app holds the shard (see Holds), or if requests wait for a
			// connection to the app.
			if count <= webSockets[s]+shard.Endless+len(shard.Requests) && !t.Stages.ranBefore(shard.Requests) {
				return webSockets[s]
			}
			return max(count-shard.Endless, 0)
		}
	}
	idle := movableShards(m.Shards(t.Self), running, webSockets, batch)
	t.Stages.recordAnswer(m, t.Self, idle, runs, q)
	return leaderloop.IdleReport{Map: uint64(m.Epoch()), Shards: idle}
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
		p.drainSince, p.started, p.lastBatch = drain.Index, now, now.Add(-leaderloop.IdlePollInterval)
	}
	step := now.Sub(p.lastBatch)
	p.lastBatch = now
	remaining := drain.Duration*3/4 - now.Sub(p.started) // the last quarter is for shards that were busy
	if remaining <= step {
		return total
	}
	return max(minWebSocketBatch, int(math.Ceil(float64(total)*float64(step)/float64(remaining))))
}
