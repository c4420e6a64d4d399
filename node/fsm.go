package node

import (
	"errors"
	"fmt"
	"sync/atomic"

	"shardway/ack"
	"shardway/internal/chanutil"
	"shardway/node/eventlog"
	"shardway/node/registrystore"
)

// fsm is the state machine of Raft (a consensus.FSM). Raft calls Apply and Restore in one goroutine. Both
// publish an immutable ack.State and notify the agent and the leader loop. They never block and never call
// Raft.
type fsm struct {
	// state is the newest state, which the whole node uses. Its index never decreases: if Raft is
	// restarted in the same process, it applies its log from the start again, while state keeps its value
	// until Raft has passed that index.
	state      atomic.Pointer[ack.State]
	applied    *ack.State    // state after the last entry that Raft has applied; only Raft's goroutine uses it
	wakeAgent  chan struct{} // notified of a new state for the agent; capacity 1
	wakeLeader chan struct{} // notified of a new state for the leader loop; capacity 1
	// onFailure is called with the error of an entry that this program cannot decode. It must stop the node,
	// because the state of this node would otherwise diverge from the state of the other nodes.
	onFailure func(error)
	// beforeApply is called before each entry; nil means no call. Cluster tests use it to delay the
	// log of a node.
	beforeApply func()
	// broken is set if an entry could not be decoded. From then on the state does not change. Only Raft's goroutine
	// uses it.
	broken bool
	// registry is the replicated registry. It is applied together with the state.
	registry *registrystore.Store
	// moves is the shard-move history.
	moves eventlog.ShardMoves
	// onPolicyChange is called after the policy (the requests of operators) has changed. It must not block. nil
	// means no call.
	onPolicyChange func()
}

// remedyDamaged is the remedy for an unusable data directory. Removing the node loses no data, because the
// other nodes have everything that the directory contains.
const remedyDamaged = "run the version of the other nodes; else remove this one from the cluster (shardway remove), and let it join with an empty --data directory"

// newFSM returns an fsm with an empty state. See fsm for onFailure.
func newFSM(onFailure func(error)) *fsm {
	f := &fsm{applied: ack.NewState(), registry: registrystore.New(), wakeAgent: make(chan struct{}, 1), wakeLeader: make(chan struct{}, 1), onFailure: onFailure}
	f.state.Store(f.applied)
	return f
}

// Apply applies one log entry. It returns the outcome of the entry, or an error if the entry could not be
// decoded.
func (f *fsm) Apply(index, term uint64, data []byte) any {
	if f.beforeApply != nil {
		f.beforeApply()
	}
	if f.broken {
		return ack.ErrCorrupt
	}
	state, outcome, err := f.applied.Apply(index, term, data)
	if err != nil {
		return f.fail(err)
	}
	if outcome == ack.OutcomeRegistry {
		return f.applyRegistry(state, data)
	}
	f.publish(state, state.ProposalReason())
	return outcome
}

// applyRegistry applies an entry of the registry, after which the state is the same except for its index. It wakes neither
// the agent nor the leader loop, so that a busy registry costs them nothing. The result is a registry.Result, or an error
// if the entry is corrupt.
func (f *fsm) applyRegistry(state *ack.State, entry []byte) any {
	result, err := f.registry.Apply(state.Index(), ack.RegistryCommand(entry))
	if err != nil {
		return f.fail(err)
	}
	f.applied = state
	if state.Index() > f.state.Load().Index() {
		f.state.Store(state)
	}
	return result
}

// Snapshot returns the encoded state. It returns an error after an entry that could not be decoded: the
// snapshot would replace that entry in the log, so the node would silently continue without it after a
// restart.
func (f *fsm) Snapshot() ([]byte, error) {
	if f.broken {
		return nil, ack.ErrCorrupt
	}
	return f.applied.MarshalWithRegistry(f.registry.Marshal())
}

// Restore replaces the state by that of a snapshot, which stands for many log entries. The agent compares
// only states, so it stops serving the shards that this node has lost, as it does after Apply.
func (f *fsm) Restore(encoded []byte) error {
	state, encodedRegistry, err := ack.DecodeWithRegistry(encoded)
	if err == nil {
		err = f.registry.Restore(encodedRegistry)
	}
	if err != nil {
		return f.fail(err)
	}
	f.publish(state, eventlog.ReasonSnapshot)
	return nil
}

// fail freezes the state because of err, and calls onFailure.
func (f *fsm) fail(err error) error {
	f.broken = true
	if _, ok := errors.AsType[*ack.FormatVersionError](err); ok {
		f.onFailure(unsupportedFormatError(err))
		return err
	}
	f.onFailure(fmt.Errorf("node: the log is damaged: "+remedyDamaged+": %w", err))
	return err
}

// publish publishes state, unless the published state is newer. reason is why the map was
// committed. It is stored in the shard-move history.
func (f *fsm) publish(state *ack.State, reason string) {
	f.applied = state
	previous := f.state.Load()
	if state.Index() < previous.Index() {
		return
	}
	f.moves.Record(previous, state, reason)
	f.state.Store(state)
	if f.onPolicyChange != nil && state.Policy() != previous.Policy() {
		f.onPolicyChange()
	}
	chanutil.Notify(f.wakeAgent)
	chanutil.Notify(f.wakeLeader)
}

// unsupportedFormatError returns the error of a node whose log or data directory has a format version that this
// program does not support, with the remedy. err contains an ack.FormatVersionError.
func unsupportedFormatError(err error) error {
	if versionErr, ok := errors.AsType[*ack.FormatVersionError](err); ok && versionErr.Outdated() {
		return fmt.Errorf("node: the data directory was created by a development version: %w: start with an empty --data directory", err)
	}
	return fmt.Errorf("node: the cluster uses a newer format version than this program supports: %w: run the version of the other nodes on this --data directory (a finalized upgrade cannot be undone)", err)
}
