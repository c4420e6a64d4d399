package consensus

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// instance is one raft.Raft of the library hashicorp/raft. A new one is started only after a snapshot that
// contradicts the log; see install.go. The corrections of the Raft library are methods of the instance: they
// see each request of another server before the Raft library does, and decide by the state of the instance.
type instance struct {
	*raft.Raft
	options   *Options
	transport *transport
	termStore *termStore
	// isCurrent reports whether this is the current instance. It is not while the Raft library is starting.
	isCurrent func() bool
	// replace replaces this instance by another one. It returns after that.
	replace func()
	// pendingSnapshots is the number of received snapshots whose log was not reconciled yet. An
	// instance that ends because of a snapshot keeps counting it.
	pendingSnapshots atomic.Int32
	timeoutsMu       sync.Mutex // serialises updateTimeouts, which the Raft library also calls
	ended            onceChan   // closed when the instance has ended and no longer responds
}

// library returns the raft.Raft of the current instance.
func (r *Raft) library() *raft.Raft { return r.current.Load().Raft }

// startInstance starts an instance. The caller must hold instanceLock.
func (r *Raft) startInstance() error {
	inst := &instance{options: &r.options, termStore: &termStore{StableStore: r.options.Stores.Stable}, ended: newOnceChan()}
	inst.isCurrent = func() bool { return r.current.Load() == inst }
	inst.replace = func() { r.replaceInstance(inst) }
	inst.termStore.isCandidate = func() bool { return inst.isCurrent() && inst.State() == raft.Candidate }
	inst.termStore.onWrite = func() {
		if inst.isCurrent() {
			inst.updateTimeouts()
		}
	}
	inst.transport = newTransport(inst, &r.matchIndexes, r.shouldRetry)
	if err := r.failure.runGuarded(func() error { return r.startLibrary(inst) }); err != nil {
		return errors.Join(err, inst.transport.Close())
	}
	inst.RegisterObserver(raft.NewObserver(r.observed, false, isLeaderChange))
	r.current.Store(inst)
	notify(r.changed)
	return nil
}

// startLibrary repairs the log and starts the Raft library of an instance.
func (r *Raft) startLibrary(inst *instance) error {
	stores := r.options.Stores
	if err := repairLog(stores, r.log); err != nil {
		return err
	}
	hasState, err := raft.HasExistingState(stores.Logs, stores.Stable, stores.Snapshots)
	if err != nil {
		return fmt.Errorf("consensus: %w", err)
	}
	if r.current.Load() == nil {
		r.startedEmpty = !hasState
	}
	inst.Raft, err = raft.NewRaft(r.options.libraryConfig(r.roleChanges), r.fsm, stores.Logs, inst.termStore, stores.Snapshots, inst.transport)
	if err != nil {
		return fmt.Errorf("consensus: start raft: %w", err)
	}
	return nil
}

// replaceInstance stops an instance and starts another one, unless Raft is stopping.
func (r *Raft) replaceInstance(inst *instance) {
	select {
	case r.instanceLock <- struct{}{}:
		defer func() { <-r.instanceLock }()
	case <-r.stopped:
		return
	}
	if !inst.isCurrent() || r.isStopping() {
		return
	}
	r.log.Info().Msg("log dropped, contradicts leader's snapshot")
	if !inst.stop(r.failure, r.stopped) || r.isStopping() {
		return
	}
	if err := r.startInstance(); err != nil {
		r.failure.record(err)
	}
}

// isStopping reports whether a new instance must not be started, because Raft is stopping or has failed.
func (r *Raft) isStopping() bool {
	select {
	case <-r.stopped:
		return true
	case <-r.failure.failed:
		return true
	default:
		return false
	}
}

// stop stops the instance. It returns true when its goroutines have ended, or false if giveUp is
// closed first, because a stalled write blocks the goroutines. The caller must hold Raft.instanceLock.
func (inst *instance) stop(fatal *failure, giveUp <-chan struct{}) (ended bool) {
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
	case <-fatal.failed: // the goroutines may wait for a store that will never respond
		fatal.releaseStores()
		<-done
	case <-giveUp:
		return false
	}
	return true
}

// header returns the header of messages of this server.
func (inst *instance) header() raft.RPCHeader {
	id := []byte(inst.options.ID)
	return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: id, Addr: id}
}

// servers returns the latest configuration in the log of this server, committed or not.
func (inst *instance) servers() []Server {
	future := inst.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	return fromLibrary(future.Configuration())
}

// leader returns the server ID of the leader that this server follows, or "".
func (inst *instance) leader() string {
	_, id := inst.LeaderWithID()
	return string(id)
}
