package leaderloop

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/event"
	"shardway/node/clusterid"
	"shardway/node/consensus"
	"shardway/node/eventlog"
	"shardway/shardmap"
)

// Loop is the leader loop, the goroutine that runs one leadership. Only this goroutine uses the
// leader.Driver and the following fields. One leader loop runs at a time: the next one starts after
// the previous one has returned.
type Loop struct {
	*Leadership
	// newClusterID is the ID of the cluster that this leadership creates if there is none.
	newClusterID string
	driver       *leader.Driver
	// policyCallers are the callers that wait for the result of a policy change, by its number.
	policyCallers map[uint64]chan<- error
	// appUnhealthy contains, for each node that has sent a heartbeat, whether its app was unhealthy.
	appUnhealthy map[shardmap.NodeID]bool
	// unhealthyInstances contains the unhealthy app instances of each node that has sent a heartbeat.
	unhealthyInstances map[shardmap.NodeID]ack.InstanceBits
	commitNudges       nudges
	// suspicionsSpreadAt is when the other nodes were last asked to check each node.
	suspicionsSpreadAt map[shardmap.NodeID]time.Time
	// raftHeartbeatsSentAt is the time at which Raft's heartbeats were last sent.
	raftHeartbeatsSentAt time.Time
}

// New creates the leader loop for a term. The caller must call Run.
func New(options Options, term uint64) *Loop {
	driver := leader.NewDriver(leader.DriverOptions{
		Leader: leader.Options{Server: options.Server, Term: term, Pace: options.Pace, Timing: options.Timing, BootstrapExpect: options.BootstrapExpect, Replicas: options.Replicas, SpreadZones: options.SpreadZones},
		Raft:   options.View.Raft, Clock: options.Clock.Precise, NewestState: options.View.State, KeyConfig: options.Keys, ServicesOf: ServicesOf,
	})
	return &Loop{
		Leadership: newLeadership(options, term, driver.StartedAt()), newClusterID: clusterid.New(), driver: driver,
		policyCallers: map[uint64]chan<- error{}, appUnhealthy: map[shardmap.NodeID]bool{}, unhealthyInstances: map[shardmap.NodeID]ack.InstanceBits{}, commitNudges: nudges{},
		suspicionsSpreadAt: map[shardmap.NodeID]time.Time{},
	}
}

// Run is the leader loop. It returns when ctx ends or the term is over.
func (l *Loop) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer close(l.loopEnded)
	l.options.Background.Go(func() { l.reconciler.Run(ctx, l.loopEnded) })
	l.options.Background.Go(func() { l.pollIdleShards(ctx) })
	l.options.Background.Go(func() { l.expireRegistry(ctx) })
	ticker := l.options.Scheduler.NewOnDemandTicker()
	defer ticker.Stop()
	l.handleMessage(ctx, leader.Tick{}, nil)
	for resetTicker := true; l.isLeader(); {
		if resetTicker { // otherwise the timer keeps its deadline
			ticker.TickWithin(min(l.driver.Due(), l.sendRaftHeartbeatsIfDue()))
		}
		resetTicker = true
		select {
		case <-ctx.Done():
			return
		case <-l.raft.Changed(): // the loop condition checks whether the term has ended
		case <-ticker.C:
			l.handleMessage(ctx, leader.Tick{}, nil)
		case <-l.options.StateChanged: // the driver reads the new state
			l.handleMessage(ctx, leader.Tick{}, nil)
		case received := <-l.heartbeats:
			l.handleMessage(ctx, leader.HeartbeatReceived{Heartbeat: received.Heartbeat, From: received.RemoteAddr}, received.Respond)
		case received := <-l.ownHeartbeat:
			l.sendRaftHeartbeatsIfDueSoon()
			l.handleMessage(ctx, leader.HeartbeatReceived{Heartbeat: received.Heartbeat, From: received.RemoteAddr}, received.Respond)
		case message := <-l.messages:
			l.handleMessage(ctx, message, nil)
		case request := <-l.timingRequests:
			entry, effects, err := l.driver.ChangeTiming(request.timing)
			l.performEffects(ctx, effects, nil)
			request.result <- timingResult{entry, err}
		case request := <-l.policyRequests:
			l.startPolicyChange(ctx, request)
		case response := <-l.viewRequests:
			response <- l.driver.View()
			resetTicker = false // a view changes nothing
		case response := <-l.leaseRequests:
			response <- l.driver.LeaseLeft()
			resetTicker = false // the request changes nothing
		case response := <-l.planRequests:
			plan, err := l.driver.Plan()
			response <- planResult{plan, err}
		}
	}
}

// isLeader reports whether this node still leads in the same term.
func (l *Loop) isLeader() bool {
	term, leads := l.raft.Leadership()
	return leads && term == l.term
}

// handleMessage passes a message to the driver and performs the effects that the driver returns. respond sends the
// response to a heartbeat, and is nil for any other message.
func (l *Loop) handleMessage(ctx context.Context, message leader.Message, respond func(ack.Answer)) {
	if heartbeat, ok := message.(leader.HeartbeatReceived); ok {
		l.recordAppHealth(heartbeat.Node, heartbeat.Unhealthy)
		l.recordInstanceHealth(heartbeat.Heartbeat)
		l.spreadSuspicions(ctx, heartbeat.Heartbeat)
		l.propagateCommitIfBehind(heartbeat.Heartbeat)
	}
	l.performEffects(ctx, l.driver.Step(message), respond)
}

// performEffects performs the effects that the driver has returned. respond sends the response to a heartbeat, and
// may be nil. Effects that wait for Raft or for other nodes run in separate goroutines.
func (l *Loop) performEffects(ctx context.Context, effects []leader.Effect, respond func(ack.Answer)) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case leader.Reply:
			if respond != nil {
				respond(e.Answer)
			}
		case leader.Submit:
			l.submitEntry(e)
		case leader.Barrier:
			l.issueBarrier(ctx, e.Attempt)
		case leader.IdleShardsQuery:
			l.options.Background.Go(func() { l.fetchIdleStaged(ctx, e) })
		case leader.StepDown:
			l.stepDown(ctx, e.Reason)
		case leader.Event:
			l.logEvent(e)
		}
	}
}

// propagateCommitIfBehind sends the commit index to the followers now if the sender of the heartbeat has just
// started or lacks committed entries. A process that has just started has log entries on its disk, but does not
// know which of them are committed.
func (l *Loop) propagateCommitIfBehind(heartbeat ack.Heartbeat) {
	if heartbeat.Term != l.term {
		return // the sender follows another leader
	}
	lag := missingMap{heartbeat.Nonce, l.driver.State().Committed().Epoch()}
	isBehind := heartbeat.Applied < lag.epoch
	if l.commitNudges.shouldNudge(heartbeat.Node, lag, isBehind, time.Now()) {
		l.raft.PropagateCommit()
	}
}

// recordAppHealth records an event when the health of another node's app has changed. Each node records
// the events of its own app. The first heartbeat of a node is not a change.
func (l *Loop) recordAppHealth(node shardmap.NodeID, unhealthy bool) {
	previous, known := l.appUnhealthy[node]
	l.appUnhealthy[node] = unhealthy
	if known && previous != unhealthy && node != l.options.Self {
		l.options.Events.Add(eventlog.AppHealth(node, !unhealthy))
	}
}

// recordInstanceHealth records an event for each app instance of another node whose health has changed. The
// first heartbeat of a node is not a change.
func (l *Loop) recordInstanceHealth(heartbeat ack.Heartbeat) {
	previous, known := l.unhealthyInstances[heartbeat.Node]
	l.unhealthyInstances[heartbeat.Node] = heartbeat.UnhealthyInstances
	if !known || previous == heartbeat.UnhealthyInstances || heartbeat.Node == l.options.Self {
		return
	}
	for instance := range shardmap.Instance(shardmap.MaxInstances) {
		if isUnhealthy := heartbeat.UnhealthyInstances.Has(instance); isUnhealthy != previous.Has(instance) {
			l.options.Events.Add(eventlog.InstanceHealth(heartbeat.Node, instance, !isUnhealthy))
		}
	}
}

// submitEntry appends an entry to the log in a separate goroutine. If the outcome is unknown, the
// leadership is lost, and the next leader finds the outcome in the log. If an operator has requested the
// entry, the caller of submitPolicyChange receives the outcome.
func (l *Loop) submitEntry(request leader.Submit) {
	entry, caller := slices.Clone(request.Entry), l.policyCallers[request.RequestNumber]
	delete(l.policyCallers, request.RequestNumber)
	l.options.Background.Go(func() {
		start := time.Now()
		err := l.raft.Apply(entry)
		if err == nil {
			l.options.Metrics.CommitSeconds.Observe(time.Since(start).Seconds())
		}
		if caller != nil {
			caller <- err
		}
		if err == nil || errors.Is(err, consensus.ErrUnknown) {
			return
		}
		l.Log.Warn().Err(err).Msg("entry not submitted")
		select {
		case l.messages <- leader.SubmitFailed{}:
		case <-l.loopEnded:
		}
	})
}

// stepDown transfers the leadership to another voter in the background.
func (l *Loop) stepDown(ctx context.Context, reason string) {
	l.Log.Warn().Str("reason", reason).Msg("stepped down")
	l.options.Background.Go(func() {
		if err := Transfer(ctx, l.options.View, l.Leadership); err != nil {
			l.Log.Warn().Err(err).Msg("leadership transfer failed")
		}
	})
}

// logEvent logs and counts a decision of the driver.
func (l *Loop) logEvent(evt leader.Event) {
	switch evt.Kind {
	case leader.EventProposing:
		l.logProposal(evt)
	case leader.EventNodeExcluded:
		l.options.Events.Add(event.Event{Kind: event.NodeDropped, Node: string(evt.Node), Reason: evt.Cause.String(), NoticedBy: evt.Sign.String(), Reporters: nodeIDStrings(evt.Reporters)})
		l.options.Metrics.Exclusions.WithLabelValues(evt.Cause.String()).Inc()
		l.Log.Warn().Str("peer", string(evt.Node)).Stringer("cause", evt.Cause).Stringer("noticed_by", evt.Sign).Msg("node excluded from map")
	case leader.EventCommitting:
		l.options.Changes.RecordCommitSubmitted(evt.Epoch, l.options.Clock.Precise())
		l.Log.Debug().Uint64("epoch", uint64(evt.Epoch)).Msg("all acknowledgements received")
	case leader.EventTakeover:
		l.options.Metrics.Takeovers.WithLabelValues(eventlog.ReasonLabel(evt.Reason)).Inc()
		l.Log.Info().Str("peer", string(evt.Node)).Str("by", evt.Reason).Msg("shards taken over")
	case leader.EventDuplicate:
		l.Log.Warn().Str("peer", string(evt.Node)).Str("addr", evt.Reason).Msg("duplicate-node: another process has this ID")
	case leader.EventNodeUnresponsive:
		l.Log.Warn().Str("peer", string(evt.Node)).Msg("node unresponsive")
	case leader.EventNodeUnreachable:
		l.Log.Warn().Str("peer", string(evt.Node)).Strs("reporters", nodeIDStrings(evt.Reporters)).Msg("node unreachable for most members")
	case leader.EventNodeReachable:
		l.Log.Info().Str("peer", string(evt.Node)).Msg("node reachable again")
	case leader.EventRestart:
		if evt.Grace > 0 {
			l.Log.Info().Str("peer", string(evt.Node)).Dur("grace", evt.Grace).Msg("node restarting in place, shards wait")
		} else {
			l.Log.Info().Str("peer", string(evt.Node)).Msg("node returned after restart")
		}
	case leader.EventNodeRecovered:
		l.Log.Info().Str("peer", string(evt.Node)).Msg("node responds again")
	case leader.EventNoteRejected:
		WarnNoteRefused(&l.Log, evt.Node, evt.Shard)
	}
}

// logProposal logs and counts a proposal of this leader.
func (l *Loop) logProposal(evt leader.Event) {
	l.options.Changes.RecordProposed(evt.Epoch, l.options.Clock.Precise())
	l.options.Metrics.Proposals.WithLabelValues(eventlog.ReasonLabel(evt.Reason)).Inc()
	line := l.Log.Info().Str("reason", eventlog.ReasonLabel(evt.Reason)).Int("moved", evt.Moved)
	if evt.DeferredShards > 0 {
		line.Int("deferred", evt.DeferredShards)
	}
	if len(evt.Joined) > 0 {
		line.Strs("joined", nodeIDStrings(evt.Joined))
	}
	if len(evt.Left) > 0 {
		line.Strs("left", nodeIDStrings(evt.Left))
	}
	line.Msg("map proposed")
}

// nodeIDStrings converts node IDs to strings.
func nodeIDStrings(nodes []shardmap.NodeID) []string {
	result := make([]string, len(nodes))
	for i, id := range nodes {
		result[i] = string(id)
	}
	return result
}

// WarnNoteRefused logs that a shard moves without its release note, because the notes of one proposal exceed
// the limit.
func WarnNoteRefused(log *zerolog.Logger, node shardmap.NodeID, shard shardmap.Shard) {
	log.Warn().Str("peer", string(node)).Uint32("shard", uint32(shard)).Int("max_notes", ack.MaxNotes).Int("max_bytes", ack.MaxNoteBytes).
		Str("remedy", "write the location of the state into the note instead of the state").
		Msg("note refused, map change too large")
}
