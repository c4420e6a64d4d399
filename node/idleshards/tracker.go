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

// minWebSocketBatch is the minimum number of resumable WebSockets that move together, if that many exist.
const minWebSocketBatch = 16

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
		count := t.Router.InFlight.Count(s)
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
// shards that can move now. From the second question on, the following shards also count as idle:
//
//   - Shards whose running requests have all started since the previous question. Otherwise a shard
//     with many short requests would never be idle.
//   - Shards that have only tunnels and event streams, because these end when their shard moves.
//
// Resumable WebSockets are handed over to the next owner, a batch with each question.
func (t *Tracker) AnswerStage(q leaderloop.StagedIdleRequest) leaderloop.IdleReport {
	committed := t.Router.State().Committed()
	webSockets, total := t.upstreamWebSockets()
	runs := t.Proxy.LocalRuns()
	countBusy, batch := t.busy(committed), minWebSocketBatch
	switch {
	case q.Held: // the shards move anyway, so all WebSockets may move now
		batch = max(total, 1)
		countBusy = func(s shardmap.Shard) int { return max(t.Router.InFlight.Count(s)-runs[s].Endless, 0) }
	case q.Number > 0:
		batch = max(batch, batchOfQuestion(q.Number, total))
		countBusy = t.busyWithOldRequests(countBusy, runs, webSockets)
	}
	idle := movableShards(committed.Shards(t.Self), countBusy, webSockets, batch)
	t.Stages.recordAnswer(committed, t.Self, idle, runs, q)
	return leaderloop.IdleReport{Map: uint64(committed.Epoch()), Shards: idle}
}

// allMovedAfterQuestions is the number of questions of one map change after which all resumable WebSockets have
// moved.
const allMovedAfterQuestions = 4

// batchOfQuestion returns how many of total WebSockets move with a question. The batches grow with the number of
// the question.
func batchOfQuestion(number, total int) int {
	questionsLeft := max(allMovedAfterQuestions-number, 1)
	return total/questionsLeft + 1
}

// busyWithOldRequests returns a function that counts like countBusy, with two exceptions. It does not count tunnels
// and event streams, which end when the shard moves. If all requests of a shard have started since the
// previous question, it counts only its WebSockets.
func (t *Tracker) busyWithOldRequests(countBusy func(shardmap.Shard) int, runs map[shardmap.Shard]proxy.ShardRuns, webSockets map[shardmap.Shard]int) func(shardmap.Shard) int {
	return func(s shardmap.Shard) int {
		shardRuns, count := runs[s], countBusy(s)
		// The count is higher than the known requests if the app holds the shard (see Holds), or if requests
		// wait for a connection to the app.
		hasOnlyKnownRequests := count <= webSockets[s]+shardRuns.Endless+len(shardRuns.Requests)
		if hasOnlyKnownRequests && !t.Stages.ranBefore(shardRuns.Requests) {
			return webSockets[s]
		}
		return max(count-shardRuns.Endless, 0)
	}
}

// movableShards returns the shards without running requests, and some shards that have only resumable
// WebSockets. countBusy returns the number of requests of a shard. webSockets contains how many of them
// are resumable WebSockets. Shards with few WebSockets come first. All returned shards together have at
// most batch WebSockets, except that a single shard may exceed batch.
func movableShards(shards iter.Seq[shardmap.Shard], countBusy func(shardmap.Shard) int, webSockets map[shardmap.Shard]int, batch int) []shardmap.Shard {
	movable := []shardmap.Shard{}
	var onlyWebSockets []shardmap.Shard
	for s := range shards {
		switch countBusy(s) {
		case 0:
			movable = append(movable, s)
		case webSockets[s]:
			onlyWebSockets = append(onlyWebSockets, s)
		}
	}
	if batch <= 0 {
		return movable
	}
	slices.SortStableFunc(onlyWebSockets, func(a, b shardmap.Shard) int { return cmp.Compare(webSockets[a], webSockets[b]) })
	batchLeft := batch
	for i, s := range onlyWebSockets {
		batchLeft -= webSockets[s]
		if isFirst := i == 0; batchLeft < 0 && !isFirst {
			break
		}
		movable = append(movable, s)
	}
	return movable
}

// webSocketPacer spreads the hand-overs of a node's resumable WebSockets over the time of a gradual drain. The
// interval between two polls may vary, because the apps determine how long a map change takes. The zero value is
// ready for use. Its methods may be called from any goroutine.
type webSocketPacer struct {
	mu         sync.Mutex // protects the following fields
	drainIndex uint64     // GradualDrain.Index of the current drain
	startedAt  time.Time  // start of the current drain at this node
	lastBatch  time.Time  // time of the last batch
}

// nextBatch returns how many of total WebSockets must move now.
func (p *webSocketPacer) nextBatch(now time.Time, total int, drain ack.GradualDrain) int {
	if drain.Index == 0 {
		return 0 // this node has not applied the entry of the drain yet
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if isNewDrain := p.drainIndex != drain.Index; isNewDrain {
		p.drainIndex, p.startedAt, p.lastBatch = drain.Index, now, now.Add(-leaderloop.IdlePollInterval)
	}
	sinceLastBatch := now.Sub(p.lastBatch)
	p.lastBatch = now
	timeForWebSockets := drain.Duration * 3 / 4 // the last quarter is for shards that were busy
	remaining := timeForWebSockets - now.Sub(p.startedAt)
	if remaining <= sinceLastBatch {
		return total
	}
	evenBatch := math.Ceil(float64(total) * float64(sinceLastBatch) / float64(remaining))
	return max(minWebSocketBatch, int(evenBatch))
}
