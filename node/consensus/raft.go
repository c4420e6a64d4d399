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
	trans *transport
	raft  *raft.Raft
	fresh bool

	ready   chan struct{} // latch: raft is set
	failed  chan struct{} // latch: a store failed
	stopped chan struct{} // latch: Shutdown was called
	changed chan struct{} // 1: hint
	nudge   chan struct{} // 1: hint
	notify  chan bool
	wg      sync.WaitGroup

	stop      sync.Once
	pending   atomic.Int64
	campaigns atomic.Int64 // when the last one began, as UnixNano
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
		ready:   make(chan struct{}),
		failed:  make(chan struct{}),
		stopped: make(chan struct{}),
		changed: make(chan struct{}, 1),
		nudge:   make(chan struct{}, 1),
		notify:  make(chan bool, 16),
	}
	o.Stores.Watch(r.fail, r.hang)
	r.trans = newTransport(&r.o, r.waits, r.ballot)
	if err := r.start(); err != nil {
		o.Stores.Release()
		return nil, errors.Join(err, r.trans.Close(), o.Stream.Close())
	}
	close(r.ready)
	seen := make(chan raft.Observation, 1) // The library drops what does not fit; one hint is enough.
	obs := raft.NewObserver(seen, false, leaderChange)
	r.raft.RegisterObserver(obs)
	r.wg.Go(func() { r.watch(seen) })
	r.wg.Go(r.nudging)
	return r, nil
}

// start builds the library's Raft on a goroutine of its own: a store that fails
// ends the goroutine it was called from.
func (r *Raft) start() error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("consensus: the stores failed") // If the goroutine is ended.
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("consensus: %v", p)
			}
			done <- err
		}()
		err = r.build()
	}()
	select {
	case err := <-done:
		return err
	case <-r.failed:
		r.o.Stores.Release()
		return errors.Join(r.Err(), <-done)
	}
}

func (r *Raft) build() error {
	s := r.o.Stores
	has, err := raft.HasExistingState(s.Logs, s.Stable, s.Snapshots)
	if err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	r.fresh = !has
	r.raft, err = raft.NewRaft(r.o.config(r.notify), r.fsm, s.Logs, s.Stable, s.Snapshots, r.trans)
	if err != nil {
		return fmt.Errorf("consensus: start raft: %w", err)
	}
	return nil
}

// fail is told by the stores.
func (r *Raft) fail(err error) {
	close(r.failed)
	if r.o.Failed != nil {
		r.o.Failed(err)
	}
}

// hang is told by the stores. A leader whose write hangs goes on sending
// heartbeats, so it would never be replaced.
func (r *Raft) hang(on bool) {
	select {
	case <-r.ready:
		r.o.Stream.Isolate(on && r.raft.State() == raft.Leader)
	default:
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
	case <-r.ready:
	default:
		return false
	}
	now, leads := r.Leadership()
	return leads && now == term && slices.ContainsFunc(r.Configuration(), func(s Server) bool {
		return s.ID == string(id)
	})
}

func leaderChange(o *raft.Observation) bool {
	switch o.Data.(type) {
	case raft.LeaderObservation, raft.RaftState:
		return true
	}
	return false
}

// watch drains the library's channels: it blocks on the first.
func (r *Raft) watch(seen <-chan raft.Observation) {
	for {
		select {
		case <-r.notify:
		case <-seen:
		case <-r.stopped:
			return
		}
		hint(r.changed)
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
		term = r.raft.CurrentTerm()
		leads = r.raft.State() == raft.Leader
		if r.raft.CurrentTerm() == term {
			return term, leads
		}
	}
}

// IsLeader reports whether this node believes that it leads.
func (r *Raft) IsLeader() bool { return r.raft.State() == raft.Leader }

// Term returns the current term, the only answer of Raft that leases stand on.
func (r *Raft) Term() uint64 { return r.raft.CurrentTerm() }

// Leader returns the id of the node that leads as far as this one knows, or "".
// It is where to ask, never a permission.
func (r *Raft) Leader() string {
	_, id := r.raft.LeaderWithID()
	return Server{ID: string(id)}.Node()
}

// Fresh reports that the server had neither log nor snapshot when it was opened.
func (r *Raft) Fresh() bool { return r.fresh }

// Applied returns the index of the last entry that the FSM has taken.
func (r *Raft) Applied() uint64 { return r.fsm.applied.Load() }

// Indexes returns the last index in the log and the last committed one.
func (r *Raft) Indexes() (last, committed uint64) {
	return r.raft.LastIndex(), r.raft.CommitIndex()
}

// Failed is closed when a store failed; Err says how.
func (r *Raft) Failed() <-chan struct{} { return r.failed }

// Err returns the first error of a store, nil while there is none.
func (r *Raft) Err() error { return r.o.Stores.Err() }

// Configuration returns the latest configuration in this server's log, which
// need not be committed yet.
func (r *Raft) Configuration() []Server {
	f := r.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return servers(f.Configuration())
}

// Voters returns the ids of the servers that vote, sorted.
func (r *Raft) Voters() []string {
	var out []string
	for _, s := range r.Configuration() {
		if s.Voter {
			out = append(out, s.ID)
		}
	}
	slices.Sort(out)
	return out
}

// Shutdown stops Raft and returns when its goroutines have ended, or ctx has: a
// write that hangs keeps them. Then the stores are released all the same.
func (r *Raft) Shutdown(ctx context.Context) error {
	r.stop.Do(func() { close(r.stopped) })
	r.settle(ctx)
	f := r.raft.Shutdown()
	err := errors.Join(r.trans.Close(), r.o.Stream.Close())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Error() // Waits for the goroutines; it has no error of its own.
	}()
	select {
	case <-done:
	case <-r.failed:
		r.o.Stores.Release()
		<-done
	case <-ctx.Done():
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
