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

// handOverLook is the interval at which a node polls after a leadership transfer, until there is a new
// leader. It is also the interval of retries of requests to a leader that was just elected.
const handOverLook = 20 * time.Millisecond

// policyRequest is a request to the leader loop for changes of the policy. answer receives the result of the log
// entry with the changes.
type policyRequest struct {
	changes []ack.Change
	answer  chan<- error // cap 1
}

// changePolicy changes the policy on the leader. It checks and performs one action at a time: two concurrent
// drains could each leave enough voters, but too few together.
func (l *Leadership) changePolicy(ctx context.Context, a api.Action) error {
	select {
	case l.changingPolicy <- struct{}{}:
		defer func() { <-l.changingPolicy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	change, err := l.changeOf(a)
	if err != nil {
		return err
	}
	if a.Verb == api.Drain {
		voters, _ := l.o.View.Servers()
		views := l.awaitVoters(ctx, voters)
		s := l.o.View.State()
		if err := drainable(change.Node, voters, views, s.Policy()); err != nil && !a.Force && !s.Policy().IsDraining(change.Node) {
			return err
		}
		if a.Node == string(l.o.Self) {
			// The new leader drains this node. If no other node takes over, this one drains itself as leader.
			if next := l.handOver(ctx); next != "" {
				return l.o.Client.Call(ctx, next, control.Request{Kind: control.Do, Action: a}, nil)
			}
		}
	}
	return l.submitPolicyChange(ctx, change)
}

// changeOf converts an action to a change of the policy, or returns why the action is invalid.
func (l *Leadership) changeOf(a api.Action) (ack.Change, error) {
	c := ack.Change{Node: shardmap.NodeID(a.Node), Weight: a.Weight, Shard: shardmap.Shard(a.Shard), Zone: a.Zone}
	p := l.o.View.State().Policy()
	asked := p.IsDraining(c.Node) || p.Cordoned[c.Node] || p.Weights[c.Node] > 0
	if a.Node != "" && !l.o.View.HasNode(a.Node) && !asked {
		return c, l.o.View.UnknownNode(a.Node)
	}
	switch a.Verb {
	case api.Drain:
		c.SafeDrain = a.Safe
		if err := releaseTimeoutOf(&c, a.ReleaseTimeout); err != nil {
			return c, err
		}
		return drainOf(c, a.IdleFirst)
	case api.Cordon:
		c.Kind = ack.ChangeCordon
	case api.Uncordon:
		c.Kind = ack.ChangeUncordon
	case api.Weigh:
		c.Kind = ack.ChangeWeight
	case api.Pin:
		c.Kind = ack.ChangePin
		if a.Zone != "" && !l.o.View.HasZone(a.Zone) {
			return c, fmt.Errorf("%w: no node is in zone %q: `shardway nodes` lists them", api.ErrRefused, a.Zone)
		}
	case api.Unpin:
		c.Kind = ack.ChangeUnpin
	case api.AppRestarted:
		c.Kind = ack.ChangeAppRestarted
	case api.Resume:
		c.Kind = ack.ChangeResume
	case api.Pause:
		d, err := time.ParseDuration(a.For)
		if err != nil || d <= 0 || d > ack.MaxPause {
			return c, fmt.Errorf("%w: for = %q is not a duration of at most %s", api.ErrInvalid, a.For, timingrules.Short(ack.MaxPause))
		}
		c.Kind, c.Duration = ack.ChangePause, d
	case api.Quarantine, api.Lift:
		return quarantineOf(a, p)
	case api.Remove, api.StepDown, api.Rebalance:
	}
	return c, nil
}

// releaseTimeoutOf parses the release timeout of a drain and sets it in c. An empty text changes nothing.
func releaseTimeoutOf(c *ack.Change, text string) error {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > ack.MaxReleaseTimeout {
		return fmt.Errorf("%w: release_timeout = %q is not a duration of at most %s", api.ErrInvalid, text, timingrules.Short(ack.MaxReleaseTimeout))
	}
	c.ReleaseTimeout = d
	return nil
}

// drainOf fills in the drain fields of c. With a duration idleFirst, only idle shards move during that
// time, and the remaining ones afterwards. If idleFirst is empty, all shards move at once.
func drainOf(c ack.Change, idleFirst string) (ack.Change, error) {
	if idleFirst == "" {
		c.Kind = ack.ChangeDrain
		return c, nil
	}
	d, err := time.ParseDuration(idleFirst)
	if err != nil || d <= 0 || d > ack.MaxGradualDrain {
		return c, fmt.Errorf("%w: idle_first = %q is not a duration of at most %s", api.ErrInvalid, idleFirst, timingrules.Short(ack.MaxGradualDrain))
	}
	c.Kind, c.Duration = ack.ChangeDrainGradually, d
	return c, nil
}

// awaitVoters returns the leader's view of the nodes. A leader that was just elected first waits for a
// heartbeat from every voter, for up to dead-after. Otherwise it would consider all other voters failed,
// for example when the previous leader has transferred the leadership to it in order to be drained.
func (l *Leadership) awaitVoters(ctx context.Context, voters []string) []leader.MemberView {
	t := time.NewTicker(handOverLook)
	defer t.Stop()
	for {
		views, leads := l.View(ctx)
		missing := slices.ContainsFunc(voters, func(server string) bool {
			v, _ := ViewOf(views, consensus.NodeOf(server))
			return v.SinceHeartbeat < 0 && !v.Crashed
		})
		if !leads || !missing || l.o.Clock.Precise()-l.began > l.o.View.Timing().DeadAfter {
			return views
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return views
		}
	}
}

// drainable returns an error if a node must not be drained. A drained node is usually stopped afterwards,
// so the conditions are those for stopping it, see endangered.
func drainable(node shardmap.NodeID, voters []string, views []leader.MemberView, p *ack.Policy) error {
	why, remedy := Endangered(node, voters, views, p)
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s; %s", api.ErrRefused, why, remedy)
}

// Endangered returns why a node cannot be stopped safely, and a remedy: too few voters would remain, or no
// other node could own its shards. Empty results mean that the node can be stopped.
func Endangered(node shardmap.NodeID, voters []string, views []leader.MemberView, p *ack.Policy) (why, remedy string) {
	var left, missing []string
	for _, server := range voters {
		id := shardmap.NodeID(consensus.NodeOf(server))
		if id == node {
			continue
		}
		v, _ := ViewOf(views, string(id))
		why := ""
		switch {
		case v.SinceHeartbeat < 0 || v.Silent || v.Crashed:
			why = "sends no heartbeats"
		case v.Heartbeat.Leaving || v.Heartbeat.Goodbye:
			why = "is leaving"
		case p.IsDraining(id):
			why = "is drained"
		}
		if why == "" {
			left = append(left, string(id))
		} else {
			missing = append(missing, string(id)+" "+why)
		}
	}
	if need := len(voters)/2 + 1; len(left) < need {
		also := "" // the voters that do not count, with reasons
		if len(missing) > 0 {
			also = " (" + strings.Join(missing, ", ") + ")"
		}
		return fmt.Sprintf("without node %q, %d of %d voters remain and %d are required%s: when it stops, the cluster becomes unavailable", node, len(left), len(voters), need, also),
			"add a node first, or drain it with --force"
	}
	if !slices.ContainsFunc(views, func(v leader.MemberView) bool { return v.Node != node && v.Eligible && !p.IsDraining(v.Node) }) {
		return fmt.Sprintf("no other node can own the shards of node %q now", node), "check the states of the nodes with `shardway nodes`"
	}
	return "", ""
}

// handOver transfers the leadership to another node, because a drained node should not lead. It returns the
// new leader, or "" if the transfer failed.
func (l *Leadership) handOver(ctx context.Context) string {
	if err := await(ctx, func() error { return Transfer(ctx, l.o.View, l) }); err != nil {
		l.Log.Warn().Err(err).Msg("leadership transfer failed")
		return ""
	}
	t := time.NewTicker(handOverLook)
	defer t.Stop()
	for {
		switch leader := l.o.View.Leader(); leader {
		case "":
		case string(l.o.Self):
			return ""
		default:
			return leader
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ""
		}
	}
}

// submitPolicyChange makes the leader loop append changes of the policy to the log, and returns when this node has
// applied them. While the leader was just elected and is not ready yet, submitPolicyChange retries.
func (l *Leadership) submitPolicyChange(ctx context.Context, changes ...ack.Change) error {
	t := time.NewTicker(handOverLook)
	defer t.Stop()
	for {
		err := l.submitOnce(ctx, changes)
		if !errors.Is(err, leader.ErrNotYet) {
			return policyError(err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return policyError(err)
		}
	}
}

// submitOnce does the same as submitPolicyChange, without retries.
func (l *Leadership) submitOnce(ctx context.Context, changes []ack.Change) error {
	answer := make(chan error, 1)
	select {
	case l.policyRequests <- policyRequest{changes, answer}:
	case <-l.done:
		return control.ErrNotLeader
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-answer:
		return err
	case <-l.done:
		return fmt.Errorf("%w: the node that received the request is no longer leader; check with `shardway policy` whether the change was made", api.ErrUnknown)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// policyError converts an error of a policy change to an error for the operator.
func policyError(err error) error {
	switch {
	case err == nil, errors.Is(err, api.ErrNoLeader), errors.Is(err, api.ErrUnknown):
		return err
	case errors.Is(err, leader.ErrNotYet):
		return fmt.Errorf("%w: the leader was elected a moment ago and is not ready: try again", api.ErrRefused)
	case errors.Is(err, ack.ErrChange):
		return fmt.Errorf("%w: %w", api.ErrInvalid, err)
	case errors.Is(err, ack.ErrPolicyFull):
		return fmt.Errorf("%w: the policy would exceed 64 KiB: first unpin shards or lift quarantines", api.ErrRefused)
	}
	return refusal(err)
}

// requestPolicyChange passes the changes in a to the driver, which submits a log entry for them. The result is sent to
// a.answer later, see submit.
func (l *Loop) requestPolicyChange(ctx context.Context, a policyRequest) {
	number, effects, err := l.driver.ChangePolicy(a.changes)
	if err != nil {
		a.answer <- err
	} else {
		l.policyCallers[number] = a.answer
	}
	l.perform(ctx, effects, nil)
}

// quarantineOf returns the change of policy p that an action (Quarantine or Lift) requests.
func quarantineOf(a api.Action, p *ack.Policy) (ack.Change, error) {
	hash, err := strconv.ParseUint(a.Hash, 16, 64)
	if err != nil {
		return ack.Change{}, fmt.Errorf("%w: key_hash = %q is not a key hash: give 16 hexadecimal digits", api.ErrInvalid, a.Hash)
	}
	c := ack.Change{Kind: ack.ChangeQuarantine, KeyFingerprint: ack.KeyFingerprint{Shard: shardmap.Shard(a.Shard), Hash: hash, HashKeyID: a.Under}}
	if a.Verb == api.Lift {
		c.Kind = ack.ChangeEndQuarantine
		if IsQuarantined(p, c.KeyFingerprint.Shard, hash) {
			return c, nil
		}
		return c, fmt.Errorf("%w: no such key is in quarantine: `shardway quarantine` lists them; after a change of the secret lift it by its hash", api.ErrRefused)
	}
	if a.For == "" {
		return c, nil
	}
	if c.Duration, err = time.ParseDuration(a.For); err != nil || c.Duration <= 0 || c.Duration > ack.MaxQuarantine {
		return c, fmt.Errorf("%w: for = %q is not a duration of at most %s", api.ErrInvalid, a.For, timingrules.Short(ack.MaxQuarantine))
	}
	return c, nil
}

// IsQuarantined reports whether policy p contains a quarantine of a key.
func IsQuarantined(p *ack.Policy, shard shardmap.Shard, hash uint64) bool {
	for m := range p.Quarantined {
		if m.Shard == shard && m.Hash == hash {
			return true
		}
	}
	return false
}
