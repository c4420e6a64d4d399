package node

import (
	"context"
	"fmt"
	"time"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/admin/api"
	"shardway/shardmap"
)

// Held returns the shards that the app of this node holds, and how long the app may write. For an app with
// hooks, the shards are those that the app has acquired; for other apps, they follow from the map and the
// lease.
func (n *Node) Held(ctx context.Context) (api.OwnedList, error) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	list := make(chan api.OwnedList, 1)
	select {
	case n.agent.calls <- func() { list <- n.agent.owned() }:
		held := <-list
		held.MayWriteMS = n.mayWriteOwned(ctx).Milliseconds()
		return held, nil
	case <-n.agent.ended:
		return api.OwnedList{}, fmt.Errorf("node %s has stopped", n.self)
	case <-ctx.Done():
		return api.OwnedList{}, ctx.Err()
	}
}

// owned returns the result of Held without MayWriteMS. Only the goroutine of agent.run may call it.
func (a *agent) owned() api.OwnedList {
	now, wall := a.clock.Precise(), time.Now().UTC()
	s := a.machine.State()
	list := api.OwnedList{
		Node: string(a.self), Epoch: uint64(s.Committed().Epoch()), LeaseMS: max(a.machine.LeaseRemaining(now), 0).Milliseconds(), Shards: []api.OwnedShard{},
	}
	held := a.machine.HeldShards()
	if a.hooking == nil {
		held = a.unhooked(s, a.machine.LeaseRemaining(now) > 0)
	}
	for _, h := range held {
		list.Shards = append(list.Shards, api.OwnedShard{
			Shard: uint32(h.Shard), Epoch: uint64(h.Epoch), State: h.Phase.String(), Since: wall.Add(h.Since - now).Round(time.Millisecond), Error: h.Err,
		})
	}
	return list
}

// unhooked returns the shards of an app without hooks, which is not informed of its shards: all shards that
// this node owns in the map. leased reports whether the node has a lease.
func (a *agent) unhooked(s *ack.State, leased bool) (held []ackagent.HeldShardView) {
	c := s.Committed()
	for sh := range shardmap.Shard(c.Len()) {
		if c.Owner(sh) != a.self {
			continue
		}
		h := ackagent.HeldShardView{Shard: sh, Epoch: c.OwnedSince(sh), Phase: ackagent.HookServing, Since: a.receivedAt[sh]}
		switch {
		case s.Last().Owner(sh) != a.self:
			h.Phase = ackagent.HookReleasing
		case !leased:
			h.Phase = ackagent.HookAcquiring
		}
		held = append(held, h)
	}
	return held
}
