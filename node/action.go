package node

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
	"shardway/diagnosis"
	"shardway/node/consensus"
	"shardway/node/control"
	"shardway/node/gossip"
	"shardway/shardmap"
)

// Do performs an action of an operator. Only the leader can perform it, so another node sends the action
// to the leader.
func (n *Node) Do(ctx context.Context, a api.Action) error {
	ctx, cancel := context.WithTimeout(ctx, control.HandlerTimeout)
	defer cancel()
	if a.Hash != "" {
		a.Under = markedUnder(n.hashKey())
	}
	if l := n.leadership(); l != nil {
		return l.do(ctx, a)
	}
	leader := n.view.Leader()
	if leader == "" {
		return fmt.Errorf("%w: %s", api.ErrNoLeader, n.leaderless())
	}
	return n.client.CallLeader(ctx, leader, control.Request{Kind: control.Do, Action: a}, nil)
}

// do performs an action on the leader.
func (l *leadership) do(ctx context.Context, a api.Action) error {
	switch a.Verb {
	case api.StepDown:
		if err := await(ctx, func() error { return l.n.transfer(ctx) }); err != nil {
			return refusal(fmt.Errorf("leadership transfer failed: %w", err))
		}
		return nil
	case api.Remove:
		return l.remove(ctx, a)
	case api.Rebalance:
		return l.requestRebalance(ctx)
	case api.Drain, api.Cordon, api.Uncordon, api.Pause, api.Resume, api.Weigh, api.Pin, api.Unpin, api.Quarantine, api.Lift, api.AppRestarted:
		return l.police(ctx, a)
	}
	return fmt.Errorf("%w: unknown action %s", api.ErrRefused, a.Verb)
}

// remove removes a node permanently from Raft's configuration. It refuses a node that still runs, because
// the leader would add that node again.
func (l *leadership) remove(ctx context.Context, a api.Action) error {
	voters, others := l.n.view.Servers()
	server := consensus.ServerOf(slices.Concat(voters, others), a.Node)
	s := l.n.fsm.state.Load()
	id := shardmap.NodeID(a.Node)
	if server == "" && !s.Committed().Has(id) && !l.n.view.Remembers(a.Node) {
		return l.n.view.UnknownNode(a.Node)
	}
	if a.Node == string(l.n.self) {
		return fmt.Errorf("%w: node %q leads; `shardway step-down` first, then stop it", api.ErrRefused, a.Node)
	}
	views, _ := l.view(ctx)
	v, _ := viewOf(views, a.Node)
	if err := stillRuns(a, v, l.n.view.IsAlive(a.Node)); err != nil {
		return err
	}
	if s.Committed().Count(id) > 0 && !a.Force {
		return fmt.Errorf("%w: node %q still owns %d shards; wait until they are taken, or vouch with --force that it and its app are gone", api.ErrRefused, a.Node, s.Committed().Count(id))
	}
	if slices.Contains(voters, server) && len(voters) == 2 {
		return fmt.Errorf("%w: %q is one of two voters, and the Raft library can deadlock when two voters become one: add a node first", api.ErrRefused, a.Node)
	}
	if a.Force { // after all checks: the operator's confirmation does not apply to a refused action
		l.tell(ctx, leader.NodeRemoved{Node: id})
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
		return fmt.Errorf("%w: node %q still runs and would be added again: its last heartbeat came %d ms ago; stop it first (SIGTERM hands its shards over), or try again 1 s after it has ended",
			api.ErrRefused, a.Node, v.SinceHeartbeat.Milliseconds())
	case listed && !a.Force:
		return fmt.Errorf("%w: node %q still runs as far as gossip shows, and would be added again: if it has just ended, try again after %d s, when gossip has noticed, or vouch with --force that it and its app are gone",
			api.ErrRefused, a.Node, int(gossip.FailureDetectionTime.Seconds()))
	}
	return nil
}

// forget deletes everything that the cluster stores about a removed node: the requests of operators for it
// (such as a drain), the reason of its exclusion, and its entry in gossip. Otherwise a new node with the
// same ID would inherit them.
func (l *leadership) forget(ctx context.Context, id shardmap.NodeID) {
	if err := l.amend(ctx, ack.Change{Kind: ack.ChangeForget, Node: id}); err != nil {
		l.log.Warn().Err(err).Str("peer", string(id)).Msg("requested state of removed node kept")
	}
	l.n.forgotten(ctx, string(id))
}

// forgotten makes all nodes delete the entry of a removed node from gossip. A node that cannot be reached
// keeps the entry until gossip deletes it, as for any node that is gone.
func (n *Node) forgotten(ctx context.Context, node string) {
	n.gossip.Forget(node)
	var wg sync.WaitGroup
	for _, m := range n.gossip.Members() {
		if !m.Node || m.ID == string(n.self) || m.ID == node || m.Status != gossip.Alive {
			continue
		}
		wg.Go(func() {
			if err := n.client.Call(ctx, m.ID, control.Request{Kind: control.Forget, Server: node}, nil); err != nil {
				n.log.Warn().Err(err).Str("peer", m.ID).Str("removed", node).Msg("removed node still in gossip")
			}
		})
	}
	wg.Wait()
}

// letGo removes the server of a stopping node from Raft's configuration, if enough voters remain. Otherwise
// the server stays a member, which is not an error. from is the node that has sent the request: a node may
// request only the removal of its own server.
func (l *leadership) letGo(ctx context.Context, from, server string) error {
	if consensus.NodeOf(server) != from {
		return fmt.Errorf("%w: node %q asks for server %q", api.ErrRefused, from, server)
	}
	views, _ := l.view(ctx)
	if !l.n.view.MayLeave(server, views) {
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

// tell passes a message to the leader loop, and waits until the loop has received it, the leadership has
// ended or ctx has ended.
func (l *leadership) tell(ctx context.Context, m leader.Message) {
	select {
	case l.messages <- m:
	case <-l.done:
	case <-ctx.Done():
	}
}

// requestRebalance makes the leader loop propose a new shard map.
func (l *leadership) requestRebalance(ctx context.Context) error {
	select {
	case l.messages <- leader.MapRequested{}:
		return nil
	case <-l.done:
		return control.ErrNotLeader
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leadership returns the current leadership of this node, or nil if this node does not lead. It is also nil
// if the node has isolated itself because its disk has stalled, see leader.
func (n *Node) leadership() *leadership {
	if n.raft.CutOff() {
		return nil
	}
	return n.leading.Load()
}

// leaderless returns why there is no leader, as far as this node can determine, with a remedy.
func (n *Node) leaderless() string {
	if f, ok := n.finding(diagnosis.NoQuorum, diagnosis.DiskStalled, diagnosis.NoPeers, diagnosis.Bootstrapping); ok {
		return f.Text + "; " + f.Remedy
	}
	return "an election is under way, or this node is cut off; try again in a moment"
}

// leaveRaft asks the leader to remove the server of this node from Raft's configuration. It only logs an
// error, because the node can stop as a member, too.
func (n *Node) leaveRaft(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	leader := n.raft.Leader()
	if leader == "" || leader == string(n.self) {
		return
	}
	if err := n.client.Call(ctx, leader, control.Request{Kind: control.Leave, Server: n.server}, nil); err != nil {
		n.log.Debug().Err(err).Msg("server not removed from Raft configuration")
	}
}
