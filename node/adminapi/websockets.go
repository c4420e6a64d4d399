package adminapi

import (
	"cmp"
	"context"
	"slices"

	"shardway/admin/api"
	"shardway/node/control"
	"shardway/node/logs"
	"shardway/proxy"
	"shardway/shardmap"
)

// WebSocketReport is the response of a node to a control.Sockets request, with one entry per shard that has
// long-lived connections: the number of the shard, then the counts of proxy.ShardSockets in the order
// Attached, Detached, Resumable, Plain. The entries are arrays, so that a response for all shards does not
// exceed the size limit of a reply.
type WebSocketReport [][5]int

// LocalWebSockets returns the report of this node.
func (a *API) LocalWebSockets() WebSocketReport {
	out := WebSocketReport{}
	for _, x := range a.o.Proxy.WebSocketCounts() {
		out = append(out, [5]int{int(x.Shard), x.Attached, x.Detached, x.Resumable, x.Plain})
	}
	return out
}

// countWebSockets counts the long-lived connections of this node.
func (a *API) countWebSockets() api.SocketCounts {
	c := api.SocketCounts{App: a.o.Proxy.CountUpgraded(), Streams: a.o.Proxy.ResumableStreams()}
	for _, x := range a.o.Proxy.WebSocketCounts() {
		c.Attached += x.Attached
		c.Detached += x.Detached
	}
	return c
}

// Sockets asks all alive nodes for their WebSockets, at most once in control.CacheTime. The result lists the
// nodes that did not respond in time.
func (a *API) Sockets(ctx context.Context) api.SocketList {
	return a.webSocketCache.Get(ctx, loadReportTimeout, func(ctx context.Context) api.SocketList {
		told, silent := control.Broadcast(ctx, a.o.Client, a.o.View.OtherAliveNodes(), control.Request{Kind: control.Sockets}, WebSocketReport{})
		told[string(a.o.Self)] = a.LocalWebSockets()
		return mergeWebSockets(told, silent)
	})
}

// mergeWebSockets merges the reports of all nodes.
func mergeWebSockets(reports map[string]WebSocketReport, unresponsive []string) api.SocketList {
	list := api.SocketList{Unresponsive: unresponsive}
	byShard := map[int]*api.ShardSockets{}
	for node, all := range reports {
		counts := api.NodeSockets{Node: node}
		for _, x := range all {
			s := byShard[x[0]]
			if s == nil {
				s = &api.ShardSockets{Shard: uint32(x[0])}
				byShard[x[0]] = s
			}
			s.Attached, s.Detached, s.Plain = s.Attached+x[1], s.Detached+x[2], s.Plain+x[4]
			counts.Attached, counts.Detached, counts.App = counts.Attached+x[1], counts.Detached+x[2], counts.App+x[3]+x[4]
		}
		list.Nodes = append(list.Nodes, counts)
	}
	for _, s := range byShard {
		if s.Attached+s.Detached+s.Plain > 0 { // for an upstream connection alone, another node has the client
			list.Shards = append(list.Shards, *s)
		}
	}
	slices.SortFunc(list.Shards, func(a, b api.ShardSockets) int { return cmp.Compare(a.Shard, b.Shard) })
	slices.SortFunc(list.Nodes, func(a, b api.NodeSockets) int { return cmp.Compare(a.Node, b.Node) })
	return list
}

// BreakSockets makes all alive nodes close the upstream connections of the WebSockets that match b and
// whose clients are connected to them. by is the requester, for the log.
func (a *API) BreakSockets(ctx context.Context, b api.SocketBreak, by string) api.BrokenSockets {
	ctx, cancel := context.WithTimeout(ctx, loadReportTimeout)
	defer cancel()
	told, silent := control.Broadcast(ctx, a.o.Client, a.o.View.OtherAliveNodes(), control.Request{Kind: control.Break, Break: b, By: by}, 0)
	told[string(a.o.Self)] = a.BreakLocal(b, by)
	out := api.BrokenSockets{Nodes: map[string]int{}, Unresponsive: silent}
	for node, many := range told {
		if many > 0 {
			out.Nodes[node] = many
			out.Sockets += many
		}
	}
	return out
}

// BreakLocal closes the upstream connections of the WebSockets that match b and whose clients are
// connected to this node, and returns their number.
func (a *API) BreakLocal(b api.SocketBreak, by string) int {
	match := func(shardmap.Shard, uint64) bool { return true }
	switch {
	case b.Key != nil:
		mark := proxy.WebSocketKeyHash(*b.Key)
		match = func(_ shardmap.Shard, is uint64) bool { return is == mark }
	case b.Shard != nil:
		match = func(s shardmap.Shard, _ uint64) bool { return uint32(s) == *b.Shard }
	}
	many := a.o.Proxy.MoveWebSockets(match, b.Gap)
	if many > 0 {
		a.o.Log.Info().Int("websockets", many).Bool("gap", b.Gap).Str("by", logs.Cut(by)).Msg("WebSocket move test started")
	}
	return many
}
