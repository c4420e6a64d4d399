package adminapi

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/node/control"
	"shardway/proxy"
	"shardway/proxy/loadstats"
	"shardway/shardmap"
)

const (
	// loadReportTimeout bounds the collection of the load reports.
	loadReportTimeout = 2 * time.Second
	// maxHotShards and maxHotKeys are the maximum numbers of shards and keys in a HotList.
	maxHotShards, maxHotKeys = 64, 32
)

// Load collects the load of the shards and keys of all nodes.
type Load struct {
	nodes otherNodes
	proxy *proxy.Server
	state func() *ack.State // the replicated state in force
	cache *control.Cached[api.HotList]
}

// Hot asks all alive nodes for their load, at most once in control.CacheTime, and returns the busiest
// shards and keys. The result lists the nodes that did not respond in time.
func (l *Load) Hot(ctx context.Context) api.HotList {
	return l.cache.Get(ctx, loadReportTimeout, func(ctx context.Context) api.HotList {
		loads, unresponsive := queryNodes(ctx, l.nodes, control.Request{Kind: control.Load}, l.proxy.Load, loadstats.Load{})
		hot := mergeLoads(loads, unresponsive)
		state := l.state()
		setOwners(&hot, state.Committed())
		setServices(&hot, state)
		return hot
	})
}

// mergeLoads merges the load reports of all nodes and returns the busiest shards and keys.
func mergeLoads(loads map[string]loadstats.Load, unresponsive []string) api.HotList {
	hot := api.HotList{Shards: []api.HotShard{}, Keys: []api.HotKey{}, Limited: []api.HotKey{}, Unresponsive: unresponsive}
	type keyID struct {
		shard uint32
		hash  uint64
	}
	keys, limited := map[keyID]*api.HotKey{}, map[keyID]*api.HotKey{}
	add := func(sums map[keyID]*api.HotKey, key *loadstats.KeyLoad) {
		id := keyID{uint32(key.Shard), key.Hash}
		if sums[id] == nil {
			sums[id] = &api.HotKey{Shard: id.shard, Hash: fmt.Sprintf("%016x", key.Hash)}
		}
		sums[id].Requests += key.Requests
		sums[id].Key = cmp.Or(sums[id].Key, key.Key)
	}
	for node, load := range loads {
		// A shard that has moved recently has one entry for each node that served it.
		for _, shard := range load.Shards {
			hot.Shards = append(hot.Shards, api.HotShard{
				Shard: uint32(shard.Shard), Node: node, Requests: shard.Requests, Busy: shard.Busy, Bytes: shard.Bytes, Sockets: shard.Sockets,
			})
		}
		for i := range load.Keys {
			add(keys, &load.Keys[i])
		}
		for i := range load.Limited {
			add(limited, &load.Limited[i])
		}
	}
	for _, key := range keys {
		hot.Keys = append(hot.Keys, *key)
	}
	for _, key := range limited {
		hot.Limited = append(hot.Limited, *key)
	}
	slices.SortFunc(hot.Shards, func(a, b api.HotShard) int {
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Sockets, a.Sockets), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Node, b.Node))
	})
	byRequests := func(a, b api.HotKey) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Hash, b.Hash))
	}
	slices.SortFunc(hot.Keys, byRequests)
	slices.SortFunc(hot.Limited, byRequests)
	hot.Shards, hot.Keys = hot.Shards[:min(len(hot.Shards), maxHotShards)], hot.Keys[:min(len(hot.Keys), maxHotKeys)]
	hot.Limited = hot.Limited[:min(len(hot.Limited), maxHotKeys)]
	return hot
}

// setOwners sets the owners of the keys, and the app instances of the shards and keys.
func setOwners(hot *api.HotList, committed *shardmap.Map) {
	ownerOf := func(id uint32) (node string, instance int) {
		shard := shardmap.Shard(id)
		if int(id) >= committed.Len() || committed.Owner(shard) == "" {
			return "", 0
		}
		if committed.HasInstances() {
			instance = committed.Instance(shard).Number()
		}
		return string(committed.Owner(shard)), instance
	}
	for i := range hot.Shards {
		if node, instance := ownerOf(hot.Shards[i].Shard); node == hot.Shards[i].Node {
			hot.Shards[i].Instance = instance
		}
	}
	for _, keys := range [][]api.HotKey{hot.Keys, hot.Limited} {
		for i := range keys {
			keys[i].Node, keys[i].Instance = ownerOf(keys[i].Shard)
		}
	}
}

// setServices sets the services of the shards and keys.
func setServices(hot *api.HotList, state *ack.State) {
	for i := range hot.Shards {
		shard := &hot.Shards[i]
		shard.Service, shard.ServiceShard = serviceOfShard(state, shardmap.Shard(shard.Shard))
	}
	for _, keys := range [][]api.HotKey{hot.Keys, hot.Limited} {
		for i := range keys {
			keys[i].Service, keys[i].ServiceShard = serviceOfShard(state, shardmap.Shard(keys[i].Shard))
		}
	}
}
