package leaderloop

import (
	"context"
	"fmt"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/shardmap"
)

// checkInstanceAction returns an error if an action must not be performed on one app instance of a node. Draining the
// last healthy instance would leave the shards of the node without an app.
func (l *Leadership) checkInstanceAction(ctx context.Context, action api.Action, node shardmap.NodeID, instance shardmap.Instance) error {
	name := shardmap.InstanceName(node, instance)
	policy := l.options.View.State().Policy()
	switch action.Verb {
	case api.Uncordon:
		return nil // allowed even if the instance no longer exists, so that its drain can be cancelled
	case api.Drain, api.AppRestarted:
	case api.Remove, api.StepDown, api.Cordon, api.Pause, api.Resume, api.Weigh, api.Pin, api.Unpin, api.Quarantine, api.Lift, api.Rebalance, api.MarkFailed, api.SetRole, api.ClearRole, api.AddService, api.RemoveService, api.Approve, api.Refuse:
		return fmt.Errorf("%w: %s applies to nodes, but %q is an app instance: name the node %q", api.ErrInvalid, action.Verb, name, node)
	}
	if action.Safe || action.IdleFirst != "" || action.ReleaseTimeout != "" {
		return fmt.Errorf("%w: the drain of an app instance has no options: leave them out, or drain the node %q", api.ErrInvalid, node)
	}
	views, _ := l.View(ctx)
	member, _ := FindMember(views, string(node))
	count := InstanceCount(member)
	if count < 2 {
		return fmt.Errorf("%w: node %q has one app instance: name the node", api.ErrInvalid, node)
	}
	if action.Verb == api.Drain && member.Heartbeat.RemovedInstances.Has(instance) {
		return fmt.Errorf("%w: the app instance %q is no longer configured, and owns no shards: name another instance", api.ErrInvalid, name)
	}
	if int(instance) >= count {
		return fmt.Errorf("%w: node %q has the app instances 1 to %d", api.ErrInvalid, node, count)
	}
	if action.Verb != api.Drain || action.Force || policy.Drained[name] {
		return nil
	}
	_, isLast := member.Heartbeat.Instances.Without(func(other shardmap.Instance) bool {
		return other == instance || policy.DrainsInstance(node, other)
	})
	if isLast {
		return fmt.Errorf("%w: no other instance of node %q can own its shards; add --force to move them to other nodes", api.ErrRefused, node)
	}
	return nil
}

// InstanceCount returns the number of app instances of a node, as far as the leader knows. It is zero
// before the first heartbeat of the node.
func InstanceCount(member leader.MemberView) int {
	if member.SinceHeartbeat < 0 || member.Heartbeat.Boot == 0 {
		return 0
	}
	return len(member.Heartbeat.InstancesStartedAfter) + 1
}

// InstanceState returns the state of an app instance of a node that owns shards, for status output. view
// contains the last heartbeat of the node.
func InstanceState(policy *ack.Policy, view leader.MemberView, instance shardmap.Instance, shards int) string {
	isDrained := policy.DrainsInstance(view.Node, instance)
	switch {
	case view.Heartbeat.RemovedInstances.Has(instance):
		return "removed"
	case view.Heartbeat.UnhealthyInstances.Has(instance):
		return "unhealthy"
	case isDrained && shards > 0:
		return "draining"
	case isDrained:
		return "drained"
	case view.Heartbeat.Instances.Has(instance):
		return "active"
	}
	return "recovering"
}
