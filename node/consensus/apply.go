package consensus

import (
	"time"

	"github.com/hashicorp/raft"
)

// Apply appends an entry to the log and returns once it is applied on this server. It then propagates the commit
// index to the followers. ErrNotLeader and ErrBusy mean that nothing has changed. ErrUnknown means that the entry
// may have been applied.
func (r *Raft) Apply(data []byte) error {
	_, err := r.ApplyIndex(data)
	return err
}

// ApplyIndex is like Apply, and also returns the index of the entry.
func (r *Raft) ApplyIndex(data []byte) (uint64, error) {
	var future raft.ApplyFuture
	err := r.callLibrary(func(inst *instance) raft.Future {
		future = inst.Apply(data, enqueueTimeout)
		return future
	})
	if err != nil {
		return 0, err
	}
	r.PropagateCommit()
	return future.Index(), nil
}

// ApplyResult is like Apply, and also returns the result of FSM.Apply.
func (r *Raft) ApplyResult(data []byte) (any, error) {
	var future raft.ApplyFuture
	err := r.callLibrary(func(inst *instance) raft.Future {
		future = inst.Apply(data, enqueueTimeout)
		return future
	})
	if err != nil {
		return nil, err
	}
	r.PropagateCommit()
	return future.Response(), nil
}

// VerifyLeader returns nil after a quorum has confirmed that this server still leads.
func (r *Raft) VerifyLeader() error {
	return r.callLibrary(func(inst *instance) raft.Future { return inst.VerifyLeader() })
}

// Barrier returns once all earlier log entries are applied on this server.
func (r *Raft) Barrier() error {
	return r.callLibrary(func(inst *instance) raft.Future { return inst.Barrier(enqueueTimeout) })
}

// PropagateCommit tells the followers the commit index now, by appending an entry. Otherwise they learn it with the
// next entry, or after up to twice commitRepeatInterval. It does not wait.
func (r *Raft) PropagateCommit() { notify(r.trigger.barrierRequested) }

// AnnounceLeader makes the leader send a heartbeat to its followers now. Call it when a server has returned.
// Otherwise the server learns its leader only from the next heartbeat, up to 300 ms later (see
// leaderHeartbeatFactor), and an unreachable server is retried only after a pause. It does not wait, and has no
// effect on a server that does not lead.
func (r *Raft) AnnounceLeader() {
	if r.current.Load() == nil || r.library().State() != raft.Leader || !r.trigger.announceLimit.allow(time.Now()) {
		return
	}
	r.options.Stream.retryDials()
	notify(r.trigger.heartbeatRequested)
}

// SendHeartbeat makes the leader send a heartbeat to all followers now. It is intended for callers that are awake
// anyway, because each heartbeat triggered by a timer of the Raft library wakes an idle process twice, and the
// runtime's monitor thread as well. If SendHeartbeat is called slightly more often than such a timer expires (150
// to 300 ms, see leaderHeartbeatFactor), none expires. The timers remain necessary, because SendHeartbeat waits for
// writes of the leader and for its caller; no lease depends on either. It does not wait, and has no effect on a
// server that does not lead.
func (r *Raft) SendHeartbeat() {
	if inst := r.current.Load(); inst != nil && inst.State() == raft.Leader {
		notify(r.trigger.heartbeatRequested)
	}
}

// callLibrary sends a request to the current instance and returns its result.
func (r *Raft) callLibrary(request func(inst *instance) raft.Future) error {
	return r.runUntilStopped(func() error {
		inst := r.current.Load()
		return inst.await(request(inst))
	})
}

// runUntilStopped runs f, but returns early when Raft stops.
func (r *Raft) runUntilStopped(f func() error) error {
	if r.isStopping() {
		return translateError(raft.ErrRaftShutdown)
	}
	r.pending.Add(1)
	done := make(chan error, 1)
	go func() {
		defer r.pending.Add(-1)
		done <- f()
	}()
	select {
	case err := <-done:
		return translateError(err)
	case <-r.stopped:
	case <-r.failure.failed:
	}
	return translateError(raft.ErrRaftShutdown)
}
