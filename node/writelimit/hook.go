package writelimit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	ackagent "shardway/ack/agent"
	"shardway/node/disk"
)

const (
	// callsPerLimit is the number of calls within the time for which the app may write. With several
	// calls, a single late call does not make the app stop writing.
	callsPerLimit = 5
	// minCallPause is the shortest pause between two calls.
	minCallPause = 10 * time.Millisecond
	// noHookPause is the pause after the app has responded that it has no such hook.
	noHookPause = time.Minute
	// idlePause is the pause between two calls while the app must not write. It is also the longest pause
	// between two calls of an app that has the hook.
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
func (l *Limit) HasHook() bool { return l.o.Hook != nil }

// RunHook calls the hook alive repeatedly, until ctx ends.
func (l *Limit) RunHook(ctx context.Context) {
	defer l.o.Hook.CloseAlive()
	previousID := ""
	for {
		remaining, whole := l.forHook()
		result := l.callHook(ctx, &previousID, remaining, max(whole, idlePause))
		pause := idlePause
		switch {
		case result == callNoHook:
			pause = noHookPause
		case whole > 0:
			pause = min(max(whole/callsPerLimit, minCallPause), idlePause)
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

// callHook makes one call of the hook alive. remaining is how long the app may still write. previousID
// contains the ID of the previous call if the app has accepted that one; callHook updates it.
func (l *Limit) callHook(ctx context.Context, previousID *string, remaining, timeout time.Duration) callResult {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	committed := l.o.Router.State().Committed()
	call := ackagent.AliveCall{ID: newCallID(), PreviousID: *previousID, MapEpoch: committed.Epoch(), ShardCount: committed.ShardCount(l.o.Self), WriteFor: remaining}
	follows, refused, err := l.o.Hook.Alive(ctx, call)
	if *previousID = ""; err == nil && follows {
		*previousID = call.ID
	}
	if err != nil {
		l.o.Log.Debug().Err(err).Msg("app not informed of write permission")
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

// stopApp revokes the permission to write that an earlier process of this node gave the app with the hook
// alive. It returns when the app has responded, or when the time in earlier has passed. If no earlier
// process has stored a time, stopApp waits up to dead-after; then it also returns when no process listens
// at the address of the app.
func (l *Limit) stopApp(ctx context.Context, earlier disk.AppAllowance) {
	nothingStored := earlier.Boot == 0
	timeout := earlier.Alive
	if nothingStored {
		timeout = l.o.InitialTiming.DeadAfter
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for previousID := ""; ctx.Err() == nil; {
		switch l.callHook(ctx, &previousID, 0, time.Second) {
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
