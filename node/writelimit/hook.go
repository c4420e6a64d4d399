package writelimit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"time"

	ackagent "shardway/ack/agent"
	"shardway/node/disk"
	"shardway/shardmap"
)

const (
	// callsPerLimit is the number of calls within the time for which the app may write. With several
	// calls, a single late call does not make the app stop writing.
	callsPerLimit = 5
	// minCallPause is the shortest pause between two calls.
	minCallPause = 10 * time.Millisecond
	// noHookPause is the pause after the app has responded that it has no such hook.
	noHookPause = time.Minute
	// idlePause is the pause between two calls while the app must not write. It is also the maximum pause between
	// two calls of an app that has the hook.
	idlePause = time.Second
	// stopRetryPause is the pause between two attempts to stop an app at the start of the node.
	stopRetryPause = 100 * time.Millisecond
)

// Hook calls the hook alive of an app in another process, which informs the app for how long it may still
// write.
type Hook interface {
	// Alive makes one call. follows is false if the app has no such hook. refused is true if no process
	// listens at the address of the app.
	Alive(ctx context.Context, call ackagent.AliveCall) (follows, refused bool, err error)
	// CloseAlive closes the connection for the calls.
	CloseAlive()
}

// HasHook reports whether the app has the hook alive, so that the caller must call RunHook.
func (l *Limit) HasHook() bool { return len(l.options.Hooks) > 0 }

// RunHook calls the hook alive of each app instance repeatedly, until ctx ends. A hanging instance does not delay
// the calls of the other instances.
func (l *Limit) RunHook(ctx context.Context) {
	var running sync.WaitGroup
	for instance := range l.options.Hooks {
		running.Go(func() { l.runHook(ctx, shardmap.Instance(instance)) })
	}
	running.Wait()
}

// runHook calls the hook alive of one app instance repeatedly, until ctx ends.
func (l *Limit) runHook(ctx context.Context, instance shardmap.Instance) {
	defer l.options.Hooks[instance].CloseAlive()
	previousID := ""
	for {
		remaining, afterGrant := l.timeForHook()
		result := l.callHook(ctx, instance, &previousID, remaining, max(afterGrant, idlePause))
		pause := idlePause
		switch {
		case result == callNoHook:
			pause = noHookPause
		case afterGrant > 0:
			pause = min(max(afterGrant/callsPerLimit, minCallPause), idlePause)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// callResult is the result of one call of the hook alive.
type callResult uint8

const (
	callFailed   callResult = iota // the app has not responded
	callAccepted                   // the app has accepted the call
	callNoHook                     // the app has responded that it has no such hook
	callRefused                    // no process listens at the address of the app
)

// callHook makes one call of the hook alive of an app instance. remaining is how long the instance may still
// write. previousID contains the ID of the previous call if the instance has accepted that one; callHook
// updates it.
func (l *Limit) callHook(ctx context.Context, instance shardmap.Instance, previousID *string, remaining, timeout time.Duration) callResult {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	committed := l.options.Router.State().Committed()
	call := ackagent.AliveCall{ID: newCallID(), PreviousID: *previousID, MapEpoch: committed.Epoch(), ShardCount: l.countShards(committed, instance), WriteFor: remaining}
	follows, refused, err := l.options.Hooks[instance].Alive(ctx, call)
	if *previousID = ""; err == nil && follows {
		*previousID = call.ID
	}
	if err != nil {
		l.options.Log.Debug().Err(err).Int("instance", instance.Number()).Msg("app not informed of write permission")
	}
	switch {
	case refused:
		return callRefused
	case err != nil:
		return callFailed
	case !follows:
		return callNoHook
	}
	return callAccepted
}

// countShards returns the number of shards that an app instance owns in a map.
func (l *Limit) countShards(m *shardmap.Map, instance shardmap.Instance) int {
	if len(l.options.Hooks) == 1 {
		return m.ShardCount(l.options.Self)
	}
	return m.InstanceCount(l.options.Self, instance)
}

// stopApp revokes the permission to write that an earlier process of this node gave each app instance with
// the hook alive. It returns when stopInstance has returned for all of them.
func (l *Limit) stopApp(ctx context.Context, earlier disk.AppAllowance) {
	var running sync.WaitGroup
	for instance := range l.options.Hooks {
		running.Go(func() { l.stopInstance(ctx, shardmap.Instance(instance), earlier) })
	}
	running.Wait()
}

// stopInstance returns when the instance has responded that it must not write, or when the time in earlier
// has passed. If no earlier process has stored a time, stopInstance waits up to dead-after; then it also
// returns when no process listens at the address of the instance.
func (l *Limit) stopInstance(ctx context.Context, instance shardmap.Instance, earlier disk.AppAllowance) {
	nothingStored := earlier.Boot == 0
	timeout := earlier.Alive
	if nothingStored {
		timeout = l.options.InitialTiming.DeadAfter
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for previousID := ""; ctx.Err() == nil; {
		switch l.callHook(ctx, instance, &previousID, 0, time.Second) {
		case callAccepted, callNoHook:
			return
		case callRefused:
			// An app that has closed its port may still run and write.
			if nothingStored {
				return
			}
		case callFailed:
		}
		select {
		case <-ctx.Done():
		case <-time.After(stopRetryPause):
		}
	}
}

// newCallID returns a random ID for a call.
func newCallID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
