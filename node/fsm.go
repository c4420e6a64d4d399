package node

import (
	"errors"
	"fmt"
	"sync/atomic"

	"shardway/ack"
	"shardway/node/eventlog"
)

// fsm is the replicated state as Raft drives it. Apply publishes an immutable
// State and leaves two hints; it never blocks and never calls Raft.
type fsm struct {
	// state is what the node goes by. It only grows: a Raft that begins again in
	// the same process goes through its log anew, and the node goes on from where
	// it was.
	state      atomic.Pointer[ack.State]
	at         *ack.State    // where Raft is; only its FSM goroutine looks at it
	agentHint  chan struct{} // cap 1
	leaderHint chan struct{} // cap 1
	// failed is told of an entry that this program cannot read: the node must
	// stop before it differs from the others.
	failed func(error)
	// hold, when set, runs before each entry: whole-cluster tests hold a log back
	// with it.
	hold func()
	// broken freezes the state after an entry that could not be read. Only
	// Raft's one FSM goroutine looks at it.
	broken bool
	moves  eventlog.ShardMoves
	// policed, when set, is told that the policy is another; it does not block.
	policed func()
}

// remedyDamaged is what can be done about a data directory that cannot be gone
// on from. Nothing else is in it than what the other nodes have, too.
const remedyDamaged = "run the version of the other nodes; else remove this one from the cluster (shardway remove), and let it join with an empty --data directory"

func newFSM(failed func(error)) *fsm {
	f := &fsm{at: ack.NewState(), agentHint: make(chan struct{}, 1), leaderHint: make(chan struct{}, 1), failed: failed}
	f.state.Store(f.at)
	return f
}

// Apply takes one entry.
func (f *fsm) Apply(index, term uint64, data []byte) any {
	if f.hold != nil {
		f.hold()
	}
	if f.broken {
		return ack.ErrCorrupt
	}
	s, outcome, err := f.at.Apply(index, term, data)
	if err != nil {
		return f.fail(err)
	}
	f.publish(s, s.Reason())
	return outcome
}

// Snapshot returns the whole state. There is none after an entry that could not be
// read: the snapshot would stand for that entry, and what comes after the restart
// go on without it.
func (f *fsm) Snapshot() ([]byte, error) {
	if f.broken {
		return nil, ack.ErrCorrupt
	}
	return f.at.MarshalBinary()
}

// Restore takes the place of the entries that a snapshot stands for; what must
// stop, stops as with Apply, because the agent looks at the state alone.
func (f *fsm) Restore(b []byte) error {
	s, err := ack.DecodeState(b)
	if err != nil {
		return f.fail(err)
	}
	f.publish(s, eventlog.ReasonSnapshot)
	return nil
}

func (f *fsm) fail(err error) error {
	f.broken = true
	if _, ok := errors.AsType[*ack.LevelError](err); ok {
		f.failed(unknownLevel(err))
		return err
	}
	f.failed(fmt.Errorf("node: the log is damaged: "+remedyDamaged+": %w", err))
	return err
}

// publish makes s the state; the reason is that of the map which it has committed.
func (f *fsm) publish(s *ack.State, reason string) {
	f.at = s
	was := f.state.Load()
	if s.Index() < was.Index() {
		return
	}
	f.moves.Record(was, s, reason)
	f.state.Store(s)
	if f.policed != nil && s.Policy() != was.Policy() {
		f.policed()
	}
	notify(f.agentHint)
	notify(f.leaderHint)
}

// notify puts a token into a channel of capacity one. It has no effect if the channel has a token.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
