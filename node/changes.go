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

// changes tells of each change of the map as an event, with how long its phases took.
// The agent tells it of what this node has seen and done, and the leadership, if there is
// one here, of what it has proposed. A log that is gone through again after a start has
// changes that are over: nothing is told of them but the map that it came to.
type changes struct {
	self shardmap.NodeID
	ring *event.Ring
	// took, when set, is told how long a phase took.
	took func(phase string, d time.Duration)
	// queue, when set, tells what waits here.
	queue func() queue.Stats

	mu     sync.Mutex
	caught bool // up with the cluster, once in this process
	open   open
	// proposing and committing are when the leadership here submitted its proposal upon
	// the map of an epoch, and the commit of one.
	proposing, committing stamped
}

// open is the proposal that this node knows of.
type open struct {
	epoch shardmap.Epoch
	seen  time.Duration // when, by the clock
	acked time.Duration // when this node acknowledged it; negative: it has not
	tell  event.Change
	why   string
	// queued is how many requests had come to wait here and gone again before it was seen.
	queued uint64
}

// stamped is a moment that is about an epoch.
type stamped struct {
	epoch shardmap.Epoch
	at    time.Duration
}

// proposed notes that the leadership here submits a proposal upon a map, and submitted
// that it submits the commit of one.
func (c *changes) proposed(base shardmap.Epoch, now time.Duration) { c.stamp(&c.proposing, base, now) }

func (c *changes) submitted(epoch shardmap.Epoch, now time.Duration) {
	c.stamp(&c.committing, epoch, now)
}

func (c *changes) stamp(at *stamped, epoch shardmap.Epoch, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*at = stamped{epoch, now}
}

// routed tells of what is new in the state by which this node routes.
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
		x := c.compare(was.Committed(), is.Committed()) // its proposal was not seen
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

// begin tells of the last proposal, which changes base, with mu held.
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

// acknowledged tells that this node has stopped and drained what moves away from it.
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

// end tells that the open proposal is in force, with mu held.
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

// phase notes how long one took, with mu held.
func (c *changes) phase(name string, d time.Duration) {
	d = max(d, 0)
	// What was told has the old slice.
	c.open.tell.Phases = append(slices.Clip(c.open.tell.Phases), event.Phase{Name: name, MS: float64(d.Microseconds()) / 1000})
	if c.took != nil {
		c.took(name, d)
	}
}

// tell tells of the open proposal, with mu held.
func (c *changes) tell(kind event.Kind) {
	x := c.open.tell
	c.ring.Add(event.Event{Kind: kind, Epoch: uint64(c.open.epoch), Reason: c.open.why, Change: &x})
}

// caughtUp tells that the leader knows this node to be up with the log, whose newest map
// it found there as it started.
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

// compare returns what a map changes in another.
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
