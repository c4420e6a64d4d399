package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shardway/ack"
	"shardway/ack/join"
	"shardway/ack/leader"
	"shardway/node/consensus"
	"shardway/shardmap"
)

// JoinStatus is the state of the join request of a node, as the leader reports it to that node.
type JoinStatus struct {
	Stage  string `json:"stage"`
	Ticket uint64 `json:"ticket,omitempty"`
	// Reason is why the request is refused, or why there is no request.
	Reason string `json:"reason,omitempty"`
	// Remaining is how long the request still waits for a decision, in nanoseconds.
	Remaining time.Duration `json:"remaining_ns,omitempty"`
}

// joinDecision is a request of DecideJoin. result has capacity 1.
type joinDecision struct {
	decision join.Decision
	result   chan<- error
}

// DecideJoin performs the decision of an operator about a join request. It returns once the decision is in force. The
// error is ErrNotReady, an error of join.Decide, or an error of Raft. The end of the leadership closes leadershipEnded.
func (r *Reconciler) DecideJoin(ctx context.Context, decision join.Decision, leadershipEnded <-chan struct{}) error {
	result := make(chan error, 1)
	select {
	case r.joinDecisions <- joinDecision{decision, result}:
	case <-leadershipEnded:
		return ErrNotReady
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// decideJoin is DecideJoin on the goroutine that adds servers.
func (r *Reconciler) decideJoin(decision join.Decision) error {
	if !r.options.Ready() || !r.options.State().Bootstrapped() {
		return ErrNotReady
	}
	change, err := join.Decide(r.options.State().Joins(), decision)
	if err != nil {
		return err
	}
	delete(r.identifyTimes, change.Server) // the server is added, or its node informed, without a delay
	return r.proposeJoin(change)
}

// errTermEnded reports that an entry was ignored, because another leader was elected before the entry was in the log.
var errTermEnded = errors.New("membership: another leader was elected")

// proposeJoin appends changes of join requests to the log, with the time of this leader.
func (r *Reconciler) proposeJoin(changes ...join.Change) error {
	for i := range changes {
		changes[i].UnixMilli = uint64(max(time.Now().UnixMilli(), 0))
		if changes[i].Kind == join.Accept && r.options.SnapshotIndex != nil {
			changes[i].Snapshot = r.options.SnapshotIndex()
		}
	}
	if _, err := join.DecodeChanges(join.AppendChanges(nil, changes)); err != nil { // every node would fail to apply the entry
		return fmt.Errorf("membership: join request not recorded: %w", err)
	}
	before := r.options.State().Joins()
	entry := ack.JoinEntry{Term: r.options.Term, Changes: changes}
	if err := r.options.ProposeJoin(ack.EncodeJoin(r.options.State().FormatVersion(), entry)); err != nil {
		r.options.Log.Warn().Err(err).Msg("join stage not recorded")
		return err
	}
	after := r.options.State().Joins()
	for _, change := range changes {
		previous, _ := before.Of(change.Server)
		record, _ := after.Of(change.Server)
		if record.Stage != previous.Stage {
			r.lastChange = time.Now()
			r.options.Log.Info().Str("server", change.Server).Stringer("stage", record.Stage).Uint64("ticket", record.Ticket).Str("reason", record.Reason).Msg("join stage changed")
		} else if change.Kind == join.Accept || change.Kind == join.Refuse {
			return errTermEnded
		}
	}
	return nil
}

// approvesJoins reports whether servers need an approval. In an earlier format version the log cannot contain requests,
// so servers are added without one.
func (r *Reconciler) approvesJoins() bool {
	return r.options.Joins.Manual && r.options.State().FormatVersion().HasJoins()
}

// mayAdd reports whether a server may be added to the configuration.
func (r *Reconciler) mayAdd(server string) bool {
	return !r.approvesJoins() || r.approval.MayAdd(r.options.State().Joins(), server)
}

// requestJoin records the join request of a server that has just confirmed its disk, and reports the state of the
// request to its node.
func (r *Reconciler) requestJoin(ctx context.Context, server string, process Process) {
	r.identifyTimes[server] = time.Now()
	change, isNew, err := r.approval.RequestChange(r.options.State().Joins(), server, process.Boot)
	if isNew {
		err = r.proposeJoin(change)
	}
	record, exists := r.options.State().Joins().Of(server)
	status := JoinStatus{Stage: record.Stage.String(), Ticket: record.Ticket, Reason: record.Reason, Remaining: r.approval.RemainingTime(r.elapsed(), record)}
	if !exists {
		status = JoinStatus{Stage: JoinUnrecorded}
		if err != nil {
			status.Reason = err.Error()
		}
	}
	notifyCtx, cancel := context.WithTimeout(ctx, confirmInterval)
	defer cancel()
	r.options.NotifyJoin(notifyCtx, nodeOf(server), status)
}

// JoinUnrecorded is the stage of a node that waits without a request, for example because too many requests are open.
const JoinUnrecorded = "unrecorded"

// elapsed returns the time since this leadership started.
func (r *Reconciler) elapsed() time.Duration { return time.Since(r.startedAt) }

// recordJoinStages appends the stages that servers have reached, and the requests that have expired, to the log.
func (r *Reconciler) recordJoinStages(views []leader.MemberView) {
	if !r.approvesJoins() {
		return
	}
	state := r.options.State()
	view := View{Servers: ServersOf(r.options.Raft.Configuration()), MemberViews: views}
	var servers []join.ServerState
	for _, server := range view.All() {
		servers = append(servers, view.joinState(server, state.Committed()))
	}
	changes := r.approval.DueChanges(r.elapsed(), state.Joins(), servers)
	if len(changes) == 0 {
		return
	}
	for _, change := range changes {
		delete(r.identifyTimes, change.Server)
	}
	_ = r.proposeJoin(changes...)
}

// joinState returns the state of a server that decides about the last stages of its join.
func (v View) joinState(server string, committed *shardmap.Map) join.ServerState {
	member, _ := v.memberView(server)
	hasCaughtUp := v.hasWorkingLink(server) && v.isCaughtUp(server, committed.Epoch())
	isInMap := committed.IsMember(shardmap.NodeID(consensus.NodeOf(server)))
	return join.ServerState{Server: server, HasCaughtUp: hasCaughtUp, IsActive: hasCaughtUp && (isInMap || member.Heartbeat.Gateway)}
}
