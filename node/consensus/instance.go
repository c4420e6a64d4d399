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
	transport *transport
	termStore *termStore
	// pendingSnapshots is the number of received snapshots whose log was not reconciled yet. An
	// instance that ends because of a snapshot keeps counting it.
	pendingSnapshots atomic.Int32
	ended            onceChan // closed when the instance has ended and no longer responds
}

// library returns Raft of the library of the current instance.
func (r *Raft) library() *raft.Raft { return r.current.Load().Raft }

// startInstance starts an instance. The caller must hold instanceLock.
func (r *Raft) startInstance() error {
	inst := &instance{transport: newTransport(&r.options, &r.matchIndexes, r), termStore: &termStore{StableStore: r.options.Stores.Stable}, ended: newOnceChan()}
	isCurrent := func() bool { return r.current.Load() == inst } // false while the library is starting
	inst.termStore.isCandidate = func() bool { return isCurrent() && inst.State() == raft.Candidate }
	inst.termStore.onWrite = func() {
		if isCurrent() {
			r.updateTimeouts()
		}
	}
	if err := r.runGuarded(func() error { return r.buildInstance(inst) }); err != nil {
		return errors.Join(err, inst.transport.Close())
	}
	inst.RegisterObserver(raft.NewObserver(r.observations, false, isLeaderChange))
	r.current.Store(inst)
	notify(r.changed)
	return nil
}

// buildInstance repairs the log and starts the library.
func (r *Raft) buildInstance(inst *instance) error {
	stores := r.options.Stores
	if err := r.repairLog(); err != nil {
		return err
	}
	hasState, err := raft.HasExistingState(stores.Logs, stores.Stable, stores.Snapshots)
	if err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	if r.current.Load() == nil {
		r.startedEmpty = !hasState
	}
	inst.Raft, err = raft.NewRaft(r.options.libraryConfig(r.notify), r.fsm, stores.Logs, inst.termStore, stores.Snapshots, inst.transport)
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
			if panicValue := recover(); panicValue != nil {
				err = fmt.Errorf("consensus: %v", panicValue)
			}
			done <- err
		}()
		err = f()
	}()
	select {
	case err := <-done:
		return err
	case <-r.failed:
		r.options.Stores.Release()
		<-done //nolint:errcheck // Err has the cause
		return r.Err()
	}
}

// stopInstance stops an instance. It returns true when its goroutines have ended, or false if
// giveUp is closed first, because a stalled write blocks the goroutines. The caller must hold
// instanceLock.
func (r *Raft) stopInstance(inst *instance, giveUp <-chan struct{}) (ended bool) {
	defer inst.ended.close()
	future := inst.Shutdown()
	_ = inst.transport.Close() // never returns an error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = future.Error() // waits for the goroutines; never returns an error
	}()
	select {
	case <-done:
	case <-r.failed:
		r.options.Stores.Release()
		<-done
	case <-giveUp:
		return false
	}
	return true
}
