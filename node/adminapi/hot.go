package adminapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"shardway/admin/api"
	"shardway/node/control"
	"shardway/proxy/loadstats"
)

const (
	// loadReportTimeout bounds the collection of the load reports.
	loadReportTimeout = 2 * time.Second
	// maxHotShards and maxHotKeys are the largest number of shards and keys in a HotList.
	maxHotShards, maxHotKeys = 64, 32
)

// Hot asks all alive nodes for their load, at most once in control.CacheTime, and returns the busiest
// shards and keys. The result lists the nodes that did not respond in time.
func (a *API) Hot(ctx context.Context) api.HotList {
	return a.hotCache.Get(ctx, loadReportTimeout, func(ctx context.Context) api.HotList {
		loads, silent := control.Broadcast(ctx, a.o.Client, a.o.View.OtherAliveNodes(), control.Request{Kind: control.Load}, loadstats.Load{})
		loads[string(a.o.Self)] = a.o.Proxy.Load()
		return mergeLoads(loads, silent)
	})
}

// mergeLoads merges the load reports of all nodes and returns the busiest shards and keys.
func mergeLoads(loads map[string]loadstats.Load, unresponsive []string) api.HotList {
	out := api.HotList{Shards: []api.HotShard{}, Keys: []api.HotKey{}, Unresponsive: unresponsive}
	type keyID struct {
		shard uint32
		hash  uint64
	}
	keys := map[keyID]*api.HotKey{}
	for node, l := range loads {
		// A shard that has moved recently has one entry for each node that has served it.
		for _, s := range l.Shards {
			out.Shards = append(out.Shards, api.HotShard{
				Shard: uint32(s.Shard), Node: node, Requests: s.Requests, Busy: s.Busy, Bytes: s.Bytes, Sockets: s.Sockets,
			})
		}
		for _, k := range l.Keys {
			id := keyID{uint32(k.Shard), k.Hash}
			if keys[id] == nil {
				keys[id] = &api.HotKey{Shard: id.shard, Hash: fmt.Sprintf("%016x", k.Hash)}
			}
			keys[id].Requests += k.Requests
			keys[id].Key = cmp.Or(keys[id].Key, k.Key)
		}
	}
	for _, k := range keys {
		out.Keys = append(out.Keys, *k)
	}
	slices.SortFunc(out.Shards, func(a, b api.HotShard) int {
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Sockets, a.Sockets), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Node, b.Node))
	})
	slices.SortFunc(out.Keys, func(a, b api.HotKey) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Hash, b.Hash))
	})
	out.Shards, out.Keys = out.Shards[:min(len(out.Shards), maxHotShards)], out.Keys[:min(len(out.Keys), maxHotKeys)]
	return out
}
