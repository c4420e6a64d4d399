package node

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"shardway/ack"
	"shardway/event"
	"shardway/queue"
	"shardway/shardmap"
)

// changes records each change of the shard map as events, with the durations of its phases. The agent
// reports what this node has observed and done, and the leader loop, if it runs here, reports its
// proposals. When a restarted node applies its log again, the changes in it are over: changes records
// only the resulting map. Its methods may be called from any goroutine.
type changes struct {
	self shardmap.NodeID
	ring *event.Ring
	// took is called with the duration of each phase; nil means no call.
	took func(phase string, d time.Duration)
	// queue returns the statistics of the request queue; nil means that there is none.
	queue func() queue.Stats

	mu     sync.Mutex
	caught bool // this process has caught up with the log of the leader
	open   open
	// proposing is when the leader loop of this node submitted a proposal, with the epoch of its base map.
	// committing is when it submitted a commit, with the epoch of the committed map.
	proposing, committing stamped
}

// open is the newest proposal that this node has observed.
type open struct {
	epoch shardmap.Epoch
	seen  time.Duration // time of the clock at which the proposal was observed
	acked time.Duration // time of this node's acknowledgement; negative means none yet
	tell  event.Change
	why   string
	// queued is the number of requests that had entered and left the queue before seen.
	queued uint64
}

// stamped is a time with an epoch.
type stamped struct {
	epoch shardmap.Epoch
	at    time.Duration
}

// proposed records that the leader loop submits a proposal. base is the epoch of the map that it changes.
func (c *changes) proposed(base shardmap.Epoch, now time.Duration) { c.stamp(&c.proposing, base, now) }

// submitted records that the leader loop submits the commit of a map.
func (c *changes) submitted(epoch shardmap.Epoch, now time.Duration) {
	c.stamp(&c.committing, epoch, now)
}

func (c *changes) stamp(at *stamped, epoch shardmap.Epoch, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*at = stamped{epoch, now}
}

// routed records the changes from state was to state is, which this node now routes by.
func (c *changes) routed(was, is *ack.State, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.caught {
		return
	}
	last, committed := is.Last().Epoch(), is.Committed().Epoch()
	another := last != was.Last().Epoch()
	switch {
	case committed == was.Committed().Epoch():
	case committed == c.open.epoch:
		c.end(now)
	case !another || committed != last:
		x := c.compare(was.Committed(), is.Committed()) // this node has not observed its proposal
		c.ring.Add(event.Event{Kind: event.MapCommitted, Epoch: uint64(committed), Change: &x})
	}
	if !another {
		return
	}
	base := is.Committed()
	if committed == last {
		base = was.Committed()
	}
	c.begin(base, is, now)
	if committed == last {
		c.end(now)
	}
}

// begin records the newest proposal of s, which changes base. mu must be held.
func (c *changes) begin(base *shardmap.Map, s *ack.State, now time.Duration) {
	c.open = open{epoch: s.Last().Epoch(), seen: now, acked: -1, why: label(s.Reason()), tell: c.compare(base, s.Last())}
	if c.queue != nil {
		x := c.queue()
		c.open.queued = x.Entered - uint64(max(x.Waiting, 0))
	}
	if c.proposing.epoch == base.Epoch() && c.proposing.at > 0 {
		c.phase(event.PhaseLog, now-c.proposing.at)
	}
	c.tell(event.MapProposed)
}

// acknowledged records that this node has stopped and drained the shards that move away from it.
func (c *changes) acknowledged(epoch shardmap.Epoch, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.open.epoch || c.open.acked >= 0 || epoch == 0 {
		return
	}
	c.open.acked = now
	c.phase(event.PhaseDrain, now-c.open.seen)
	c.tell(event.MapAcknowledged)
}

// end records that the open proposal was committed. mu must be held.
func (c *changes) end(now time.Duration) {
	if c.open.acked >= 0 {
		c.phase(event.PhaseWait, now-c.open.acked)
	}
	if c.committing.epoch == c.open.epoch {
		c.phase(event.PhaseAcknowledge, c.committing.at-c.open.seen)
		c.phase(event.PhaseCommit, now-c.committing.at)
	}
	if c.queue != nil {
		c.open.tell.Held = int(c.queue().Entered - c.open.queued)
	}
	c.tell(event.MapCommitted)
}

// phase records the duration of a phase, in the open proposal and through took. mu must be held.
func (c *changes) phase(name string, d time.Duration) {
	d = max(d, 0)
	// Events that were recorded earlier share the old slice, so it is not changed.
	c.open.tell.Phases = append(slices.Clip(c.open.tell.Phases), event.Phase{Name: name, MS: float64(d.Microseconds()) / 1000})
	if c.took != nil {
		c.took(name, d)
	}
}

// tell records an event about the open proposal. mu must be held.
func (c *changes) tell(kind event.Kind) {
	x := c.open.tell
	c.ring.Add(event.Event{Kind: kind, Epoch: uint64(c.open.epoch), Reason: c.open.why, Change: &x})
}

// caughtUp records that this node has caught up with the log of the leader. The first call records the
// committed map of s, which this node has read from its log.
func (c *changes) caughtUp(s *ack.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.caught {
		return
	}
	c.caught = true
	m := s.Committed()
	if m.Epoch() == 0 {
		return
	}
	x := event.Change{Base: uint64(m.Epoch()), Gained: m.Count(c.self), FromLog: true}
	c.ring.Add(event.Event{Kind: event.MapCommitted, Epoch: uint64(m.Epoch()), Reason: label(s.Reason()), Change: &x})
}

// compare returns the changes from map base to map m.
func (c *changes) compare(base, m *shardmap.Map) event.Change {
	x := event.Change{Base: uint64(base.Epoch())}
	ways := map[event.ShardMoves]int{}
	for _, d := range shardmap.Diff(base, m) {
		x.Moved++
		switch c.self {
		case d.To:
			x.Gained++
		case d.From:
			x.Released++
		}
		ways[event.ShardMoves{From: string(d.From), To: string(d.To)}]++
	}
	for way, n := range ways {
		way.Shards = n
		x.Moves = append(x.Moves, way)
	}
	slices.SortFunc(x.Moves, func(a, b event.ShardMoves) int {
		return cmp.Or(cmp.Compare(b.Shards, a.Shards), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	x.Moves = slices.Clip(x.Moves[:min(len(x.Moves), event.MaxMoves)])
	return x
}
