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
// leader.Leader and the fields below. One leader loop runs at a time: the next one starts after the
// previous one has returned.
type Loop struct {
	*Leadership
	// cluster is the ID of the cluster that this leadership creates if there is none.
	cluster string
	driver  *leader.Driver
	// policyCallers are the callers that wait for the result of a policy change, by its number.
	policyCallers map[uint64]chan<- error
	// appUnhealthy contains the nodes that have sent a heartbeat: true means that the app was unhealthy.
	appUnhealthy map[shardmap.NodeID]bool
	nudges       nudges
	// raftHeartbeatsSent is the time at which Raft's heartbeats were last sent.
	raftHeartbeatsSent time.Time
	// voterHeard means that another voter has sent a heartbeat since raftHeartbeatsSent.
	voterHeard bool
}

// New creates the leader loop for a term. The caller must call run.
func New(o Options, term uint64) *Loop {
	driver := leader.NewDriver(leader.DriverOptions{
		Leader: leader.Options{Server: o.Server, Term: term, Pace: o.Pace, Timing: o.Timing, BootstrapExpect: o.BootstrapExpect},
		Raft:   o.View.Raft, Clock: o.Clock.Precise, NewestState: o.View.State, KeyConfig: o.Keys,
	})
	return &Loop{Leadership: newLeadership(o, term, driver.StartedAt()), cluster: clusterid.New(), driver: driver, policyCallers: map[uint64]chan<- error{}, appUnhealthy: map[shardmap.NodeID]bool{}, nudges: nudges{}}
}

// Run is the leader loop. It returns when ctx ends or the term is over.
func (l *Loop) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer close(l.done)
	l.o.Background.Go(func() { l.reconciler.Run(ctx, l.done) })
	l.o.Background.Go(func() { l.pollIdle(ctx) })
	t := l.o.Scheduler.NewOnDemandTicker()
	defer t.Stop()
	l.handle(ctx, leader.Tick{}, nil)
	for again := true; l.leads(); {
		if again { // otherwise the timer keeps its deadline
			t.TickWithin(min(l.driver.Due(), l.sendIfDue()))
		}
		again = true
		select {
		case <-ctx.Done():
			return
		case <-l.raft.Changed(): // the loop condition checks whether the term has ended
		case <-t.C:
			l.handle(ctx, leader.Tick{}, nil)
		case <-l.o.StateChanged: // the driver reads the new state
			l.handle(ctx, leader.Tick{}, nil)
		case in := <-l.beats:
			l.handle(ctx, leader.HeartbeatReceived{Heartbeat: in.Heartbeat, From: in.RemoteAddr}, in.Respond)
			l.onVoterHeartbeat(in.Heartbeat.Server)
		case in := <-l.own:
			l.sendIfDueSoon()
			l.handle(ctx, leader.HeartbeatReceived{Heartbeat: in.Heartbeat, From: in.RemoteAddr}, in.Respond)
		case m := <-l.messages:
			l.handle(ctx, m, nil)
		case r := <-l.timingRequests:
			entry, effects, err := l.driver.ChangeTiming(r.timing)
			l.perform(ctx, effects, nil)
			r.answer <- timingReply{entry, err}
		case a := <-l.policyRequests:
			l.requestPolicyChange(ctx, a)
		case v := <-l.views:
			v <- l.driver.View()
			again = false // a view changes nothing
		case p := <-l.plans:
			plan, err := l.driver.Plan()
			p <- planReply{plan, err}
		}
	}
}

// leads reports whether this node still leads in the same term.
func (l *Loop) leads() bool {
	term, leads := l.raft.Leadership()
	return leads && term == l.term
}

// handle passes a message to the machine and performs the effects. answer sends the response to a
// heartbeat; nil for other messages.
func (l *Loop) handle(ctx context.Context, m leader.Message, answer func(ack.Answer)) {
	if h, ok := m.(leader.HeartbeatReceived); ok {
		l.observeApp(h.Node, h.Unhealthy)
		l.nudgeIfBehind(h.Heartbeat)
	}
	l.perform(ctx, l.driver.Handle(m), answer)
}

// perform performs the effects that the machine has decided. Effects that wait for Raft or for other
// nodes run in separate goroutines.
func (l *Loop) perform(ctx context.Context, effects []leader.Effect, answer func(ack.Answer)) {
	for _, e := range effects {
		switch e := e.(type) {
		case leader.Reply:
			if answer != nil {
				answer(e.Answer)
			}
		case leader.Submit:
			l.submit(e)
		case leader.Barrier:
			l.issueBarrier(ctx, e.Attempt)
		case leader.AskIdle:
			l.o.Background.Go(func() { l.askInStage(ctx, e) })
		case leader.StepDown:
			l.stepDown(ctx, e.Reason)
		case leader.Event:
			l.logEvent(e)
		}
	}
}

// nudgeIfBehind sends the commit index to the followers now if the sender of the heartbeat hb has just
// started or lacks committed entries. A process that has just started has log entries on its disk, but
// does not know which of them are committed.
func (l *Loop) nudgeIfBehind(hb ack.Heartbeat) {
	at := lag{hb.Nonce, l.driver.State().Committed().Epoch()}
	if hb.Term == l.term && l.nudges.shouldNudge(hb.Node, at, hb.Applied < at.epoch, time.Now()) {
		l.raft.PropagateCommit()
	}
}

// observeApp records an event when the health of another node's app has changed. Each node records
// the events of its own app. The first heartbeat of a node is no change.
func (l *Loop) observeApp(node shardmap.NodeID, sick bool) {
	was, known := l.appUnhealthy[node]
	l.appUnhealthy[node] = sick
	if known && was != sick && node != l.o.Self {
		l.o.Events.Add(eventlog.AppHealth(node, !sick))
	}
}

// submit appends an entry to the log in a separate goroutine. If the outcome is unknown, the
// leadership is lost, and the next leader finds the outcome in the log.
func (l *Loop) submit(e leader.Submit) {
	entry, answer := slices.Clone(e.Entry), l.policyCallers[e.RequestNumber]
	delete(l.policyCallers, e.RequestNumber)
	l.o.Background.Go(func() {
		began := time.Now()
		err := l.raft.Apply(entry)
		if err == nil {
			l.o.Metrics.Commits.Observe(time.Since(began).Seconds())
		}
		if answer != nil {
			answer <- err
		}
		if err == nil || errors.Is(err, consensus.ErrUnknown) {
			return
		}
		l.Log.Warn().Err(err).Msg("entry not submitted")
		select {
		case l.messages <- leader.SubmitFailed{}:
		case <-l.done:
		}
	})
}

// stepDown transfers the leadership to another voter in the background.
func (l *Loop) stepDown(ctx context.Context, reason string) {
	l.Log.Warn().Str("reason", reason).Msg("stepped down")
	l.o.Background.Go(func() {
		if err := Transfer(ctx, l.o.View, l.Leadership); err != nil {
			l.Log.Warn().Err(err).Msg("leadership transfer failed")
		}
	})
}

// logEvent logs and counts a decision of the machine.
func (l *Loop) logEvent(e leader.Event) {
	switch e.Kind {
	case leader.EventProposing:
		l.o.Changes.Proposed(e.Epoch, l.o.Clock.Precise())
		l.o.Metrics.Proposals.WithLabelValues(eventlog.ReasonLabel(e.Reason)).Inc()
		line := l.Log.Info().Str("reason", e.Reason).Int("moved", e.Moved)
		if e.Busy > 0 {
			line = line.Int("deferred", e.Busy)
		}
		for name, nodes := range map[string][]shardmap.NodeID{"joined": e.Joined, "left": e.Left} {
			if len(nodes) > 0 {
				line.Strs(name, texts(nodes))
			}
		}
		line.Msg("map proposed")
	case leader.EventDropped:
		l.o.Events.Add(event.Event{Kind: event.NodeDropped, Node: string(e.Node), Reason: e.Cause.String()})
		l.o.Metrics.Exclusions.WithLabelValues(e.Cause.String()).Inc()
		l.Log.Warn().Str("peer", string(e.Node)).Stringer("cause", e.Cause).Msg("node excluded from map")
	case leader.EventCommitting:
		l.o.Changes.CommitSubmitted(e.Epoch, l.o.Clock.Precise())
		l.Log.Debug().Uint64("epoch", uint64(e.Epoch)).Msg("all acknowledgements received")
	case leader.EventTakeover:
		l.o.Metrics.Takeovers.WithLabelValues(eventlog.ReasonLabel(e.Reason)).Inc()
		l.Log.Info().Str("peer", string(e.Node)).Str("by", e.Reason).Msg("shards taken over")
	case leader.EventDuplicate:
		l.Log.Warn().Str("peer", string(e.Node)).Str("addr", e.Reason).Msg("duplicate-node: another process has this ID")
	case leader.EventSilent:
		l.Log.Warn().Str("peer", string(e.Node)).Msg("node unresponsive")
	case leader.EventRestart:
		if e.Grace > 0 {
			l.Log.Info().Str("peer", string(e.Node)).Dur("grace", e.Grace).Msg("node restarting in place, shards wait")
		} else {
			l.Log.Info().Str("peer", string(e.Node)).Msg("node returned after restart")
		}
	case leader.EventBack:
		l.Log.Info().Str("peer", string(e.Node)).Msg("node responds again")
	case leader.EventNoteDropped:
		WarnNoteRefused(&l.Log, e.Node, e.Shard)
	}
}

// texts converts node IDs to strings.
func texts(nodes []shardmap.NodeID) []string {
	out := make([]string, len(nodes))
	for i, id := range nodes {
		out[i] = string(id)
	}
	return out
}

// WarnNoteRefused logs that a shard moves without its release note, because the notes of one proposal exceed
// the limit.
func WarnNoteRefused(log *zerolog.Logger, node shardmap.NodeID, s shardmap.Shard) {
	log.Warn().Str("peer", string(node)).Uint32("shard", uint32(s)).Int("max_notes", ack.MaxNotes).Int("max_bytes", ack.MaxNoteBytes).
		Str("remedy", "write the location of the state into the note instead of the state").
		Msg("note refused, map change too large")
}
