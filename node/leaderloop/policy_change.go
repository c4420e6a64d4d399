package leaderloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/internal/timingrules"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/shardmap"
)

// leaderPollInterval is the interval at which a node checks for a new leader after a leadership transfer. It
// is also the interval of retries of requests to a leader that was just elected.
const leaderPollInterval = 20 * time.Millisecond

// policyRequest is a request to the leader loop for changes of the policy. result receives the outcome of the
// log entry with the changes.
type policyRequest struct {
	changes []ack.Change
	result  chan<- error // cap 1
}

// changePolicy changes the policy on the leader. It checks and performs one action at a time: two concurrent
// drains could each leave enough voters, but too few together.
func (l *Leadership) changePolicy(ctx context.Context, action api.Action) error {
	select {
	case l.policyLock <- struct{}{}:
		defer func() { <-l.policyLock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	change, err := l.parseAction(action)
	if err != nil {
		return err
	}
	if node, instance, isInstance := shardmap.ParseInstance(change.Node); isInstance {
		if err := l.checkInstanceAction(ctx, action, node, instance); err != nil {
			return err
		}
		return l.submitPolicyChange(ctx, change)
	}
	if err := l.checkNodeChange(ctx, action, change.Node); err != nil {
		return err
	}
	removesAllShards := action.Verb == api.Drain || action.Verb == api.MarkFailed
	if removesAllShards && change.Node == l.options.Self {
		// The new leader performs the action on this node.
		if newLeader := l.transferLeadership(ctx); newLeader != "" {
			return repeatUntilLeader(ctx, func() error {
				return l.options.Client.Call(ctx, newLeader, control.Request{Kind: control.AdminAction, Action: action}, nil)
			})
		}
		if action.Verb == api.MarkFailed {
			return fmt.Errorf("%w: node %q leads the cluster, and no other node takes over the leadership: `shardway nodes` shows the states of the nodes", api.ErrRefused, action.Node)
		}
		// Without another leader, a drained node continues to lead.
	}
	return l.submitPolicyChange(ctx, change)
}

// checkNodeChange returns an error if the action on a node must be refused.
func (l *Leadership) checkNodeChange(ctx context.Context, action api.Action, node shardmap.NodeID) error {
	if action.Verb == api.Drain {
		return l.checkDrain(ctx, action, node)
	}
	if action.Verb == api.MarkFailed {
		return l.checkMarkFailed(ctx, node)
	}
	if action.Verb == api.Uncordon {
		return l.checkUncordon(ctx, node)
	}
	return nil
}

// parseAction converts an action to a change of the policy, or returns why the action is invalid.
func (l *Leadership) parseAction(action api.Action) (ack.Change, error) {
	if err := l.setMapShard(&action); err != nil {
		return ack.Change{}, err
	}
	change := ack.Change{Node: shardmap.NodeID(action.Node), Weight: action.Weight, Shard: shardmap.Shard(action.Shard), Zone: action.Zone, Reason: action.Reason}
	policy := l.options.View.State().Policy()
	node, _, isInstance := shardmap.ParseInstance(change.Node)
	if isInstance && !policy.Drained[change.Node] {
		if !l.options.View.HasNode(string(node)) {
			return change, l.options.View.UnknownNode(string(node))
		}
		action.Node = string(node) // the node is known
	}
	isInPolicy := policy.IsDraining(change.Node) || policy.Cordoned[change.Node] || policy.Weights[change.Node] > 0 || policy.MarkedFailed[change.Node]
	isKnownNode := action.Node == "" || isInPolicy || l.options.View.HasNode(action.Node)
	if !isKnownNode {
		return change, l.options.View.UnknownNode(action.Node)
	}
	switch action.Verb {
	case api.Drain:
		change.SafeDrain = action.Safe
		if err := parseReleaseTimeout(&change, action.ReleaseTimeout); err != nil {
			return change, err
		}
		return parseDrain(change, action.IdleFirst)
	case api.Cordon:
		change.Kind = ack.ChangeCordon
	case api.Uncordon:
		change.Kind = ack.ChangeUncordon
	case api.Weigh:
		change.Kind = ack.ChangeWeight
	case api.Pin:
		change.Kind = ack.ChangePin
		for _, fallback := range action.Fallbacks {
			if !l.options.View.HasNode(fallback) {
				return change, l.options.View.UnknownNode(fallback)
			}
			change.Fallbacks = append(change.Fallbacks, shardmap.NodeID(fallback))
		}
		if action.Zone != "" && !l.options.View.HasZone(action.Zone) {
			return change, fmt.Errorf("%w: no node is in zone %q: `shardway nodes` lists them", api.ErrRefused, action.Zone)
		}
	case api.Unpin:
		change.Kind = ack.ChangeUnpin
	case api.MarkFailed:
		change.Kind = ack.ChangeMarkFailed
	case api.AppRestarted:
		change.Kind = ack.ChangeAppRestarted
	case api.SetRole:
		change.Kind, change.Role = ack.ChangeRole, action.Role
		if !l.options.View.HasRole(action.Role) {
			return change, fmt.Errorf("%w: no node that can get shards has the role %q, so all shards would stay where they are: start nodes with --role %s first, or give a role that `shardway nodes` shows", api.ErrNoActiveNodes, action.Role, action.Role)
		}
	case api.ClearRole:
		change.Kind = ack.ChangeRole
	case api.Resume:
		change.Kind = ack.ChangeResume
	case api.Pause:
		change.Kind = ack.ChangePause
		var err error
		change.Duration, err = parseDuration("for", action.For, ack.MaxPause)
		return change, err
	case api.AddService:
		change.Kind, change.Service, change.Shards = ack.ChangeAddService, action.Service, int(action.Shards)
		return change, checkAddedService(l.options.View.State(), action, l.configuredShards(action.Service))
	case api.RemoveService:
		change.Kind, change.Service = ack.ChangeRemoveService, action.Service
		return change, checkRemovedService(l.options.View.State(), action.Service)
	case api.Quarantine, api.Lift:
		return parseQuarantine(action, policy)
	case api.Remove, api.StepDown, api.Rebalance, api.Approve, api.Refuse:
	}
	return change, nil
}

// parseDuration parses the duration in a field of an action. It returns an error unless the duration is positive
// and at most maximum.
func parseDuration(field, text string, maximum time.Duration) (time.Duration, error) {
	duration, err := time.ParseDuration(text)
	if err != nil || duration <= 0 || duration > maximum {
		return 0, fmt.Errorf("%w: %s = %q is not a duration of at most %s", api.ErrInvalid, field, text, timingrules.Short(maximum))
	}
	return duration, nil
}

// parseReleaseTimeout parses the release timeout of a drain and sets it in change. An empty text changes
// nothing.
func parseReleaseTimeout(change *ack.Change, text string) (err error) {
	if text != "" {
		change.ReleaseTimeout, err = parseDuration("release_timeout", text, ack.MaxReleaseTimeout)
	}
	return err
}

// parseDrain fills in the drain fields of change. With a duration idleFirst, only idle shards move during
// that time, and the remaining ones afterwards. If idleFirst is empty, all shards move immediately.
func parseDrain(change ack.Change, idleFirst string) (ack.Change, error) {
	if idleFirst == "" {
		change.Kind = ack.ChangeDrain
		return change, nil
	}
	change.Kind = ack.ChangeDrainGradually
	var err error
	change.Duration, err = parseDuration("idle_first", idleFirst, ack.MaxGradualDrain)
	return change, err
}

// awaitVoters returns the leader's view of the nodes. A leader that was just elected first waits for a
// heartbeat from every voter, for up to dead-after. Otherwise it would consider all other voters failed,
// for example when the previous leader has transferred the leadership to it in order to be drained.
func (l *Leadership) awaitVoters(ctx context.Context, voters []string) []leader.MemberView {
	ticker := time.NewTicker(leaderPollInterval)
	defer ticker.Stop()
	for {
		views, leads := l.View(ctx)
		missing := slices.ContainsFunc(voters, func(server string) bool {
			member, _ := FindMember(views, consensus.NodeOf(server))
			return member.SinceHeartbeat < 0 && !member.Crashed
		})
		if !leads || !missing || l.options.Clock.Precise()-l.startedAt > l.options.View.Timing().DeadAfter {
			return views
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return views
		}
	}
}

// checkDrain returns an error if a node must not be drained. A drained node is usually stopped afterwards,
// so the conditions are those for stopping it, see StopRisk. They do not apply to a forced drain, and to a node
// that is already drained.
func (l *Leadership) checkDrain(ctx context.Context, action api.Action, node shardmap.NodeID) error {
	voters, _ := l.options.View.Servers()
	views := l.awaitVoters(ctx, voters)
	policy := l.options.View.State().Policy()
	if action.Force || policy.IsDraining(node) {
		return nil
	}
	reason, remedy := StopRisk(node, voters, views, policy)
	if reason == "" {
		return nil
	}
	class := api.ErrRefused
	if !hasOtherOwner(node, views, policy) {
		class = api.ErrNoActiveNodes
	}
	return fmt.Errorf("%w: %s; %s", class, reason, remedy)
}

// StopRisk returns why a node cannot be stopped safely, and a remedy: too few voters would remain, or no other node
// could own its shards. Both results are empty if the node can be stopped.
func StopRisk(node shardmap.NodeID, voters []string, views []leader.MemberView, policy *ack.Policy) (reason, remedy string) {
	available := 0
	var unavailable []string // the voters that do not count, with reasons
	for _, server := range voters {
		id := shardmap.NodeID(consensus.NodeOf(server))
		if id == node {
			continue
		}
		if reason := unavailableReason(id, views, policy); reason != "" {
			unavailable = append(unavailable, string(id)+" "+reason)
		} else {
			available++
		}
	}
	if quorum := len(voters)/2 + 1; available < quorum {
		details := ""
		if len(unavailable) > 0 {
			details = " (" + strings.Join(unavailable, ", ") + ")"
		}
		return fmt.Sprintf("without node %q, %d of %d voters remain and %d are required%s: when it stops, the cluster becomes unavailable", node, available, len(voters), quorum, details),
			"add a node first, or drain it with --force"
	}
	if !hasOtherOwner(node, views, policy) {
		return fmt.Sprintf("no other node can own the shards of node %q now", node), "check the states of the nodes with `shardway nodes`"
	}
	return "", ""
}

// hasOtherOwner reports whether another node could own the shards of a node now.
func hasOtherOwner(node shardmap.NodeID, views []leader.MemberView, policy *ack.Policy) bool {
	return slices.ContainsFunc(views, func(member leader.MemberView) bool {
		return member.Node != node && member.Eligible && !policy.IsDraining(member.Node)
	})
}

// unavailableReason returns why a voter does not count as remaining when another node stops, or "" if it does.
func unavailableReason(voter shardmap.NodeID, views []leader.MemberView, policy *ack.Policy) string {
	member, _ := FindMember(views, string(voter))
	switch {
	case !IsAlive(member):
		return "sends no heartbeats"
	case member.Heartbeat.Leaving || member.Heartbeat.Goodbye:
		return "is leaving"
	case policy.IsDraining(voter):
		return "is drained"
	case policy.MarkedFailed[voter]:
		return "is marked as failed"
	}
	return ""
}

// transferLeadership transfers the leadership to another node, because a drained node should not lead. It returns the
// new leader, or "" if the transfer failed.
func (l *Leadership) transferLeadership(ctx context.Context) string {
	if err := awaitOrCancel(ctx, func() error { return Transfer(ctx, l.options.View, l) }); err != nil {
		l.Log.Warn().Err(err).Msg("leadership transfer failed")
		return ""
	}
	ticker := time.NewTicker(leaderPollInterval)
	defer ticker.Stop()
	for {
		switch leader := l.options.View.Leader(); leader {
		case "":
		case string(l.options.Self):
			return ""
		default:
			return leader
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ""
		}
	}
}

// repeatUntilLeader repeats call while it returns api.ErrNotLeader, until ctx ends. Raft has elected a new leader some
// milliseconds before that node performs requests, and a request that the node refuses for this reason has changed
// nothing.
func repeatUntilLeader(ctx context.Context, call func() error) error {
	ticker := time.NewTicker(leaderPollInterval)
	defer ticker.Stop()
	for {
		err := call()
		if !errors.Is(err, api.ErrNotLeader) {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return err
		}
	}
}

// submitPolicyChange makes the leader loop append changes of the policy (the requests of operators) to the log. It
// returns when this node has applied them, or an error for the operator. A leader that was just elected accepts
// no changes until it has applied the entries of earlier leaders, so submitPolicyChange retries until ctx ends.
func (l *Leadership) submitPolicyChange(ctx context.Context, changes ...ack.Change) error {
	ticker := time.NewTicker(leaderPollInterval)
	defer ticker.Stop()
	for {
		err := l.submitPolicyChangeOnce(ctx, changes)
		if isReady := !errors.Is(err, leader.ErrNotYet); isReady {
			return translatePolicyError(err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return translatePolicyError(err)
		}
	}
}

// submitPolicyChangeOnce does the same as submitPolicyChange, without retries. It returns leader.ErrNotYet if the
// leader is not ready yet.
func (l *Leadership) submitPolicyChangeOnce(ctx context.Context, changes []ack.Change) error {
	result := make(chan error, 1)
	select {
	case l.policyRequests <- policyRequest{changes, result}:
	case <-l.loopEnded:
		return control.ErrNotLeader
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-result:
		return err
	case <-l.loopEnded:
		return fmt.Errorf("%w: the node that received the request is no longer leader; check with `shardway policy` whether the change was made", api.ErrUnknown)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// translatePolicyError converts an error of a policy change to an error for the operator.
func translatePolicyError(err error) error {
	switch {
	case err == nil, errors.Is(err, api.ErrNoLeader), errors.Is(err, api.ErrUnknown):
		return err
	case errors.Is(err, leader.ErrNotYet):
		return fmt.Errorf("%w: the leader was elected a moment ago and is not ready: try again", api.ErrRefused)
	case errors.Is(err, consensus.ErrNotLeader):
		return wrapChangeError(err)
	case isServiceError(err):
		return translateServiceError(err)
	case errors.Is(err, ack.ErrChange):
		return fmt.Errorf("%w: %w", api.ErrInvalid, err)
	case errors.Is(err, ack.ErrPolicyFull):
		return fmt.Errorf("%w: the policy would exceed 64 KiB: first unpin shards or lift quarantines", api.ErrRefused)
	}
	return wrapChangeError(err)
}

// startPolicyChange passes the changes of a request to the driver. The driver returns effects, such as the submission of
// a log entry, and the number under which the outcome of the entry is reported. submitEntry sends this outcome to
// request.result later.
func (l *Loop) startPolicyChange(ctx context.Context, request policyRequest) {
	number, effects, err := l.driver.ChangePolicy(request.changes)
	if err != nil {
		request.result <- err
	} else {
		l.policyCallers[number] = request.result
	}
	l.performEffects(ctx, effects, nil) // nil, because there is no heartbeat to respond to
}

// parseQuarantine returns the change of policy that an action requests: Quarantine begins the quarantine of a key, and
// Lift ends it. action.Under is the number of the hash key with which the key was hashed. action.For is the duration of
// the quarantine.
func parseQuarantine(action api.Action, policy *ack.Policy) (ack.Change, error) {
	hash, err := strconv.ParseUint(action.Hash, 16, 64)
	if err != nil {
		return ack.Change{}, fmt.Errorf("%w: key_hash = %q is not a key hash: give 16 hexadecimal digits", api.ErrInvalid, action.Hash)
	}
	change := ack.Change{Kind: ack.ChangeQuarantine, KeyFingerprint: ack.KeyFingerprint{Shard: shardmap.Shard(action.Shard), Hash: hash, HashKeyID: action.Under}, Reason: action.Reason}
	if action.Verb == api.Lift {
		change.Kind = ack.ChangeEndQuarantine
		if IsQuarantined(policy, change.KeyFingerprint.Shard, hash) {
			return change, nil
		}
		return change, fmt.Errorf("%w: no such key is in quarantine: `shardway quarantine` lists them; after a change of the secret lift it by its hash", api.ErrRefused)
	}
	if action.For != "" { // otherwise the quarantine has no end
		change.Duration, err = parseDuration("for", action.For, ack.MaxQuarantine)
	}
	return change, err
}

// IsQuarantined reports whether policy contains a quarantine of a key.
func IsQuarantined(policy *ack.Policy, shard shardmap.Shard, hash uint64) bool {
	for mark := range policy.Quarantined {
		if mark.Shard == shard && mark.Hash == hash {
			return true
		}
	}
	return false
}
