package writelimit

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/internal/timingrules"
	"shardway/node/disk"
	"shardway/node/persist"
	"shardway/node/router"
	"shardway/shardmap"
)

// storeTimeout is how long GET /v1/owned waits until the granted time is stored on the disk.
const storeTimeout = time.Second

// Options contains what a Limit needs of its node.
type Options struct {
	Self shardmap.NodeID
	// Hooks call the hook alive of each app instance, by instance. It is empty if the app has no such hook.
	Hooks []Hook
	// Dir is the data directory, which stores the granted times. It is nil if there is no app in another process,
	// so no time is stored.
	Dir    *disk.Dir
	Router *router.Router
	// Timing returns the timing of the cluster. InitialTiming is the timing in the flags of this node,
	// which applies to an earlier process whose granted times are unknown.
	Timing        func() ack.Timing
	InitialTiming ack.Timing
	Clock         clock.Clock
	Log           zerolog.Logger
}

// Limit determines how long the app may still write, and grants only times that are stored in the data
// directory.
type Limit struct {
	options Options
	boot    uint64                            // number of this process, see disk.Dir.Boot
	earlier disk.AppAllowance                 // times that an earlier process has granted
	granted *persist.Value[disk.AppAllowance] // times that this process may grant; nil means that times are not stored
}

// New returns the Limit of this process. It reads the times that an earlier process has granted.
func New(options Options) *Limit {
	l := &Limit{options: options}
	if options.Dir == nil {
		return l
	}
	l.boot = options.Dir.Boot()
	var err error
	if l.earlier, err = options.Dir.AppAllowance(); err != nil {
		options.Log.Warn().Err(err).Msg("app allowance not read")
		l.earlier = disk.AppAllowance{Boot: l.boot - 1, Alive: options.InitialTiming.DeadAfter, Owned: options.InitialTiming.DeadAfter}
	}
	l.granted = persist.New("app allowance", l.earlier, options.Dir.StoreAppAllowance, options.Log)
	return l
}

// Run stores the granted times until ctx ends.
func (l *Limit) Run(ctx context.Context) {
	if l.granted != nil {
		l.granted.Run(ctx)
	}
}

// raiseStored schedules higher times to be stored: hook is the time of the hook alive, and owned the time of GET
// /v1/owned. The times of this process never decrease.
func (l *Limit) raiseStored(hook, owned time.Duration) {
	l.granted.Update(func(v disk.AppAllowance) disk.AppAllowance {
		if v.Boot != l.boot {
			v = disk.AppAllowance{Boot: l.boot}
		}
		v.Alive, v.Owned = max(v.Alive, ceilMillis(hook)), max(v.Owned, ceilMillis(owned))
		return v
	})
}

// stored returns the times that this process may grant because they are on the disk, and a channel that is
// closed when they change.
func (l *Limit) stored() (v disk.AppAllowance, changed <-chan struct{}) {
	v, changed = l.granted.Get()
	if v.Boot != l.boot {
		v = disk.AppAllowance{}
	}
	return v, changed
}

// ceilMillis rounds d up to whole milliseconds, the unit of the data directory.
func ceilMillis(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// timeUntilTakeover returns how long the app may still write if this process is killed now (remaining), and how
// long it may write directly after the grant of a lease (afterGrant), which is the maximum. The limit is the
// earliest time at which another node may own the shards (docs/internals/protocol-takeovers.md, "When a shard may
// be taken"):
//
//   - takeover timeout: dead-after after the last grant. Running requests have the same limit.
//   - takeover lease: the end of the lease. Evidence of a crash does not shorten it.
//   - takeover immediate: evidence of a crash allows a takeover at any time, so both results are zero.
func (l *Limit) timeUntilTakeover() (remaining, afterGrant time.Duration) {
	timing := l.options.Timing()
	var writeEnd time.Duration // time of the clock
	switch timing.Takeover {
	case ack.TakeoverTimeout:
		writeEnd, afterGrant = l.options.Router.AbortTime(), timing.Lease+timingrules.AbortDelay(timing.Lease, timing.DeadAfter)
	case ack.TakeoverLease:
		writeEnd, afterGrant = l.options.Router.LeaseEnd(), timing.Lease
	case ack.TakeoverImmediate:
		return 0, 0
	}
	remaining = max(writeEnd-l.options.Clock.Precise(), 0)
	return min(remaining, afterGrant), afterGrant
}

// timeForHook returns the results of timeUntilTakeover for the hook alive. remaining is at most the time that is
// stored on the disk: if this process is killed, the next one reads there how long the app may still write (see
// AwaitEarlier). timeForHook schedules the maximum to be stored, so that a renewed lease needs no further write.
func (l *Limit) timeForHook() (remaining, afterGrant time.Duration) {
	remaining, afterGrant = l.timeUntilTakeover()
	if l.granted == nil {
		return remaining, afterGrant
	}
	l.raiseStored(afterGrant, 0)
	stored, _ := l.stored()
	return min(remaining, stored.Alive), afterGrant
}

// ForOwned returns how long an app that sends GET /v1/owned may still write. For the same reason as timeForHook, it
// returns no more than the time that is stored on the disk. It waits up to storeTimeout until the maximum is stored.
// Without this wait, the first response of each process would permit no writes.
func (l *Limit) ForOwned(ctx context.Context) time.Duration {
	remaining, afterGrant := l.timeUntilTakeover()
	if l.granted == nil || remaining == 0 {
		return remaining
	}
	l.raiseStored(0, afterGrant)
	l.awaitStored(ctx, afterGrant)
	remaining, _ = l.timeUntilTakeover()
	stored, _ := l.stored()
	return min(remaining, stored.Owned)
}

// awaitStored waits until the stored time of GET /v1/owned is at least owned, up to storeTimeout or until ctx ends.
func (l *Limit) awaitStored(ctx context.Context, owned time.Duration) {
	timeout := time.NewTimer(storeTimeout)
	defer timeout.Stop()
	for {
		stored, changed := l.stored()
		if stored.Owned >= owned {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-timeout.C:
			return
		}
	}
}

// AwaitEarlier returns when the permissions to write that earlier processes of this node have granted to
// the app are revoked or have expired. Until then, this process must not send a heartbeat: after the first
// one, the leader may immediately give the previous process's shards to other nodes.
func (l *Limit) AwaitEarlier(ctx context.Context) {
	startedAt := time.Now()
	l.stopApp(ctx, l.earlier)
	// The node cannot call an app that uses GET /v1/owned, so it waits for the granted time.
	select {
	case <-ctx.Done():
	case <-time.After(l.earlier.Owned - time.Since(startedAt)):
	}
	if l.earlier.Alive > 0 || l.earlier.Owned > 0 {
		l.raiseStored(0, 0) // replaces the earlier times, so that the next process does not wait again
	}
}
