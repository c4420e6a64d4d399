package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"shardway/ack"
	"shardway/node/consensus"
	"shardway/node/lineage"
)

// leading is the goroutine that runs a leadership: it alone has the ack.Leader. One
// runs at a time; the next begins after the last has returned.
type leading struct {
	*leadership
	// cluster is the id of the one that this leadership makes if there is none.
	cluster string
	turn    *ack.Turn
	// asked has who waits for what becomes of a change of the policy, by its number.
	asked map[uint64]chan<- error
}

func newLeading(n *Node, term uint64) *leading {
	turn := ack.NewTurn(ack.TurnOptions{
		Leader: ack.LeaderOptions{Server: n.server, Term: term, Pace: n.o.Pace, Timing: n.o.Timing, Expect: n.o.Expect},
		Raft:   n.raft, Clock: n.o.Clock.Precise, Newest: n.fsm.state.Load,
	})
	return &leading{leadership: newLeadership(n, term, turn.Began()), cluster: lineage.New(), turn: turn, asked: map[uint64]chan<- error{}}
}

// run leads until ctx ends or the term is over.
func (l *leading) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer close(l.done)
	l.n.asks.Go(func() { l.keeper.Run(ctx, l.done) })
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	l.take(ctx, ack.Tick{}, nil)
	for l.leads() {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			l.take(ctx, ack.Tick{}, nil)
		case <-l.n.fsm.leaderHint:
			l.take(ctx, ack.Tick{}, nil)
		case in := <-l.beats:
			l.take(ctx, ack.Heard{Heartbeat: in.hb, From: in.from}, in.answer)
		case in := <-l.own:
			l.take(ctx, ack.Heard{Heartbeat: in.hb, From: in.from}, in.answer)
		case m := <-l.messages:
			l.take(ctx, m, nil)
		case r := <-l.retimes:
			entry, effects, err := l.turn.Retime(r.timing)
			l.perform(ctx, effects, nil)
			r.answer <- retimed{entry, err}
		case a := <-l.askings:
			l.ask(ctx, a)
		case v := <-l.views:
			v <- l.turn.View()
		case p := <-l.plans:
			plan, err := l.turn.Plan()
			p <- planned{plan, err}
		}
	}
}

// leads reports whether the term goes on.
func (l *leading) leads() bool {
	term, leads := l.raft.Leadership()
	return leads && term == l.term
}

// take has the machine take a message; answer sends what a heartbeat gets.
func (l *leading) take(ctx context.Context, m ack.Message, answer func(ack.Answer)) {
	l.perform(ctx, l.turn.Take(m), answer)
}

func (l *leading) perform(ctx context.Context, effects []ack.Effect, answer func(ack.Answer)) {
	for _, e := range effects {
		switch e := e.(type) {
		case ack.Reply:
			if answer != nil {
				answer(e.Answer)
			}
		case ack.Submit:
			l.submit(e)
		case ack.Barrier:
			l.issueBarrier(ctx, e.Try)
		case ack.StepDown:
			l.stepDown(e.Reason)
		case ack.Noted:
			l.note(e)
		}
	}
}

// submit puts an entry into the log without waiting here. An unknown outcome
// means that leadership is lost: the next leader finds out.
func (l *leading) submit(e ack.Submit) {
	entry, answer := slices.Clone(e.Entry), l.asked[e.Asked]
	delete(l.asked, e.Asked)
	l.n.asks.Go(func() {
		err := l.raft.Apply(entry)
		if answer != nil {
			answer <- err
		}
		if err == nil || errors.Is(err, consensus.ErrUnknown) {
			return
		}
		l.log.Warn().Err(err).Msg("entry not submitted")
		select {
		case l.messages <- ack.SubmitFailed{}:
		case <-l.done:
		}
	})
}

func (l *leading) stepDown(reason string) {
	l.log.Warn().Str("reason", reason).Msg("stepped down")
	l.n.asks.Go(func() {
		if err := l.raft.Transfer(); err != nil {
			l.log.Warn().Err(err).Msg("leadership not handed over")
		}
	})
}

// note logs what the machine decided, and counts it.
func (l *leading) note(e ack.Noted) {
	switch e.Kind {
	case ack.NoteProposing:
		l.n.metrics.rounds.WithLabelValues(e.Reason).Inc()
		l.log.Info().Str("reason", e.Reason).Int("moved", e.Moved).Msg("map proposed")
	case ack.NoteDropped:
		l.n.metrics.drops.WithLabelValues(e.Cause.String()).Inc()
		l.log.Warn().Str("node", string(e.Node)).Stringer("cause", e.Cause).Msg("node dropped")
	case ack.NoteCommitting:
		l.log.Debug().Uint64("epoch", uint64(e.Epoch)).Msg("all acknowledged: committing")
	case ack.NoteTaken:
		l.n.metrics.taken.WithLabelValues(e.Reason).Inc()
		l.log.Info().Str("node", string(e.Node)).Str("by", e.Reason).Msg("shards taken")
	case ack.NoteDuplicate:
		l.log.Warn().Str("node", string(e.Node)).Str("addr", e.Reason).Msg("duplicate-node: two processes have this id")
	case ack.NoteSilent:
		l.log.Warn().Str("node", string(e.Node)).Msg("node silent")
	case ack.NoteAbsence:
		if e.Grace > 0 {
			l.log.Info().Str("node", string(e.Node)).Dur("grace", e.Grace).Msg("node restarts in place: its shards wait for it")
		} else {
			l.log.Info().Str("node", string(e.Node)).Msg("node absent no more")
		}
	case ack.NoteBack:
		l.log.Info().Str("node", string(e.Node)).Msg("node heard again")
	case ack.NoteOver:
		warnOfRoom(&l.log, e.Node, e.Shard)
	}
}
