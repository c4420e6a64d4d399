package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"shardway/admin"
	"shardway/node/gossip"
	"shardway/proxy"
)

var _ admin.HotAPI = (*Node)(nil)

const (
	// loadTimeout is how long one node has to tell its load.
	loadTimeout = 2 * time.Second
	// hotShards and hotKeys are how many a HotList names.
	hotShards, hotKeys = 64, 32
	// askedAtOnce bounds how many nodes are asked at once.
	askedAtOnce = 16
)

// Hot asks every node that is there for its load, at most once in censusEvery, and returns
// the busiest shards and keys. A node that does not tell in time is named.
func (n *Node) Hot(ctx context.Context) admin.HotList {
	return n.hot.take(ctx, loadTimeout, func(ctx context.Context) admin.HotList {
		loads, silent := askNodes(ctx, n, request{What: askLoad}, proxy.Load{})
		loads[string(n.self)] = n.proxy.Load()
		return hotOf(loads, silent)
	})
}

// askNodes asks every other node that is there the same. Blank is what an answer begins as.
// Silent are those that did not tell before ctx ended, sorted.
func askNodes[T any](ctx context.Context, n *Node, q request, blank T) (told map[string]T, silent []string) {
	var mu sync.Mutex
	var asking sync.WaitGroup
	told, silent = map[string]T{}, []string{}
	places := make(chan struct{}, askedAtOnce)
	for _, m := range n.gossip.Members() {
		if !m.Node || m.ID == string(n.self) || m.Status != gossip.Alive {
			continue
		}
		asking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			x := blank
			err := n.ask(ctx, m.ID, q, &x)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				n.log.Debug().Err(err).Str("peer", m.ID).Str("what", q.What).Msg("node did not respond to request")
				silent = append(silent, m.ID)
				return
			}
			told[m.ID] = x
		})
	}
	asking.Wait()
	slices.Sort(silent)
	return told, silent
}

// hotOf puts the loads of nodes together.
func hotOf(loads map[string]proxy.Load, silent []string) admin.HotList {
	out := admin.HotList{Shards: []admin.HotShard{}, Keys: []admin.HotKey{}, Silent: silent}
	type mark struct {
		shard uint32
		hash  uint64
	}
	keys := map[mark]*admin.HotKey{}
	for node, l := range loads {
		for _, s := range l.Shards {
			out.Shards = append(out.Shards, admin.HotShard{
				Shard: uint32(s.Shard), Node: node, Requests: s.Requests, Busy: s.Busy, Bytes: s.Bytes, Sockets: s.Sockets,
			})
		}
		for _, k := range l.Keys {
			at := mark{uint32(k.Shard), k.Hash}
			if keys[at] == nil {
				keys[at] = &admin.HotKey{Shard: at.shard, Hash: fmt.Sprintf("%016x", k.Hash)}
			}
			keys[at].Requests += k.Requests
			keys[at].Key = cmp.Or(keys[at].Key, k.Key)
		}
	}
	for _, k := range keys {
		out.Keys = append(out.Keys, *k)
	}
	slices.SortFunc(out.Shards, func(a, b admin.HotShard) int {
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Sockets, a.Sockets), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Node, b.Node))
	})
	slices.SortFunc(out.Keys, func(a, b admin.HotKey) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Hash, b.Hash))
	})
	out.Shards, out.Keys = out.Shards[:min(len(out.Shards), hotShards)], out.Keys[:min(len(out.Keys), hotKeys)]
	return out
}
