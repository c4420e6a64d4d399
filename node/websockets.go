package node

import (
	"cmp"
	"context"
	"slices"

	"shardway/admin"
	"shardway/node/logs"
	"shardway/proxy"
	"shardway/shardmap"
)

var _ admin.SocketAPI = (*Node)(nil)

// socketsThere is what a node tells of its sockets, one entry for each shard that has some:
// its number, then what proxy.ShardSockets counts. A reply has room for all shards.
type webSocketReport [][5]int

func (n *Node) localWebSockets() webSocketReport {
	out := webSocketReport{}
	for _, x := range n.proxy.KeptSockets() {
		out = append(out, [5]int{int(x.Shard), x.Attached, x.Detached, x.Legs, x.Plain})
	}
	return out
}

// socketCounts counts the long-lived connections here.
func (n *Node) countWebSockets() admin.SocketCounts {
	c := admin.SocketCounts{App: n.proxy.Sockets(), Streams: n.proxy.ResumableStreams()}
	for _, x := range n.proxy.KeptSockets() {
		c.Attached += x.Attached
		c.Detached += x.Detached
	}
	return c
}

// Sockets asks every node that is there for its sockets, at most once in censusEvery.
func (n *Node) Sockets(ctx context.Context) admin.SocketList {
	return n.kept.take(ctx, loadReportTimeout, func(ctx context.Context) admin.SocketList {
		told, silent := queryNodes(ctx, n, request{What: askSockets}, webSocketReport{})
		told[string(n.self)] = n.localWebSockets()
		return mergeWebSockets(told, silent)
	})
}

// socketsOf puts together what nodes have told.
func mergeWebSockets(reports map[string]webSocketReport, unresponsive []string) admin.SocketList {
	list := admin.SocketList{Unresponsive: unresponsive}
	byShard := map[int]*admin.ShardSockets{}
	for node, all := range reports {
		counts := admin.NodeSockets{Node: node}
		for _, x := range all {
			s := byShard[x[0]]
			if s == nil {
				s = &admin.ShardSockets{Shard: uint32(x[0])}
				byShard[x[0]] = s
			}
			s.Attached, s.Detached, s.Plain = s.Attached+x[1], s.Detached+x[2], s.Plain+x[4]
			counts.Attached, counts.Detached, counts.App = counts.Attached+x[1], counts.Detached+x[2], counts.App+x[3]+x[4]
		}
		list.Nodes = append(list.Nodes, counts)
	}
	for _, s := range byShard {
		if s.Attached+s.Detached+s.Plain > 0 { // a leg alone has its client elsewhere
			list.Shards = append(list.Shards, *s)
		}
	}
	slices.SortFunc(list.Shards, func(a, b admin.ShardSockets) int { return cmp.Compare(a.Shard, b.Shard) })
	slices.SortFunc(list.Nodes, func(a, b admin.NodeSockets) int { return cmp.Compare(a.Node, b.Node) })
	return list
}

// BreakSockets has every node break the legs of those sockets whose clients it has.
func (n *Node) BreakSockets(ctx context.Context, b admin.SocketBreak, by string) admin.BrokenSockets {
	ctx, cancel := context.WithTimeout(ctx, loadReportTimeout)
	defer cancel()
	told, silent := queryNodes(ctx, n, request{What: askBreak, Break: b, By: by}, 0)
	told[string(n.self)] = n.breakLocal(b, by)
	out := admin.BrokenSockets{Nodes: map[string]int{}, Unresponsive: silent}
	for node, many := range told {
		if many > 0 {
			out.Nodes[node] = many
			out.Sockets += many
		}
	}
	return out
}

// breakHere breaks the legs of sockets whose clients are connected here.
func (n *Node) breakLocal(b admin.SocketBreak, by string) int {
	match := func(shardmap.Shard, uint64) bool { return true }
	switch {
	case b.Key != nil:
		mark := proxy.SocketMark(*b.Key)
		match = func(_ shardmap.Shard, is uint64) bool { return is == mark }
	case b.Shard != nil:
		match = func(s shardmap.Shard, _ uint64) bool { return uint32(s) == *b.Shard }
	}
	many := n.proxy.BreakSockets(match, b.Gap)
	if many > 0 {
		n.log.Info().Int("sockets", many).Bool("gap", b.Gap).Str("by", logs.Cut(by)).Msg("sockets broken on request")
	}
	return many
}
