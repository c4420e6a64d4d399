package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/rs/zerolog"
)

const (
	// enqueue bounds how long Raft's main goroutine may take to accept a request.
	enqueue = time.Second
	// quiesce bounds how long Shutdown waits for requests under way: the library
	// forgets to answer those that are decided while it stops.
	quiesce = 100 * time.Millisecond
)

// Raft is this node's Raft server. Its methods may be called from any goroutine.
type Raft struct {
	o     Options
	log   zerolog.Logger
	fsm   *machine
	fresh bool
	cur   atomic.Pointer[core]
	life  chan struct{} // 1: held by who begins or ends a core

	failed  chan struct{} // latch: a store failed
	stopped chan struct{} // latch: Shutdown was called
	changed chan struct{} // 1: hint
	nudge   chan struct{} // 1: hint
	greet   chan struct{} // 1: hint
	notify  chan bool
	seen    chan raft.Observation // 1: the library drops what does not fit
	wg      sync.WaitGroup

	electorate atomic.Pointer[electorate]
	progress   progress
	stop       sync.Once
	broken     sync.Once
	err        atomic.Pointer[error]
	pending    atomic.Int64
	campaigns  pace
	greetings  pace
	pacing     sync.Mutex // tempo is called by the library's loop as well
}

// Open restores the state and starts Raft.
func Open(o Options) (*Raft, error) {
	o.defaults()
	if _, _, err := split(o.ID); err != nil {
		return nil, err
	}
	r := &Raft{
		o:       o,
		log:     o.Log,
		fsm:     &machine{fsm: o.FSM},
		life:    make(chan struct{}, 1),
		failed:  make(chan struct{}),
		stopped: make(chan struct{}),
		changed: make(chan struct{}, 1),
		nudge:   make(chan struct{}, 1),
		greet:   make(chan struct{}, 1),
		notify:  make(chan bool, 16),
		seen:    make(chan raft.Observation, 1),

		campaigns: pace{every: 2 * o.Election},
		greetings: pace{every: greetEvery},
	}
	o.Stores.Notify(r.fail, r.hang)
	if err := r.begin(); err != nil {
		o.Stores.Release()
		return nil, errors.Join(err, o.Stream.Close())
	}
	r.wg.Go(r.observe)
	r.wg.Go(r.nudging)
	return r, nil
}

// fail is told by the stores, and of a Raft that could not begin again.
func (r *Raft) fail(err error) {
	r.broken.Do(func() {
		r.err.Store(&err)
		close(r.failed)
		if r.o.Failed != nil {
			r.o.Failed(err)
		}
	})
}

// hang is told by the stores. A leader whose write hangs goes on sending
// heartbeats, so it would never be replaced.
func (r *Raft) hang(on bool) {
	if c := r.cur.Load(); c != nil {
		r.o.Stream.Isolate(on && c.State() == raft.Leader)
	}
	if r.o.Hung != nil {
		r.o.Hung(on)
	}
}

// waits is asked by the transport about a server that cannot be reached.
func (r *Raft) waits(id raft.ServerID, term uint64) bool {
	select {
	case <-r.stopped:
		return false
	default:
	}
	if r.cur.Load() == nil {
		return false
	}
	now, leads := r.Leadership()
	return leads && now == term && slices.ContainsFunc(r.Configuration(), func(s Server) bool {
		return s.ID == string(id)
	})
}

// CutOff reports that this server led when its disk hung, and cut itself off from
// the other voters: one of them leads, or will, though it cannot find out.
func (r *Raft) CutOff() bool { return r.o.Stream.Isolated() && len(r.Voters()) > 1 }

func leaderChange(o *raft.Observation) bool {
	switch o.Data.(type) {
	case raft.LeaderObservation, raft.RaftState:
		return true
	}
	return false
}

// observe drains the library's channels: it blocks on the first.
func (r *Raft) observe() {
	for {
		select {
		case <-r.notify:
		case <-r.seen:
		case <-r.stopped:
			return
		}
		hint(r.changed)
		r.tempo()
	}
}

func hint(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Changed gives a hint that the leader, or this node's part, may have changed.
func (r *Raft) Changed() <-chan struct{} { return r.changed }

// Leadership returns whether this node leads, and in which term. Two leaderships
// of one node differ in their term.
func (r *Raft) Leadership() (term uint64, leads bool) {
	for {
		c := r.lib()
		term = c.CurrentTerm()
		leads = c.State() == raft.Leader
		if c.CurrentTerm() == term {
			return term, leads
		}
	}
}

// IsLeader reports whether this node believes that it leads.
func (r *Raft) IsLeader() bool { return r.lib().State() == raft.Leader }

// Candidate reports whether this server stands for election now.
func (r *Raft) Candidate() bool { return r.lib().State() == raft.Candidate }

// Term returns the current term, the only answer of Raft that leases stand on.
func (r *Raft) Term() uint64 { return r.lib().CurrentTerm() }

// Leader returns the id of the node that leads as far as this one knows, or "".
// It is where to ask, never a permission.
func (r *Raft) Leader() string {
	_, id := r.lib().LeaderWithID()
	return Server{ID: string(id)}.Node()
}

// LeaderServer returns the server that leads as far as this one knows, or "".
func (r *Raft) LeaderServer() string {
	_, id := r.lib().LeaderWithID()
	return string(id)
}

// LogEnd returns the term and the index of the last entry in the log, committed or not.
func (r *Raft) LogEnd() (term, index uint64) { return lastEntry(r.lib().Stats()) }

// Fresh reports that the server had neither log nor snapshot when it was opened.
func (r *Raft) Fresh() bool { return r.fresh }

// Applied returns the index of the last entry that the FSM has taken.
func (r *Raft) Applied() uint64 { return r.fsm.applied.Load() }

// Lag returns how many entries of the log have not been applied yet, committed or not.
func (r *Raft) Lag() uint64 {
	applied := r.lib().AppliedIndex() // not those that the FSM has taken: barriers never get there
	return max(r.lib().LastIndex(), applied) - applied
}

// LastIndex returns the index of the last entry in the log, committed or not.
func (r *Raft) LastIndex() uint64 { return r.lib().LastIndex() }

// Failed is closed when the server cannot go on, as a store failed; Err says how.
func (r *Raft) Failed() <-chan struct{} { return r.failed }

// Err returns why the server cannot go on, nil while it can.
func (r *Raft) Err() error {
	if p := r.err.Load(); p != nil {
		return *p
	}
	return nil
}

// Configuration returns the latest configuration in this server's log, which
// need not be committed yet.
func (r *Raft) Configuration() []Server {
	f := r.lib().GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return servers(f.Configuration())
}

// electorate is who votes by a configuration.
type electorate struct {
	by     []raft.Server // as the library has it, which makes another one at each change
	voters []string
}

// Voters returns the ids of the servers that vote by Configuration, sorted. Several get the same
// slice: they only read it. It is asked for with each heartbeat.
func (r *Raft) Voters() []string {
	f := r.lib().GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	by := f.Configuration().Servers
	if len(by) == 0 {
		return nil
	}
	if e := r.electorate.Load(); e != nil && len(e.by) == len(by) && &e.by[0] == &by[0] {
		return e.voters
	}
	e := &electorate{by: by}
	for _, s := range servers(f.Configuration()) {
		if s.Voter {
			e.voters = append(e.voters, s.ID)
		}
	}
	slices.Sort(e.voters)
	r.electorate.Store(e)
	return e.voters
}

// Shutdown stops Raft and returns when its goroutines have ended, or ctx has: a
// write that hangs keeps them. Then the stores are released all the same. Only
// the first call waits.
func (r *Raft) Shutdown(ctx context.Context) error {
	r.stop.Do(func() { close(r.stopped) })
	r.settle(ctx)
	select {
	case r.life <- struct{}{}:
		defer func() { <-r.life }()
	case <-ctx.Done():
		r.o.Stores.Release()
		return errors.Join(fmt.Errorf("consensus: shutdown: %w", ctx.Err()), r.o.Stream.Close())
	}
	ended := r.end(r.cur.Load(), ctx.Done())
	err := r.o.Stream.Close()
	if !ended {
		r.o.Stores.Release()
		return fmt.Errorf("consensus: shutdown: %w", ctx.Err())
	}
	r.wg.Wait()
	return err
}

// settle gives requests under way a moment to be answered.
func (r *Raft) settle(ctx context.Context) {
	t := time.NewTicker(time.Millisecond)
	defer t.Stop()
	for range quiesce / time.Millisecond {
		if r.pending.Load() == 0 {
			return
		}
		select {
		case <-t.C:
		case <-r.failed:
			return
		case <-ctx.Done():
			return
		}
	}
}
