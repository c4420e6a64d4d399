package consensus

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// instance is one instance of Raft of the library. A new one is started only after a snapshot that
// contradicts the log; see install.go.
type instance struct {
	*raft.Raft
	trans *transport
	terms *terms
	// pendingSnapshots is the number of received snapshots whose log was not reconciled yet. An
	// instance that ends because of a snapshot keeps counting it.
	pendingSnapshots atomic.Int32
	ended            onceChan // closed when the instance has ended and no longer responds
}

// library returns Raft of the library of the current instance.
func (r *Raft) library() *raft.Raft { return r.current.Load().Raft }

// startInstance starts an instance. The caller must hold instanceLock.
func (r *Raft) startInstance() error {
	c := &instance{trans: newTransport(&r.o, &r.progress, r), terms: &terms{StableStore: r.o.Stores.Stable}, ended: newOnceChan()}
	started := func() bool { return r.current.Load() == c } // false while the library is starting
	c.terms.isCandidate = func() bool { return started() && c.State() == raft.Candidate }
	c.terms.onWrite = func() {
		if started() {
			r.updateTimeouts()
		}
	}
	if err := r.runGuarded(func() error { return r.build(c) }); err != nil {
		return errors.Join(err, c.trans.Close())
	}
	c.RegisterObserver(raft.NewObserver(r.observations, false, leaderChange))
	r.current.Store(c)
	notify(r.changed)
	return nil
}

// build repairs the log and starts the library.
func (r *Raft) build(c *instance) error {
	s := r.o.Stores
	if err := r.repairLog(); err != nil {
		return err
	}
	has, err := raft.HasExistingState(s.Logs, s.Stable, s.Snapshots)
	if err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	if r.current.Load() == nil {
		r.fresh = !has
	}
	c.Raft, err = raft.NewRaft(r.o.config(r.notify), r.fsm, s.Logs, c.terms, s.Snapshots, c.trans)
	if err != nil {
		return fmt.Errorf("consensus: start raft: %w", err)
	}
	return nil
}

// runGuarded runs f on a separate goroutine, because a failing store ends the goroutine that has
// called it.
func (r *Raft) runGuarded(f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("consensus: the stores failed") // result if the store ends the goroutine
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
		<-done //nolint:errcheck // Err has the cause
		return r.Err()
	}
}

// stopInstance stops an instance. It returns true when its goroutines have ended, or false if
// giveUp is closed first, because a stalled write blocks the goroutines. The caller must hold
// instanceLock.
func (r *Raft) stopInstance(c *instance, giveUp <-chan struct{}) (ended bool) {
	defer c.ended.close()
	f := c.Shutdown()
	_ = c.trans.Close() // never returns an error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Error() // waits for the goroutines; never returns an error
	}()
	select {
	case <-done:
	case <-r.failed:
		r.o.Stores.Release()
		<-done
	case <-giveUp:
		return false
	}
	return true
}
