package eventlog

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

// MapChangeOptions configures a MapChangeRecorder.
type MapChangeOptions struct {
	Self shardmap.NodeID
	Ring *event.Ring
	// OnPhase is called with the duration of each phase; nil means no call.
	OnPhase func(phase string, d time.Duration)
	// Queue returns the statistics of the request queue; nil means that there is none.
	Queue func() queue.Stats
}

// MapChangeRecorder records each change of the shard map as events, with the durations of its phases. The
// agent reports what this node has observed and done, and the leader loop, if it runs here, reports its
// proposals. When a restarted node applies its log again, the changes in it are over: the recorder
// records only the resulting map. Its methods may be called from any goroutine.
type MapChangeRecorder struct {
	o MapChangeOptions

	// mu protects the following fields.
	mu     sync.Mutex
	caught bool // this process has caught up with the log of the leader
	open   openProposal
	// proposing is when the leader loop of this node submitted a proposal, with the epoch of its base map.
	// committing is when it submitted a commit, with the epoch of the committed map.
	proposing, committing epochTime
}

// NewMapChangeRecorder returns a MapChangeRecorder.
func NewMapChangeRecorder(o MapChangeOptions) *MapChangeRecorder { return &MapChangeRecorder{o: o} }

// openProposal is the newest proposal that this node has observed.
type openProposal struct {
	epoch  shardmap.Epoch
	seen   time.Duration // time of the clock at which the proposal was observed
	acked  time.Duration // time of this node's acknowledgement; negative means none yet
	change event.Change
	reason string
	// queued is the number of requests that had entered and left the queue before seen.
	queued uint64
}

// epochTime is a time with an epoch.
type epochTime struct {
	epoch shardmap.Epoch
	at    time.Duration
}

// Proposed records that the leader loop submits a proposal. base is the epoch of the map that it changes.
func (c *MapChangeRecorder) Proposed(base shardmap.Epoch, now time.Duration) {
	c.stamp(&c.proposing, base, now)
}

// CommitSubmitted records that the leader loop submits the commit of a map.
func (c *MapChangeRecorder) CommitSubmitted(epoch shardmap.Epoch, now time.Duration) {
	c.stamp(&c.committing, epoch, now)
}

// stamp stores an epoch and a time in at, which mu protects.
func (c *MapChangeRecorder) stamp(at *epochTime, epoch shardmap.Epoch, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*at = epochTime{epoch, now}
}

// Routed records the changes from state was to state is, which this node now routes by.
func (c *MapChangeRecorder) Routed(was, is *ack.State, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.caught {
		return
	}
	last, committed := is.Proposed().Epoch(), is.Committed().Epoch()
	another := last != was.Proposed().Epoch()
	switch {
	case committed == was.Committed().Epoch():
	case committed == c.open.epoch:
		c.endLocked(now)
	case !another || committed != last:
		x := c.compare(was.Committed(), is.Committed()) // this node has not observed its proposal
		c.o.Ring.Add(event.Event{Kind: event.MapCommitted, Epoch: uint64(committed), Change: &x})
	}
	if !another {
		return
	}
	base := is.Committed()
	if committed == last {
		base = was.Committed()
	}
	c.beginLocked(base, is, now)
	if committed == last {
		c.endLocked(now)
	}
}

// beginLocked records the newest proposal of s, which changes base. mu must be held.
func (c *MapChangeRecorder) beginLocked(base *shardmap.Map, s *ack.State, now time.Duration) {
	c.open = openProposal{epoch: s.Proposed().Epoch(), seen: now, acked: -1, reason: ReasonLabel(s.ProposalReason()), change: c.compare(base, s.Proposed())}
	if c.o.Queue != nil {
		x := c.o.Queue()
		c.open.queued = x.Entered - uint64(max(x.Waiting, 0))
	}
	if c.proposing.epoch == base.Epoch() && c.proposing.at > 0 {
		c.phaseLocked(event.PhaseLog, now-c.proposing.at)
	}
	c.recordLocked(event.MapProposed)
}

// Acknowledged records that this node has stopped and drained the shards that move away from it.
func (c *MapChangeRecorder) Acknowledged(epoch shardmap.Epoch, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch != c.open.epoch || c.open.acked >= 0 || epoch == 0 {
		return
	}
	c.open.acked = now
	c.phaseLocked(event.PhaseDrain, now-c.open.seen)
	c.recordLocked(event.MapAcknowledged)
}

// endLocked records that the open proposal was committed. mu must be held.
func (c *MapChangeRecorder) endLocked(now time.Duration) {
	if c.open.acked >= 0 {
		c.phaseLocked(event.PhaseWait, now-c.open.acked)
	}
	if c.committing.epoch == c.open.epoch {
		c.phaseLocked(event.PhaseAcknowledge, c.committing.at-c.open.seen)
		c.phaseLocked(event.PhaseCommit, now-c.committing.at)
	}
	if c.o.Queue != nil {
		c.open.change.Queued = int(c.o.Queue().Entered - c.open.queued)
	}
	c.recordLocked(event.MapCommitted)
}

// phaseLocked records the duration of a phase, in the open proposal and through OnPhase. mu must be held.
func (c *MapChangeRecorder) phaseLocked(name string, d time.Duration) {
	d = max(d, 0)
	// Events that were recorded earlier share the old slice, so the new event is appended to a
	// copy.
	c.open.change.Phases = append(slices.Clip(c.open.change.Phases), event.Phase{Name: name, MS: float64(d.Microseconds()) / 1000})
	if c.o.OnPhase != nil {
		c.o.OnPhase(name, d)
	}
}

// recordLocked records an event about the open proposal. mu must be held.
func (c *MapChangeRecorder) recordLocked(kind event.Kind) {
	x := c.open.change
	c.o.Ring.Add(event.Event{Kind: kind, Epoch: uint64(c.open.epoch), Reason: c.open.reason, Change: &x})
}

// CaughtUp records that this node has caught up with the log of the leader. The first call records the
// committed map of s, which this node has read from its log.
func (c *MapChangeRecorder) CaughtUp(s *ack.State) {
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
	x := event.Change{Base: uint64(m.Epoch()), Gained: m.ShardCount(c.o.Self), FromLog: true}
	c.o.Ring.Add(event.Event{Kind: event.MapCommitted, Epoch: uint64(m.Epoch()), Reason: ReasonLabel(s.ProposalReason()), Change: &x})
}

// compare returns the changes from map base to map m.
func (c *MapChangeRecorder) compare(base, m *shardmap.Map) event.Change {
	x := event.Change{Base: uint64(base.Epoch())}
	ways := map[event.ShardMoves]int{}
	for _, d := range shardmap.Diff(base, m) {
		x.Moved++
		switch c.o.Self {
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
