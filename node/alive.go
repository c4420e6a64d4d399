package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/internal/timingrules"
	"shardway/node/disk"
)

const (
	// aliveParts is the number of calls within the time for which the app may write. With several calls,
	// a single late call does not make the app stop writing.
	aliveParts = 5
	// aliveUnknown is the pause after the app has responded that it has no such hook.
	aliveUnknown = time.Minute
	// aliveIdle is the interval between calls while the app must not write.
	aliveIdle = time.Second
)

// appLiveness calls the hook alive, which informs the app for how long it may still write. The Hooks of an
// app in another process implement it, because such an app continues to run when this process is killed.
// An app in this process ends with it and needs no such limit.
type appLiveness interface {
	// Alive makes one call. follows is false if the app has no such hook. refused is true if no process
	// listens at the address of the app.
	Alive(ctx context.Context, call ackagent.AliveCall) (follows, refused bool, err error)
	// CloseAlive closes the connection for the calls.
	CloseAlive()
}

// liveness returns the hook alive of the app. nil means that the app has no such hook.
func (n *Node) liveness() appLiveness {
	if n.o.Gateway {
		return nil
	}
	l, _ := n.o.Hooks.(appLiveness)
	return l
}

// mayWrite returns how long the app may still write if this process is killed now (left), and how long it
// may write after a lease was just granted (whole). The limit is the earliest time at which another node
// may own the shards (docs/internals/protocol-leases.md, "When a shard may be taken"):
//
//   - takeover timeout: dead-after after the last grant. Running requests have the same limit.
//   - takeover lease: the end of the lease. Evidence of a crash does not shorten it.
//   - takeover immediate: evidence of a crash allows a takeover at any time, so both results are zero.
func (n *Node) mayWrite() (left, whole time.Duration) {
	t := n.view.Timing()
	var end time.Duration
	switch t.Takeover {
	case ack.TakeoverTimeout:
		end, whole = n.router.AbortTime(), t.Lease+timingrules.AbortDelay(t.Lease, t.DeadAfter)
	case ack.TakeoverLease:
		end, whole = n.router.LeaseEnd(), t.Lease
	case ack.TakeoverImmediate:
		return 0, 0
	}
	return min(max(end-n.o.Clock.Precise(), 0), whole), whole
}

// keepAppAlive calls the hook alive repeatedly, until ctx ends.
func (n *Node) keepAppAlive(ctx context.Context) {
	app := n.liveness()
	defer app.CloseAlive()
	after := ""
	for {
		left, whole := n.mayWriteAlive()
		outcome := n.callAlive(ctx, app, &after, left, max(whole, aliveIdle))
		pause := aliveIdle
		switch {
		case outcome == aliveNoHook:
			pause = aliveUnknown
		case whole > 0:
			pause = min(max(whole/aliveParts, 10*time.Millisecond), aliveIdle)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// aliveOutcome is the result of one call of the hook alive.
type aliveOutcome uint8

const (
	aliveFailed  aliveOutcome = iota // the app has not responded
	aliveTold                        // the app has accepted the call
	aliveNoHook                      // the app has responded that it has no such hook
	aliveRefused                     // no process listens at the address of the app
)

// callAlive makes one call of the hook alive, with the timeout within. left is how long the app may still
// write. after contains the ID of the previous call if the app has accepted that one; callAlive updates it.
func (n *Node) callAlive(ctx context.Context, app appLiveness, after *string, left, within time.Duration) aliveOutcome {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c := n.router.State().Committed()
	call := ackagent.AliveCall{ID: aliveID(), After: *after, Map: c.Epoch(), Held: c.Count(n.self), MayWrite: left}
	follows, refused, err := app.Alive(ctx, call)
	if *after = ""; err == nil && follows {
		*after = call.ID
	}
	if err != nil {
		n.log.Debug().Err(err).Msg("app not informed of write permission")
	}
	switch {
	case refused:
		return aliveRefused
	case err != nil:
		return aliveFailed
	case !follows:
		return aliveNoHook
	}
	return aliveTold
}

// stopApp revokes the permission to write that an earlier process of this node gave the app with the hook
// alive. It returns when the app has responded, or when the time in earlier has passed. If no earlier
// process has stored a time, stopApp waits up to dead-after; then it also returns when no process listens
// at the address of the app.
func (n *Node) stopApp(ctx context.Context, earlier disk.AppAllowance) {
	app := n.liveness()
	never := earlier.Boot == 0
	limit := earlier.Alive
	if never {
		limit = n.o.Timing.DeadAfter
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for after := ""; ctx.Err() == nil; {
		switch n.callAlive(ctx, app, &after, 0, time.Second) {
		case aliveTold, aliveNoHook:
			return
		case aliveRefused:
			// An app that has closed its port may still run and write.
			if never {
				return
			}
		case aliveFailed:
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// aliveID returns a random ID for a call.
func aliveID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
