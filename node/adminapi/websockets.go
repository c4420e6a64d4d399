package adminapi

import (
	"cmp"
	"context"
	"slices"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/node/control"
	"shardway/node/logs"
	"shardway/proxy"
	"shardway/shardmap"
)

// WebSocketReport is the response of a node to a control.WebSocketCounts request, with one entry per shard that has
// long-lived connections: the number of the shard, then the counts of proxy.ShardWebSockets in the order Attached,
// Detached, Resumable, Plain. The entries are arrays, so that a response for all shards does not exceed the size
// limit.
type WebSocketReport [][5]int

// WebSockets counts the WebSockets of all nodes, and tests their moves.
type WebSockets struct {
	nodes otherNodes
	proxy *proxy.Server
	log   zerolog.Logger
	state func() *ack.State // the replicated state in force
	cache *control.Cached[api.SocketList]
}

// LocalReport returns the report of this node.
func (w *WebSockets) LocalReport() WebSocketReport {
	report := WebSocketReport{}
	for _, counts := range w.proxy.WebSocketCounts() {
		report = append(report, [5]int{int(counts.Shard), counts.Attached, counts.Detached, counts.Resumable, counts.Plain})
	}
	return report
}

// decodeEntry returns the counts in an entry of a WebSocketReport.
func decodeEntry(entry [5]int) proxy.ShardWebSockets {
	return proxy.ShardWebSockets{Shard: shardmap.Shard(entry[0]), Attached: entry[1], Detached: entry[2], Resumable: entry[3], Plain: entry[4]}
}

// localCounts counts the long-lived connections of this node.
func (w *WebSockets) localCounts() api.SocketCounts {
	total := api.SocketCounts{App: w.proxy.CountUpgraded(), Streams: w.proxy.ResumableStreams()}
	for _, counts := range w.proxy.WebSocketCounts() {
		total.Attached += counts.Attached
		total.Detached += counts.Detached
	}
	return total
}

// Sockets asks all alive nodes for their WebSockets, at most once per control.CacheTime, because each call costs a
// request to every node. The result lists the nodes that did not respond in time.
func (w *WebSockets) Sockets(ctx context.Context) api.SocketList {
	return w.cache.Get(ctx, loadReportTimeout, func(ctx context.Context) api.SocketList {
		list := mergeWebSockets(queryNodes(ctx, w.nodes, control.Request{Kind: control.WebSocketCounts}, w.LocalReport, WebSocketReport{}))
		setServicesOfSockets(&list, w.state())
		return list
	})
}

// mergeWebSockets merges the reports of all nodes into counts per node and per shard. A resumable WebSocket can be in
// two reports: that of the node with the client connection, and that of the owner with the upstream connection. The
// counts of a shard therefore contain only client connections and plain upgraded connections.
func mergeWebSockets(reports map[string]WebSocketReport, unresponsive []string) api.SocketList {
	list := api.SocketList{Unresponsive: unresponsive}
	byShard := map[shardmap.Shard]*api.ShardSockets{}
	for node, report := range reports {
		nodeCounts := api.NodeSockets{Node: node}
		for _, entry := range report {
			counts := decodeEntry(entry)
			shard := byShard[counts.Shard]
			if shard == nil {
				shard = &api.ShardSockets{Shard: uint32(counts.Shard)}
				byShard[counts.Shard] = shard
			}
			shard.Attached += counts.Attached
			shard.Detached += counts.Detached
			shard.Plain += counts.Plain
			nodeCounts.Attached += counts.Attached
			nodeCounts.Detached += counts.Detached
			nodeCounts.App += counts.Resumable + counts.Plain
		}
		list.Nodes = append(list.Nodes, nodeCounts)
	}
	for _, shard := range byShard {
		// Without these counts, only upstream connections are known, because the report of the clients' node is missing.
		if shard.Attached+shard.Detached+shard.Plain > 0 {
			list.Shards = append(list.Shards, *shard)
		}
	}
	slices.SortFunc(list.Shards, func(a, b api.ShardSockets) int { return cmp.Compare(a.Shard, b.Shard) })
	slices.SortFunc(list.Nodes, func(a, b api.NodeSockets) int { return cmp.Compare(a.Node, b.Node) })
	return list
}

// setServicesOfSockets sets the services of the shards, and their numbers there.
func setServicesOfSockets(list *api.SocketList, state *ack.State) {
	for i := range list.Shards {
		shard := &list.Shards[i]
		shard.Service, shard.ServiceShard = serviceOfShard(state, shardmap.Shard(shard.Shard))
	}
}

// BreakSockets makes all alive nodes close the upstream connections of the WebSockets that match
// filter and whose clients are connected to them. requester is written to the log.
func (w *WebSockets) BreakSockets(ctx context.Context, filter api.SocketBreak, requester string) api.BrokenSockets {
	ctx, cancel := context.WithTimeout(ctx, loadReportTimeout)
	defer cancel()
	request := control.Request{Kind: control.CloseWebSockets, WebSockets: filter, By: requester}
	counts, unresponsive := queryNodes(ctx, w.nodes, request, func() int { return w.BreakLocal(filter, requester) }, 0)
	result := api.BrokenSockets{Nodes: map[string]int{}, Unresponsive: unresponsive}
	for node, count := range counts {
		if count > 0 {
			result.Nodes[node] = count
			result.Sockets += count
		}
	}
	return result
}

// BreakLocal closes the upstream connections of the WebSockets that match filter and whose clients
// are connected to this node, and returns their number.
func (w *WebSockets) BreakLocal(filter api.SocketBreak, requester string) int {
	count := w.proxy.MoveWebSockets(matchOf(filter), filter.Gap)
	if count > 0 {
		w.log.Info().Int("websockets", count).Bool("gap", filter.Gap).Str("by", logs.Cut(requester)).Msg("WebSocket move test started")
	}
	return count
}

// matchOf returns whether a WebSocket with this shard and key hash matches the filter.
func matchOf(filter api.SocketBreak) func(shard shardmap.Shard, keyHash uint64) bool {
	var wantHash uint64
	if filter.Key != nil {
		wantHash = proxy.WebSocketKeyHash(*filter.Key)
	}
	return func(shard shardmap.Shard, keyHash uint64) bool {
		isOtherKey := filter.Key != nil && keyHash != wantHash
		isOtherShard := filter.Shard != nil && uint32(shard) != *filter.Shard
		return !isOtherKey && !isOtherShard
	}
}
