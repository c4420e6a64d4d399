package node

import (
	"maps"
	"slices"
	"sync/atomic"

	ackagent "shardway/ack/agent"
	"shardway/internal/logsafe"
	"shardway/shardmap"
)

// acquireFailures contains the shards that the app has failed to acquire. Only the goroutine of
// agent.run writes it. Any goroutine may read it.
type acquireFailures struct {
	current atomic.Pointer[map[shardmap.Shard]acquireFailure] // nil means none
	// stale means that the failures may have changed since the last update. Only agent.run uses it.
	stale bool
}

// acquireFailure is the last failed attempt to acquire a shard.
type acquireFailure struct {
	epoch  shardmap.Epoch
	reason string
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

// update replaces the failures by those in held, if stale is set. It returns the shards whose failure
// is new in this epoch.
func (f *acquireFailures) update(held func() []ackagent.HeldShardView) (newFailures []shardmap.Shard) {
	if !f.stale {
		return nil
	}
	f.stale = false
	was, now := f.all(), map[shardmap.Shard]acquireFailure{}
	for _, h := range held() {
		if h.Phase != ackagent.HookAcquiring || h.Err == "" {
			continue
		}
		now[h.Shard] = acquireFailure{h.Epoch, logsafe.OneLine(h.Err)}
		if was[h.Shard].epoch != h.Epoch {
			newFailures = append(newFailures, h.Shard)
		}
	}
	if len(now) > 0 {
		f.current.Store(&now)
	} else if len(was) > 0 {
		f.current.Store(nil)
	}
	return newFailures
}

// describe lists the shards that the app has failed to acquire, and the error of the first one. Both are
// empty if there are none.
func (f *acquireFailures) describe() (what, why string) {
	all := f.all()
	if len(all) == 0 {
		return "", ""
	}
	shards := slices.Sorted(maps.Keys(all))
	return shardmap.FormatShards(shards), all[shards[0]].reason
}
