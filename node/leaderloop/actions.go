package leaderloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/admin/api"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// Do performs an action on the leader.
func (l *Leadership) Do(ctx context.Context, a api.Action) error {
	switch a.Verb {
	case api.StepDown:
		if err := await(ctx, func() error { return Transfer(ctx, l.o.View, l) }); err != nil {
			return refusal(fmt.Errorf("leadership transfer failed: %w", err))
		}
		return nil
	case api.Remove:
		return l.remove(ctx, a)
	case api.Rebalance:
		return l.requestRebalance(ctx)
	case api.Drain, api.Cordon, api.Uncordon, api.Pause, api.Resume, api.Weigh, api.Pin, api.Unpin, api.Quarantine, api.Lift, api.AppRestarted:
		return l.changePolicy(ctx, a)
	}
	return fmt.Errorf("%w: unknown action %s", api.ErrRefused, a.Verb)
}

// remove removes a node permanently from Raft's configuration. It refuses a node that still runs, because
// the leader would add that node again.
func (l *Leadership) remove(ctx context.Context, a api.Action) error {
	voters, others := l.o.View.Servers()
	server := consensus.ServerOfNode(slices.Concat(voters, others), a.Node)
	s := l.o.View.State()
	id := shardmap.NodeID(a.Node)
	if server == "" && !s.Committed().IsMember(id) && !l.o.View.Remembers(a.Node) {
		return l.o.View.UnknownNode(a.Node)
	}
	if a.Node == string(l.o.Self) {
		return fmt.Errorf("%w: node %q leads; `shardway step-down` first, then stop it", api.ErrRefused, a.Node)
	}
	views, _ := l.View(ctx)
	v, _ := ViewOf(views, a.Node)
	if err := stillRuns(a, v, l.o.View.IsAlive(a.Node)); err != nil {
		return err
	}
	if s.Committed().ShardCount(id) > 0 && !a.Force {
		return fmt.Errorf("%w: node %q still owns %d shards; wait until other nodes own them, or use --force if the node and its app are certainly gone", api.ErrRefused, a.Node, s.Committed().ShardCount(id))
	}
	if slices.Contains(voters, server) && len(voters) == 2 {
		return fmt.Errorf("%w: %q is one of two voters, and the Raft library can deadlock when two voters become one: add a node first", api.ErrRefused, a.Node)
	}
	if a.Force { // after all checks: the operator's confirmation does not apply to a refused action
		l.SendContext(ctx, leader.NodeRemoved{Node: id})
	}
	if server == "" {
		l.forget(ctx, id)
		return nil
	}
	if err := await(ctx, func() error { return l.raft.Remove(server) }); err != nil {
		return refusal(err)
	}
	l.forget(ctx, id)
	return nil
}

// stillRuns returns why a node must not be removed yet, or nil. v is the leader's view of the node, and
// listed reports whether gossip lists the node as alive. A node that sends heartbeats is never removed,
// unless its process is known to be gone. The state in gossip is ignored if the action is forced: gossip
// takes seconds to detect a crash, and the operator confirms that the node is gone.
func stillRuns(a api.Action, v leader.MemberView, listed bool) error {
	switch {
	case v.SinceHeartbeat >= 0 && !v.Silent && !v.Crashed:
		return fmt.Errorf("%w: node %q still runs and would be added again: its last heartbeat came %d ms ago; stop it first (SIGTERM hands its shards over), or try again 1 s after it has exited",
			api.ErrRefused, a.Node, v.SinceHeartbeat.Milliseconds())
	case listed && !a.Force:
		return fmt.Errorf("%w: node %q is still alive according to gossip, and would be added again: if it has just exited, try again after %d s, or use --force if the node and its app are certainly gone",
			api.ErrRefused, a.Node, int(gossip.FailureDetectionTime.Seconds()))
	}
	return nil
}

// forget deletes everything that the cluster stores about a removed node: the requests of operators for it
// (such as a drain), the reason of its exclusion, and its entry in gossip. Otherwise a new node with the
// same ID would inherit them.
func (l *Leadership) forget(ctx context.Context, id shardmap.NodeID) {
	if err := l.submitPolicyChange(ctx, ack.Change{Kind: ack.ChangeForgetNode, Node: id}); err != nil {
		l.Log.Warn().Err(err).Str("peer", string(id)).Msg("requested state of removed node kept")
	}
	l.forgetInGossip(ctx, string(id))
}

// forgetInGossip makes all nodes delete the entry of a removed node from gossip. A node that cannot be reached
// keeps the entry until gossip deletes it, as for any node that is gone.
func (l *Leadership) forgetInGossip(ctx context.Context, node string) {
	l.o.View.Gossip.Forget(node)
	var wg sync.WaitGroup
	for _, m := range l.o.View.Gossip.Members() {
		if !m.Node || m.ID == string(l.o.Self) || m.ID == node || m.Status != gossip.Alive {
			continue
		}
		wg.Go(func() {
			if err := l.o.Client.Call(ctx, m.ID, control.Request{Kind: control.Forget, Server: node}, nil); err != nil {
				l.Log.Warn().Err(err).Str("peer", m.ID).Str("removed", node).Msg("removed node still in gossip")
			}
		})
	}
	wg.Wait()
}

// RemoveStopping removes the server of a stopping node from Raft's configuration, if enough voters remain. Otherwise
// the server stays a member, which is not an error. from is the node that has sent the request: a node may
// request only the removal of its own server.
func (l *Leadership) RemoveStopping(ctx context.Context, from, server string) error {
	if consensus.NodeOf(server) != from {
		return fmt.Errorf("%w: node %q asks for server %q", api.ErrRefused, from, server)
	}
	views, _ := l.View(ctx)
	if !l.o.View.MayLeave(server, views) {
		return nil
	}
	return await(ctx, func() error { return l.raft.Remove(server) })
}

// refusal wraps an error of a change. api.ErrRefused means that the change was certainly not made, and
// api.ErrUnknown means that it may still be made.
func refusal(err error) error {
	if errors.Is(err, consensus.ErrUnknown) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w: %w", api.ErrUnknown, err)
	}
	return fmt.Errorf("%w: %w", api.ErrRefused, err)
}

// await calls f and returns its result, or the error of ctx if ctx ends first. If the disk stalls, a call
// of Raft may return only after Raft has stopped.
func await(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }() // this goroutine ends when Raft stops, or earlier
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// SendContext passes a message to the leader loop. It waits until the loop has received it, the leadership has
// ended or ctx has ended.
func (l *Leadership) SendContext(ctx context.Context, m leader.Message) {
	select {
	case l.messages <- m:
	case <-l.done:
	case <-ctx.Done():
	}
}

// Send does the same as Tell, without a context.
func (l *Leadership) Send(m leader.Message) {
	select {
	case l.messages <- m:
	case <-l.done:
	}
}

// requestRebalance makes the leader loop propose a new shard map.
func (l *Leadership) requestRebalance(ctx context.Context) error {
	select {
	case l.messages <- leader.MapRequested{}:
		return nil
	case <-l.done:
		return control.ErrNotLeader
	case <-ctx.Done():
		return ctx.Err()
	}
}
