package node

import (
	"maps"
	"slices"
	"sync/atomic"

	ackagent "shardway/ack/agent"
	"shardway/internal/logsafe"
	"shardway/shardmap"
)

// acquireFailures contains the shards that the app has failed to acquire. Only agent.run writes it; any goroutine
// may read it.
type acquireFailures struct {
	current atomic.Pointer[map[shardmap.Shard]acquireFailure] // nil means none
	// stale is set if the failures may have changed since the last update. Only agent.run uses it.
	stale bool
}

// acquireFailure is the last failed attempt to acquire a shard.
type acquireFailure struct {
	epoch  shardmap.Epoch // ownership epoch of the shard
	reason string         // error of the app
}

// all returns the current failures. The caller must not modify the map, which may be nil.
func (f *acquireFailures) all() map[shardmap.Shard]acquireFailure {
	if m := f.current.Load(); m != nil {
		return *m
	}
	return nil
}

// reasonOf returns the error of the last attempt to acquire a shard. It is empty if there was no failure.
func (f *acquireFailures) reasonOf(s shardmap.Shard) string { return f.all()[s].reason }

// If stale is set, update replaces the failures with those among the shards that heldShards returns. It returns the
// shards that failed for the first time in their ownership epoch.
func (f *acquireFailures) update(heldShards func() []ackagent.HeldShardView) (newlyFailed []shardmap.Shard) {
	if !f.stale {
		return nil
	}
	f.stale = false
	previous, current := f.all(), map[shardmap.Shard]acquireFailure{}
	for _, held := range heldShards() {
		hasFailed := held.Phase == ackagent.HookAcquiring && held.Err != ""
		if !hasFailed {
			continue
		}
		current[held.Shard] = acquireFailure{held.Epoch, logsafe.OneLine(held.Err)}
		if previous[held.Shard].epoch != held.Epoch {
			newlyFailed = append(newlyFailed, held.Shard)
		}
	}
	if len(current) > 0 {
		f.current.Store(&current)
	} else if len(previous) > 0 {
		f.current.Store(nil)
	}
	return newlyFailed
}

// describe lists the shards that the app has failed to acquire with format, and returns the error of the first one. Both
// results are empty if there are none.
func (f *acquireFailures) describe(format func([]shardmap.Shard) string) (list, firstError string) {
	all := f.all()
	if len(all) == 0 {
		return "", ""
	}
	shards := slices.Sorted(maps.Keys(all))
	return format(shards), all[shards[0]].reason
}
