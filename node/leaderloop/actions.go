package leaderloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/node/cluster"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// Do performs an action on the leader.
func (l *Leadership) Do(ctx context.Context, action api.Action) error {
	switch action.Verb {
	case api.StepDown:
		if action.To != "" {
			return l.transferTo(ctx, action.To)
		}
		if err := awaitOrCancel(ctx, func() error { return Transfer(ctx, l.options.View, l) }); err != nil {
			return wrapChangeError(fmt.Errorf("leadership transfer failed: %w", err))
		}
		return nil
	case api.Remove:
		return l.removeNode(ctx, action)
	case api.Rebalance:
		return l.requestRebalance(ctx)
	case api.Approve, api.Refuse:
		return l.decideJoin(ctx, action)
	case api.Drain, api.Cordon, api.Uncordon, api.Pause, api.Resume, api.Weigh, api.Pin, api.Unpin, api.Quarantine, api.Lift, api.AppRestarted, api.MarkFailed, api.SetRole, api.ClearRole, api.AddService, api.RemoveService:
		return l.changePolicy(ctx, action)
	}
	return fmt.Errorf("%w: unknown action %s", api.ErrRefused, action.Verb)
}

// transferTo transfers the leadership to one node. It refuses a node that cannot lead. If another node becomes leader
// instead, the error names that node.
func (l *Leadership) transferTo(ctx context.Context, node string) error {
	view := l.options.View
	voters, _ := view.Servers()
	server := consensus.ServerOfNode(voters, node)
	if server == "" {
		if !slices.Contains(view.Nodes(), node) {
			return view.UnknownNode(node)
		}
		return fmt.Errorf("%w: node %q is not a voter: `shardway nodes` shows the voters; try one of them", api.ErrRefused, node)
	}
	if node == string(l.options.Self) {
		return fmt.Errorf("%w: node %q is the leader already", api.ErrRefused, node)
	}
	views, _ := l.View(ctx)
	if member, _ := FindMember(views, node); !IsAlive(member) || member.Heartbeat.Goodbye {
		return fmt.Errorf("%w: node %q is not reachable from the leader: wait for its heartbeats, or try another voter", api.ErrNodeUnhealthy, node)
	}
	if err := awaitOrCancel(ctx, func() error { return l.raft.TransferTo(server) }); err != nil {
		return wrapChangeError(fmt.Errorf("leadership transfer to node %q failed: %w", node, err))
	}
	switch elected := awaitLeader(ctx, view); elected {
	case node:
		return nil
	case "":
		return fmt.Errorf("%w: this node no longer leads, and no new leader is known yet: `shardway status` shows the leader", api.ErrUnknown)
	default:
		return fmt.Errorf("%w: node %q was elected leader instead of %q: try again", api.ErrRefused, elected, node)
	}
}

// awaitLeader waits until a leader is known and returns its ID. It returns "" if ctx ends first.
func awaitLeader(ctx context.Context, view *cluster.View) string {
	ticker := time.NewTicker(leaderPollInterval)
	defer ticker.Stop()
	for {
		if leaderID := view.Leader(); leaderID != "" {
			return leaderID
		}
		select {
		case <-ctx.Done():
			return ""
		case <-ticker.C:
		}
	}
}

// removeNode removes a node permanently from Raft's configuration. It refuses a node that still runs, because
// the leader would add that node again.
func (l *Leadership) removeNode(ctx context.Context, action api.Action) error {
	voters, nonvoters := l.options.View.Servers()
	server := consensus.ServerOfNode(slices.Concat(voters, nonvoters), action.Node)
	state := l.options.View.State()
	id := shardmap.NodeID(action.Node)
	isServer := server != ""
	isKnown := isServer || state.Committed().IsMember(id) || l.options.View.IsInGossip(action.Node)
	if !isKnown {
		return l.options.View.UnknownNode(action.Node)
	}
	if isLeader := action.Node == string(l.options.Self); isLeader {
		return fmt.Errorf("%w: node %q leads; `shardway step-down` first, then stop it", api.ErrRefused, action.Node)
	}
	views, _ := l.View(ctx)
	member, _ := FindMember(views, action.Node)
	if err := checkStopped(action, member, l.options.View.IsAlive(action.Node)); err != nil {
		return err
	}
	if shards := state.Committed().ShardCount(id); shards > 0 && !action.Force {
		return fmt.Errorf("%w: node %q still owns %d shards; wait until other nodes own them, or use --force if the node and its app are certainly gone", api.ErrRefused, action.Node, shards)
	}
	if slices.Contains(voters, server) && len(voters) == 2 {
		return fmt.Errorf("%w: %q is one of two voters, and the Raft library can deadlock when two voters become one: add a node first", api.ErrRefused, action.Node)
	}
	if action.Force { // after all checks: the operator's confirmation does not apply to a refused action
		l.SendContext(ctx, leader.NodeRemoved{Node: id})
	}
	if isServer {
		if err := awaitOrCancel(ctx, func() error { return l.raft.Remove(server) }); err != nil {
			return wrapChangeError(err)
		}
	}
	l.deleteNodeRecords(ctx, id)
	return nil
}

// checkStopped returns an error if a node must not be removed yet. member is the leader's view of the
// node, and aliveInGossip reports whether gossip lists the node as alive. A node that sends heartbeats is
// never removed, unless its process is known to be gone. The state in gossip is ignored if the action is
// forced: gossip takes seconds to detect a crash, and the operator confirms that the node is gone.
func checkStopped(action api.Action, member leader.MemberView, aliveInGossip bool) error {
	switch {
	case IsAlive(member):
		return fmt.Errorf("%w: node %q still runs and would be added again: its last heartbeat came %d ms ago; stop it first (SIGTERM hands its shards over), or try again 1 s after it has exited",
			api.ErrRefused, action.Node, member.SinceHeartbeat.Milliseconds())
	case aliveInGossip && !action.Force:
		return fmt.Errorf("%w: node %q is still alive according to gossip, and would be added again: if it has just exited, try again after %d s, or use --force if the node and its app are certainly gone",
			api.ErrRefused, action.Node, int(gossip.FailureDetectionTime.Seconds()))
	}
	return nil
}

// deleteNodeRecords deletes everything that the cluster stores about a removed node: the requests of operators for it
// (such as a drain), the reason of its exclusion, and its entry in gossip. Otherwise a new node with the
// same ID would inherit them.
func (l *Leadership) deleteNodeRecords(ctx context.Context, id shardmap.NodeID) {
	if err := l.submitPolicyChange(ctx, ack.Change{Kind: ack.ChangeForgetNode, Node: id}); err != nil {
		l.Log.Warn().Err(err).Str("peer", string(id)).Msg("requested state of removed node kept")
	}
	l.deleteFromGossip(ctx, string(id))
}

// deleteFromGossip makes all nodes delete the entry of a removed node from gossip. An unreachable node keeps the
// entry until gossip deletes it, as for any node that is gone.
func (l *Leadership) deleteFromGossip(ctx context.Context, node string) {
	l.options.View.Gossip.Forget(node)
	var wg sync.WaitGroup
	for _, member := range l.options.View.Gossip.Members() {
		isAliveNode := member.Node && member.Status == gossip.Alive
		if !isAliveNode || member.ID == string(l.options.Self) || member.ID == node {
			continue
		}
		wg.Go(func() {
			if err := l.options.Client.Call(ctx, member.ID, control.Request{Kind: control.Forget, Server: node}, nil); err != nil {
				l.Log.Warn().Err(err).Str("peer", member.ID).Str("removed", node).Msg("removed node still in gossip")
			}
		})
	}
	wg.Wait()
}

// RemoveStopping removes the server of a stopping node from Raft's configuration, if enough voters remain. Otherwise
// the server stays a member, which is not an error. requester is the node that has sent the request: a node may
// request only the removal of its own server.
func (l *Leadership) RemoveStopping(ctx context.Context, requester, server string) error {
	if consensus.NodeOf(server) != requester {
		return fmt.Errorf("%w: node %q asks for server %q", api.ErrRefused, requester, server)
	}
	views, _ := l.View(ctx)
	if !l.options.View.CanRemoveServer(server, views) {
		return nil
	}
	return awaitOrCancel(ctx, func() error { return l.raft.Remove(server) })
}

// wrapChangeError wraps the error of a change in the error that tells the caller whether the change was made.
// api.ErrRefused means that the change was certainly not made, and api.ErrUnknown means that it may still be
// made.
func wrapChangeError(err error) error {
	if errors.Is(err, consensus.ErrNotLeader) {
		return fmt.Errorf("%w: %w; try again in a moment", api.ErrNotLeader, err)
	}
	if errors.Is(err, consensus.ErrUnknown) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w", api.ErrUnknown, err)
	}
	return fmt.Errorf("%w: %w", api.ErrRefused, err)
}

// awaitOrCancel runs call and returns its result, or the error of ctx if ctx ends first. If the disk stalls, a
// call of Raft may return only after Raft has stopped.
func awaitOrCancel(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }() // this goroutine ends when Raft stops, or earlier
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SendContext passes a message to the leader loop. It waits until the loop has received it, the leadership has
// ended or ctx has ended.
func (l *Leadership) SendContext(ctx context.Context, message leader.Message) {
	select {
	case l.messages <- message:
	case <-l.loopEnded:
	case <-ctx.Done():
	}
}

// Send does the same as SendContext, without a context.
func (l *Leadership) Send(message leader.Message) {
	select {
	case l.messages <- message:
	case <-l.loopEnded:
	}
}

// requestRebalance makes the leader loop propose a new shard map. It refuses a map that would change
// nothing.
func (l *Leadership) requestRebalance(ctx context.Context) error {
	plan, err := l.Plan(ctx)
	if err != nil {
		return err
	}
	if err = l.checkRebalance(ctx, plan); err != nil {
		return err
	}
	select {
	case l.messages <- leader.MapRequested{}:
		return nil
	case <-l.loopEnded:
		return control.ErrNotLeader
	case <-ctx.Done():
		return ctx.Err()
	}
}
