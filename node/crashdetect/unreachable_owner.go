package crashdetect

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/clock"
	"shardway/peer"
)

const (
	// reachCheckEvery is the interval at which owners with stalled requests are checked.
	reachCheckEvery = 500 * time.Millisecond
	// ownerDialTimeout bounds one attempt to connect to an owner.
	ownerDialTimeout = time.Second
)

// UnreachableOwners aborts forwarded requests to owners that this node cannot reach for longer than
// DeadAfter. A node in the majority partition learns from a commit that the owner is excluded, and aborts
// such requests then. A node in the minority partition sees no commit: without this check, its clients
// would wait for the timeout of TCP.
type UnreachableOwners struct {
	Port      *peer.Port
	Scheduler *clock.Scheduler
	// Stalled returns the owners with forwarded requests that make no progress.
	Stalled func() []string
	// HeardRecently reports whether data from the current process of a node has just arrived. It saves
	// the dials for long requests.
	HeardRecently func(node string) bool
	// DeadAfter returns how long an owner must be unreachable.
	DeadAfter func() time.Duration
	// Abort aborts the forwarded requests to a node and returns their number.
	Abort func(node string) int
	Log   zerolog.Logger
}

// Run checks the owners with stalled requests until ctx ends.
func (u *UnreachableOwners) Run(ctx context.Context) {
	ticker := u.Scheduler.NewTicker(reachCheckEvery)
	defer ticker.Stop()
	unreachableSince := map[string]time.Time{} // by node
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		stalled := u.Stalled()
		for _, node := range stalled {
			u.checkOwner(ctx, node, unreachableSince)
		}
		maps.DeleteFunc(unreachableSince, func(node string, _ time.Time) bool { return !slices.Contains(stalled, node) })
	}
}

// checkOwner checks whether a node is reachable, and updates the time since which it is unreachable. It aborts
// the requests to a node that was unreachable for longer than DeadAfter.
func (u *UnreachableOwners) checkOwner(ctx context.Context, node string, unreachableSince map[string]time.Time) {
	checkStart := time.Now()
	if u.HeardRecently(node) || IsReachable(ctx, u.Port, node) {
		delete(unreachableSince, node)
		return
	}
	since, wasUnreachable := unreachableSince[node]
	if !wasUnreachable {
		unreachableSince[node] = checkStart
		return
	}
	if time.Since(since) > u.DeadAfter() {
		count := u.Abort(node)
		u.Log.Warn().Str("peer", node).Int("requests", count).Msg("forwarded requests aborted, owner unreachable")
	}
}

// IsReachable reports whether the process of a node responds. A refusal is a response, too.
func IsReachable(ctx context.Context, port *peer.Port, node string) bool {
	ctx, cancel := context.WithTimeout(ctx, ownerDialTimeout)
	defer cancel()
	c, err := port.Dial(ctx, node, peer.Control)
	if err == nil {
		_ = c.Close()
		return true
	}
	var refused *peer.RefusedError
	return errors.As(err, &refused)
}
