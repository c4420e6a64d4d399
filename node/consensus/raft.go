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
	// enqueueTimeout limits how long the main goroutine of the Raft library may take to accept a
	// request.
	enqueueTimeout = time.Second
	// pendingTimeout limits how long Shutdown waits for pending requests: the Raft library does not
	// respond to requests that are decided while it stops.
	pendingTimeout = 100 * time.Millisecond
)

// Raft is the Raft server of this node. It is safe for concurrent use.
type Raft struct {
	options      Options
	log          zerolog.Logger
	fsm          *fsmAdapter
	startedEmpty bool
	current      atomic.Pointer[instance]
	instanceLock chan struct{} // capacity 1; held while an instance is started or stopped
	failure      *failure

	stopped     chan struct{} // closed by Shutdown
	stopOnce    sync.Once
	wg          sync.WaitGroup
	pending     atomic.Int64 // requests to the Raft library without a response
	changed     chan struct{}
	roleChanges chan bool             // NotifyCh of the Raft library
	observed    chan raft.Observation // capacity 1; the Raft library drops further observations

	trigger       *replicationTrigger
	voterCache    voterCache
	matchIndexes  matchIndexTable
	campaignLimit rateLimit
	// transferTerm is the last term in which this node asked another server to take over its leadership.
	transferTerm atomic.Uint64
}

// Open restores the state and starts the Raft library.
func Open(options Options) (*Raft, error) {
	options.setDefaults()
	if _, _, err := parseServerID(options.ID); err != nil {
		return nil, err
	}
	r := &Raft{
		options:       options,
		log:           options.Log,
		fsm:           &fsmAdapter{fsm: options.FSM},
		instanceLock:  make(chan struct{}, 1),
		failure:       newFailure(&options),
		stopped:       make(chan struct{}),
		changed:       make(chan struct{}, 1),
		roleChanges:   make(chan bool, 16),
		observed:      make(chan raft.Observation, 1),
		trigger:       newReplicationTrigger(),
		campaignLimit: rateLimit{interval: 2 * options.ElectionTimeout},
	}
	options.Stores.SetCallbacks(r.failure.record, r.onStall)
	if err := r.startInstance(); err != nil {
		options.Stores.Release()
		return nil, errors.Join(err, options.Stream.Close())
	}
	r.wg.Go(r.followRole)
	r.wg.Go(func() { r.trigger.run(r.stopped, r.library) })
	return r, nil
}

// onStall is called by the stores when a write stalls or completes. A leader with a stalled write
// would continue to send heartbeats and would never be replaced, so it is isolated.
func (r *Raft) onStall(isStalled bool) {
	if inst := r.current.Load(); inst != nil {
		r.options.Stream.Isolate(isStalled && inst.State() == raft.Leader)
	}
	if r.options.OnStall != nil {
		r.options.OnStall(isStalled)
	}
}

// shouldRetry reports whether the transport should retry to reach a server: this node still leads
// in the term, and the server is in the configuration.
func (r *Raft) shouldRetry(id raft.ServerID, term uint64) bool {
	select {
	case <-r.stopped:
		return false
	default:
	}
	if r.current.Load() == nil {
		return false
	}
	currentTerm, leads := r.Leadership()
	return leads && currentTerm == term && slices.ContainsFunc(r.Configuration(), func(server Server) bool {
		return server.ID == string(id)
	})
}

// IsIsolated reports whether this server was the leader when its disk stalled, and has isolated
// itself from the other voters. One of the other voters then leads or will lead, which this server
// cannot detect.
func (r *Raft) IsIsolated() bool { return r.options.Stream.Isolated() && len(r.Voters()) > 1 }

// isLeaderChange reports whether an observation of the Raft library may mean another leader or another role.
func isLeaderChange(observation *raft.Observation) bool {
	switch observation.Data.(type) {
	case raft.LeaderObservation, raft.RaftState:
		return true
	}
	return false
}

// followRole signals each change of the role or of the leader, and adapts the timeouts to it. It also
// drains the channels of the Raft library, because a full NotifyCh would block the Raft library.
func (r *Raft) followRole() {
	for {
		select {
		case <-r.roleChanges:
		case <-r.observed:
		case <-r.stopped:
			return
		}
		notify(r.changed)
		r.current.Load().updateTimeouts()
	}
}

// notify sends to a channel of capacity 1 without blocking.
func notify(signal chan struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// Changed signals that the leader or the role of this server may have changed.
func (r *Raft) Changed() <-chan struct{} { return r.changed }

// Leadership returns the current term and whether this node leads in it. Two leaderships of the
// same node have different terms.
func (r *Raft) Leadership() (term uint64, leads bool) {
	for {
		library := r.library()
		term = library.CurrentTerm()
		leads = library.State() == raft.Leader
		if library.CurrentTerm() == term {
			return term, leads
		}
	}
}

// IsLeader reports whether this node is the leader according to its own state, which may be out of
// date.
func (r *Raft) IsLeader() bool { return r.library().State() == raft.Leader }

// IsCandidate reports whether this server is a candidate.
func (r *Raft) IsCandidate() bool { return r.library().State() == raft.Candidate }

// Term returns the current term. It is the only information of Raft on which leases depend.
func (r *Raft) Term() uint64 { return r.library().CurrentTerm() }

// Leader returns the node ID of the leader that this server follows, or "". It is an address for
// requests, not a permission.
func (r *Raft) Leader() string {
	return NodeOf(r.LeaderServer())
}

// LeaderOfTerm returns the current term and the node ID of its leader, or "" if this server has received no request
// of that leader. It is evidence that the node led in the term. Leader is not: the Raft library may handle a
// heartbeat of the old leader while it enters the next term, and then follows the old leader there.
func (r *Raft) LeaderOfTerm() (term uint64, leader string) {
	term, leads := r.Leadership()
	if leads {
		return term, NodeOf(r.options.ID)
	}
	if last := r.current.Load().transport.lastLeader.Load(); last != nil && last.term == term {
		leader = NodeOf(last.server)
	}
	return term, leader
}

// HasRecentContact reports whether this server has heard of its leader within the heartbeat timeout.
func (r *Raft) HasRecentContact() bool {
	return time.Since(r.library().LastContact()) < r.options.HeartbeatTimeout
}

// LeaderServer returns the server ID of the leader that this server follows, or "".
func (r *Raft) LeaderServer() string { return r.current.Load().leader() }

// LastEntry returns the term and the index of the last entry in the log, committed or not.
func (r *Raft) LastEntry() (term, index uint64) { return lastEntry(r.library().Stats()) }

// SnapshotIndex returns the index of the newest snapshot of this node; zero means that there is none.
func (r *Raft) SnapshotIndex() uint64 { return statUint(r.library().Stats(), "last_snapshot_index") }

// StartedEmpty reports whether the server had neither a log nor a snapshot when it was opened.
func (r *Raft) StartedEmpty() bool { return r.startedEmpty }

// Applied returns the index of the last entry that the FSM has applied.
func (r *Raft) Applied() uint64 { return r.fsm.applied.Load() }

// Lag returns the number of log entries, committed or not, that are not applied yet.
func (r *Raft) Lag() uint64 {
	applied := r.library().AppliedIndex() // not r.fsm.applied: barriers do not reach the FSM
	return max(r.library().LastIndex(), applied) - applied
}

// LastIndex returns the index of the last entry in the log, committed or not.
func (r *Raft) LastIndex() uint64 { return r.library().LastIndex() }

// Failed is closed when the server cannot continue because a store has failed. Err returns the
// cause.
func (r *Raft) Failed() <-chan struct{} { return r.failure.failed }

// Err returns why the server cannot continue, or nil.
func (r *Raft) Err() error { return r.failure.err() }

// Configuration returns the latest configuration in the log of this server, committed or not.
func (r *Raft) Configuration() []Server { return r.current.Load().servers() }

// Voters returns the IDs of the voters in Configuration, sorted. The caller must not modify the
// result, which is shared.
func (r *Raft) Voters() []string { return r.cachedServers().voters }

// Nonvoters is like Voters, for the servers that are not voters.
func (r *Raft) Nonvoters() []string { return r.cachedServers().nonvoters }

// cachedServers returns the servers in Configuration. It returns none if the Raft library has ended.
func (r *Raft) cachedServers() *cachedVoters {
	future := r.library().GetConfiguration()
	if future.Error() != nil {
		return &cachedVoters{}
	}
	return r.voterCache.serversOf(future.Configuration())
}

// Shutdown stops the Raft library. It returns when its goroutines have ended, or when ctx ends, because
// a stalled write blocks the goroutines. The stores are released in both cases. Only the first
// call waits.
func (r *Raft) Shutdown(ctx context.Context) error {
	r.stopOnce.Do(func() { close(r.stopped) })
	r.waitForPending(ctx)
	select {
	case r.instanceLock <- struct{}{}:
		defer func() { <-r.instanceLock }()
	case <-ctx.Done():
		r.options.Stores.Release()
		return errors.Join(fmt.Errorf("consensus: shutdown: %w", ctx.Err()), r.options.Stream.Close())
	}
	ended := r.current.Load().stop(r.failure, ctx.Done())
	err := r.options.Stream.Close()
	if !ended {
		r.options.Stores.Release()
		return fmt.Errorf("consensus: shutdown: %w", ctx.Err())
	}
	r.wg.Wait()
	return err
}

// waitForPending waits a short time for responses to pending requests.
func (r *Raft) waitForPending(ctx context.Context) {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for range pendingTimeout / time.Millisecond {
		if r.pending.Load() == 0 {
			return
		}
		select {
		case <-ticker.C:
		case <-r.failure.failed:
			return
		case <-ctx.Done():
			return
		}
	}
}
