package eventlog

import (
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
	// OnPhase is called with the duration of each phase. It may be nil.
	OnPhase func(phase string, d time.Duration)
	// OnCommitted is called when a map that this node committed as leader is in force, with the number of shards
	// that get a new owner. It may be nil.
	OnCommitted func(moved int)
	// OnAbandoned is called when this node, as leader, has replaced an open proposal, with the reason of the next
	// proposal. It may be nil.
	OnAbandoned func(reason string)
	// Queue returns the statistics of the request queue. It is nil if there is no queue.
	Queue func() queue.Stats
}

// MapChangeRecorder records each change of the shard map as events, with the durations of its phases. The agent
// reports what this node has observed and done, and the leader loop, if it runs here, reports its proposals. When a
// restarted node replays its log, the changes in it are history, so it records only the resulting map. Its methods
// may be called from any goroutine.
type MapChangeRecorder struct {
	options MapChangeOptions

	// mu protects the following fields.
	mu                sync.Mutex
	hasCaughtUp       bool // this process has caught up with the log of the leader
	open              openProposal
	proposalSubmitted epochTime // by the leader loop of this node, with the epoch of the base map
	commitSubmitted   epochTime // by the leader loop of this node, with the epoch of the committed map
}

// NewMapChangeRecorder returns a MapChangeRecorder.
func NewMapChangeRecorder(o MapChangeOptions) *MapChangeRecorder {
	return &MapChangeRecorder{options: o}
}

// openProposal is the newest proposal that this node has observed.
type openProposal struct {
	epoch      shardmap.Epoch
	observedAt time.Duration // time of the clock
	ackedAt    time.Duration // time of the clock of this node's acknowledgement; negative means none yet
	change     event.Change
	reason     string
	// dequeuedBefore is the number of requests that had entered and left the queue before observedAt.
	dequeuedBefore uint64
}

// epochTime is a time of the clock with an epoch.
type epochTime struct {
	epoch shardmap.Epoch
	at    time.Duration
}

// RecordProposed records that the leader loop submits a proposal, which starts its first phase. base is the epoch of the
// map that the proposal changes.
func (c *MapChangeRecorder) RecordProposed(base shardmap.Epoch, now time.Duration) {
	c.storeTime(&c.proposalSubmitted, base, now)
}

// RecordCommitSubmitted records that the leader loop submits the commit of a map.
func (c *MapChangeRecorder) RecordCommitSubmitted(epoch shardmap.Epoch, now time.Duration) {
	c.storeTime(&c.commitSubmitted, epoch, now)
}

// storeTime stores an epoch and a time in target, which mu protects.
func (c *MapChangeRecorder) storeTime(target *epochTime, epoch shardmap.Epoch, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*target = epochTime{epoch, now}
}

// RecordRouted records the changes from previous to current, after this node has begun to route requests by current.
// The events therefore describe what requests observe, and not when an entry was written. The states between the two
// are unknown, because several log entries may have been applied at once.
func (c *MapChangeRecorder) RecordRouted(previous, current *ack.State, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.hasCaughtUp {
		return
	}
	proposed, committed := current.Proposed().Epoch(), current.Committed().Epoch()
	isNewProposal := proposed != previous.Proposed().Epoch()
	isNewCommit := committed != previous.Committed().Epoch()
	isAlreadyCommitted := committed == proposed // the newest proposal is no longer open
	if isNewCommit {
		if c.options.OnCommitted != nil && c.commitSubmitted.epoch == committed {
			c.options.OnCommitted(len(shardmap.Diff(previous.Committed(), current.Committed())))
		}
		switch {
		case committed == c.open.epoch:
			c.recordCommitLocked(now)
			c.recordMovedShardsLocked(previous.Committed(), current)
		case isNewProposal && isAlreadyCommitted: // recorded below
		default: // this node has not observed the proposal of this map
			change := c.compare(previous.Committed(), current.Committed())
			c.options.Ring.Add(event.Event{Kind: event.MapCommitted, Epoch: uint64(committed), Change: &change})
			c.recordMovedShardsLocked(previous.Committed(), current)
		}
	}
	if !isNewProposal {
		return
	}
	isReplaced := previous.HasOpenProposal() && previous.Proposed().Epoch() == c.open.epoch && !isNewCommit
	if isReplaced {
		change := c.open.change
		c.options.Ring.Add(event.Event{Kind: event.MapAbandoned, Epoch: uint64(c.open.epoch), Reason: ReasonLabel(current.ProposalReason()), Change: &change})
		submitted := c.proposalSubmitted
		isOwnProposal := submitted.epoch == committed && submitted.at >= c.open.observedAt
		if c.options.OnAbandoned != nil && isOwnProposal {
			c.options.OnAbandoned(ReasonLabel(current.ProposalReason()))
		}
	}
	if isAlreadyCommitted {
		c.recordProposalLocked(previous.Committed(), current, now)
		c.recordCommitLocked(now)
		c.recordMovedShardsLocked(previous.Committed(), current)
	} else {
		c.recordProposalLocked(current.Committed(), current, now)
	}
}

// recordProposalLocked records the newest proposal of state, which changes base. mu must be held.
func (c *MapChangeRecorder) recordProposalLocked(base *shardmap.Map, state *ack.State, now time.Duration) {
	c.open = openProposal{
		epoch: state.Proposed().Epoch(), observedAt: now, ackedAt: -1,
		reason: ReasonLabel(state.ProposalReason()), change: c.compare(base, state.Proposed()),
	}
	if c.options.Queue != nil {
		stats := c.options.Queue()
		c.open.dequeuedBefore = stats.Entered - uint64(max(stats.Waiting, 0))
	}
	if submitted := c.proposalSubmitted; submitted.epoch == base.Epoch() && submitted.at > 0 {
		c.recordPhaseLocked(event.PhaseLog, now-submitted.at)
	}
	c.recordLocked(event.MapProposed)
}

// RecordAcknowledged records that this node has stopped and drained the shards that move away from it.
func (c *MapChangeRecorder) RecordAcknowledged(epoch shardmap.Epoch, now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wasAcked := c.open.ackedAt >= 0
	if epoch == 0 || epoch != c.open.epoch || wasAcked {
		return
	}
	c.open.ackedAt = now
	c.recordPhaseLocked(event.PhaseDrain, now-c.open.observedAt)
	c.recordLocked(event.MapAcknowledged)
}

// recordCommitLocked records that the open proposal was committed. mu must be held.
func (c *MapChangeRecorder) recordCommitLocked(now time.Duration) {
	if wasAcked := c.open.ackedAt >= 0; wasAcked {
		c.recordPhaseLocked(event.PhaseWait, now-c.open.ackedAt)
	}
	if submitted := c.commitSubmitted; submitted.epoch == c.open.epoch {
		c.recordPhaseLocked(event.PhaseAcknowledge, submitted.at-c.open.observedAt)
		c.recordPhaseLocked(event.PhaseCommit, now-submitted.at)
	}
	if c.options.Queue != nil {
		c.open.change.Queued = int(c.options.Queue().Entered - c.open.dequeuedBefore)
	}
	c.recordLocked(event.MapCommitted)
}

// recordPhaseLocked records the duration of a phase, in the open proposal and through OnPhase. mu must be held.
func (c *MapChangeRecorder) recordPhaseLocked(name string, d time.Duration) {
	d = max(d, 0)
	// Events that were recorded earlier share the old slice, so the new event is appended to a
	// copy.
	c.open.change.Phases = append(slices.Clip(c.open.change.Phases), event.Phase{Name: name, MS: milliseconds(d)})
	if c.options.OnPhase != nil {
		c.options.OnPhase(name, d)
	}
}

// recordLocked records an event about the open proposal. mu must be held.
func (c *MapChangeRecorder) recordLocked(kind event.Kind) {
	change := c.open.change // a copy, because the event must not change later
	c.options.Ring.Add(event.Event{Kind: kind, Epoch: uint64(c.open.epoch), Reason: c.open.reason, Change: &change})
}

// CaughtUp records that this node has caught up with the log of the leader. The first call records the
// committed map of state, which this node has read from its log.
func (c *MapChangeRecorder) CaughtUp(state *ack.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasCaughtUp {
		return
	}
	c.hasCaughtUp = true
	committed := state.Committed()
	if committed.Epoch() == 0 {
		return // there is no map yet
	}
	reason := ""
	if !state.HasOpenProposal() { // otherwise the only known reason is that of the proposal
		reason = ReasonLabel(state.ProposalReason())
	}
	change := event.Change{Base: uint64(committed.Epoch()), Gained: committed.ShardCount(c.options.Self), FromLog: true}
	c.options.Ring.Add(event.Event{Kind: event.MapCommitted, Epoch: uint64(committed.Epoch()), Reason: reason, Change: &change})
}

// compare returns the changes from map base to map next. It lists up to event.MaxMoves pairs of nodes, those with
// the most moved shards first.
func (c *MapChangeRecorder) compare(base, next *shardmap.Map) event.Change {
	self, change := string(c.options.Self), event.Change{Base: uint64(base.Epoch())}
	for i, list := range movedShards(base, next) {
		count := len(list.Shards)
		change.Moved += count
		switch {
		case list.From == list.To: // between app instances
		case list.To == self:
			change.Gained += count
		case list.From == self:
			change.Released += count
		}
		if i < event.MaxMoves {
			change.Moves = append(change.Moves, event.ShardMoves{From: list.From, FromInstance: list.FromInstance, To: list.To, ToInstance: list.ToInstance, Shards: count})
		}
	}
	return change
}
