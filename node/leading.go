package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/consensus"
	"shardway/node/lineage"
	"shardway/shardmap"
)

// leading runs one leadership: it owns the ack.Leader of one Raft term. One
// runs at a time; the next begins after the last has returned.
type leading struct {
	n    *Node
	raft *consensus.Raft
	log  zerolog.Logger
	term uint64
	// cluster is the id of the one that this leadership makes if there is none.
	cluster string

	beats    chan inbound               // unbuffered
	own      chan inbound               // cap 1: this node's own newest heartbeat
	messages chan ack.Message           // unbuffered
	views    chan chan []ack.MemberView // unbuffered
	retimes  chan retiming              // unbuffered
	done     chan struct{}              // closed when the loop has ended

	turn *ack.Turn
}

func newLeading(n *Node, term uint64) *leading {
	return &leading{
		n: n, raft: n.raft, term: term, cluster: lineage.New(),
		log:      n.log.With().Uint64("term", term).Logger(),
		beats:    make(chan inbound),
		own:      make(chan inbound, 1),
		messages: make(chan ack.Message),
		views:    make(chan chan []ack.MemberView),
		retimes:  make(chan retiming),
		done:     make(chan struct{}),
		turn: ack.NewTurn(ack.TurnOptions{
			Leader: ack.LeaderOptions{Server: n.server, Term: term, Pace: n.o.Pace, Timing: n.o.Timing},
			Raft:   n.raft, Clock: n.o.Clock.Precise, Newest: n.fsm.state.Load,
		}),
	}
}

// run leads until ctx ends or the term is over.
func (l *leading) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer close(l.done)
	l.n.asks.Go(func() { l.n.keep(ctx, l) })
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
		case v := <-l.views:
			v <- l.turn.View()
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
	entry := slices.Clone(e.Entry)
	l.n.asks.Go(func() {
		err := l.raft.Apply(entry)
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
	case ack.NoteBack:
		l.log.Info().Str("node", string(e.Node)).Msg("node heard again")
	}
}

// view returns what the leader knows of the nodes, and false once it does not
// lead any more.
func (l *leading) view(ctx context.Context) ([]ack.MemberView, bool) {
	v := make(chan []ack.MemberView, 1)
	select {
	case l.views <- v:
		return <-v, true
	case <-l.done:
	case <-ctx.Done():
	}
	return nil, false
}

// viewOf returns the view of one node.
func viewOf(views []ack.MemberView, node string) (ack.MemberView, bool) {
	i := slices.IndexFunc(views, func(v ack.MemberView) bool { return v.Node == shardmap.NodeID(node) })
	if i < 0 {
		return ack.MemberView{HeardAgo: -1, Silent: true}, false
	}
	return views[i], true
}
