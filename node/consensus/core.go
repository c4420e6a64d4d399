package consensus

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// core is one life of the library's Raft. There is another only after a snapshot
// that contradicts the log, see install.go.
type core struct {
	*raft.Raft
	trans *transport
	terms *terms
	// stale counts the snapshots that arrived and whose log was not yet seen to. A
	// life that ends for one keeps it.
	stale atomic.Int32
	over  latch // the life has ended: it answers nothing any more
}

// lib returns the library's Raft of the present life.
func (r *Raft) lib() *raft.Raft { return r.cur.Load().Raft }

// begin starts a life. The caller holds r.life.
func (r *Raft) begin() error {
	c := &core{trans: newTransport(&r.o, &r.progress, r), terms: &terms{StableStore: r.o.Stores.Stable}, over: newLatch()}
	begun := func() bool { return r.cur.Load() == c } // else the library is not there yet
	c.terms.stands = func() bool { return begun() && c.State() == raft.Candidate }
	c.terms.paced = func() {
		if begun() {
			r.tempo()
		}
	}
	if err := r.guarded(func() error { return r.build(c) }); err != nil {
		return errors.Join(err, c.trans.Close())
	}
	c.RegisterObserver(raft.NewObserver(r.seen, false, leaderChange))
	r.cur.Store(c)
	hint(r.changed)
	return nil
}

func (r *Raft) build(c *core) error {
	s := r.o.Stores
	if err := r.repair(); err != nil {
		return err
	}
	has, err := raft.HasExistingState(s.Logs, s.Stable, s.Snapshots)
	if err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	if r.cur.Load() == nil {
		r.fresh = !has
	}
	c.Raft, err = raft.NewRaft(r.o.config(r.notify), r.fsm, s.Logs, c.terms, s.Snapshots, c.trans)
	if err != nil {
		return fmt.Errorf("consensus: start raft: %w", err)
	}
	return nil
}

// guarded runs f on a goroutine of its own: a store that fails ends the goroutine
// that it was called from.
func (r *Raft) guarded(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("consensus: the stores failed") // If the goroutine is ended.
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("consensus: %v", p)
			}
			done <- err
		}()
		err = f()
	}()
	select {
	case err := <-done:
		return err
	case <-r.failed:
		r.o.Stores.Release()
		<-done //nolint:errcheck // it knows no more
		return r.Err()
	}
}

// end stops a life and returns when its goroutines have ended, or give is closed:
// a write that hangs keeps them. The caller holds r.life.
func (r *Raft) end(c *core, give <-chan struct{}) (ended bool) {
	defer c.over.close()
	f := c.Shutdown()
	_ = c.trans.Close() // It has no error.
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
	case <-give:
		return false
	}
	return true
}
