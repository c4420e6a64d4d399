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
	// aliveParts is how many calls there are in the time for which the app may write. One that
	// is late then costs the app nothing.
	aliveParts = 5
	// aliveUnknown is the pause after the app has answered that it has no such hook.
	aliveUnknown = time.Minute
	// aliveIdle is how often the app is called that must not write.
	aliveIdle = time.Second
)

// appLiveness is implemented by hooks of an app that runs in another process: it lives on when
// this process is killed. An app in this process does not.
type appLiveness interface {
	// Alive makes one call. follows is false if the app has no such hook, refused is true if
	// nothing listens at its address.
	Alive(ctx context.Context, call ackagent.AliveCall) (follows, refused bool, err error)
	CloseAlive()
}

// liveness returns the hook that tells the app for how long it may write; nil: there is none.
func (n *Node) liveness() appLiveness {
	if n.o.Gateway {
		return nil
	}
	l, _ := n.o.Hooks.(appLiveness)
	return l
}

// mayWrite returns for how long the app may still write if this process is killed now, at
// least, and for how long a fresh lease allows it. Both are bounded by the moment at which
// another node may own the shards (docs/internals/protocol-leases.md, "When a shard may be taken"):
//
//   - takeover timeout: dead-after after the last grant, so as long as what runs here may.
//   - takeover lease: the end of the lease, which crash evidence does not shorten.
//   - takeover immediate: crash evidence is enough, so never.
func (n *Node) mayWrite() (left, whole time.Duration) {
	t := n.timing()
	var end time.Duration
	switch t.Takeover {
	case ack.TakeoverTimeout:
		end, whole = time.Duration(n.router.abortAt.Load()), t.Lease+timingrules.CutAfter(t.Lease, t.DeadAfter)
	case ack.TakeoverLease:
		end, whole = n.router.leaseEnd(), t.Lease
	case ack.TakeoverImmediate:
		return 0, 0
	}
	return min(max(end-n.o.Clock.Precise(), 0), whole), whole
}

// keepAppAlive tells the app again and again for how long it may write, until ctx ends.
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

// aliveOutcome is what came of one call of alive.
type aliveOutcome uint8

const (
	aliveFailed  aliveOutcome = iota // no answer
	aliveTold                        // the app has it
	aliveNoHook                      // the app answers that it has no such hook
	aliveRefused                     // nothing listens at the app's address
)

// callAlive makes one call; after is the last one that the app has answered.
func (n *Node) callAlive(ctx context.Context, app appLiveness, after *string, left, within time.Duration) aliveOutcome {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	c := n.router.state.Load().Committed()
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

// stopApp has the app stop writing what the hook alive of an earlier process of this node
// allowed. It returns when the app has answered, or when that time has passed. If no process
// has stored such a time, it waits up to dead-after, and not if nothing listens at the app's
// address.
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
			// An app that has closed its port may write on.
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

// aliveID returns an id that no other call has.
func aliveID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
