package crashdetect

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/clock"
	"shardway/peer"
)

const (
	// reachCheckEvery is the interval at which suspected nodes are checked.
	reachCheckEvery = 500 * time.Millisecond
	// ownerDialTimeout bounds one attempt to connect to an owner.
	ownerDialTimeout = time.Second
	// reachResultValid is how long the result of a check is reported to the leader. After a pause of the process, old
	// results must not count.
	reachResultValid = reachCheckEvery + 2*ownerDialTimeout
)

// UnreachableOwners finds the nodes that this node cannot reach. It checks only suspected nodes: nodes with stalled
// requests, excluded nodes, and the nodes of Suspect. It checks a node that it could not reach until that node responds.
//
// It aborts forwarded requests to owners that have been unreachable from this node for longer than DeadAfter. A
// node in the majority partition learns from a commit that the owner is excluded, and aborts such requests then. A
// node in the minority partition sees no commit. Without this check, its clients would wait until TCP times out.
type UnreachableOwners struct {
	Port      *peer.Port
	Scheduler *clock.Scheduler
	// Stalled returns the owners with forwarded requests that make no progress.
	Stalled func() []string
	// HeardRecently reports whether data from the current process of a node has just arrived. It avoids dials
	// because of long requests.
	HeardRecently func(node string) bool
	// IsOwner reports whether a node may own shards now, or would own shards if other nodes could reach it. Other nodes
	// are not checked.
	IsOwner func(node string) bool
	// Excluded returns the nodes that the map excludes because most members could not reach them. They are checked
	// although they receive no requests, so that they return only after they have been reachable for some time.
	Excluded func() []string
	// DeadAfter returns how long an owner must be unreachable.
	DeadAfter func() time.Duration
	// Abort aborts the forwarded requests to a node and returns their number.
	Abort func(node string) int
	Log   zerolog.Logger

	mu          sync.Mutex // protects the following fields
	suspects    map[string]bool
	unreachable map[string]failedChecks
}

// failedChecks are the failed checks of one node, without a successful one between them.
type failedChecks struct{ since, last time.Time }

// Suspect makes the next run check a node, if it is an owner. It does not block.
func (u *UnreachableOwners) Suspect(node string) {
	if !u.IsOwner(node) {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.suspects == nil {
		u.suspects = map[string]bool{}
	}
	u.suspects[node] = true
}

// Unreachable returns the nodes that this node cannot reach now, ascending.
func (u *UnreachableOwners) Unreachable() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.unreachable) == 0 {
		return nil
	}
	var nodes []string
	for node, failed := range u.unreachable {
		if time.Since(failed.last) < reachResultValid && u.IsOwner(node) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// Run checks the suspected nodes until ctx ends.
func (u *UnreachableOwners) Run(ctx context.Context) {
	ticker := u.Scheduler.NewTicker(reachCheckEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		stalled := u.Stalled()
		var checks sync.WaitGroup
		for _, node := range u.takeSuspects(stalled) {
			checks.Go(func() { u.checkOwner(ctx, node, slices.Contains(stalled, node)) })
		}
		checks.Wait()
	}
}

// takeSuspects returns the nodes to check: nodes in stalled, excluded nodes, nodes of Suspect, and nodes that were
// unreachable at the last check. It forgets the nodes that are neither stalled nor owners.
func (u *UnreachableOwners) takeSuspects(stalled []string) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	owners := slices.AppendSeq(slices.Collect(maps.Keys(u.suspects)), maps.Keys(u.unreachable))
	owners = slices.DeleteFunc(owners, func(node string) bool { return !u.IsOwner(node) })
	clear(u.suspects)
	nodes := slices.Concat(stalled, u.Excluded(), owners)
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	maps.DeleteFunc(u.unreachable, func(node string, _ failedChecks) bool { return !slices.Contains(nodes, node) })
	return nodes
}

// checkOwner checks whether a node is reachable, and records the result. It aborts the requests to a node that has
// stalled requests and was unreachable for longer than DeadAfter.
func (u *UnreachableOwners) checkOwner(ctx context.Context, node string, hasStalled bool) {
	checkStart := time.Now()
	reach := Reached
	if !u.HeardRecently(node) {
		reach = CheckReach(ctx, u.Port, node)
	}
	switch {
	case reach == Reached:
		u.recordReached(node)
		return
	case reach == NotChecked || ctx.Err() != nil:
		return
	}
	since := u.recordFailure(node, checkStart)
	if hasStalled && time.Since(since) > u.DeadAfter() {
		count := u.Abort(node)
		u.Log.Warn().Str("peer", node).Int("requests", count).Msg("forwarded requests aborted, owner unreachable")
	}
}

// recordReached records a successful check.
func (u *UnreachableOwners) recordReached(node string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.unreachable, node)
}

// recordFailure records a failed check that began at checkStart. It returns when the first failed check began.
func (u *UnreachableOwners) recordFailure(node string, checkStart time.Time) (since time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	failed, wasUnreachable := u.unreachable[node]
	if !wasUnreachable {
		failed.since = checkStart
	}
	failed.last = time.Now()
	if u.unreachable == nil {
		u.unreachable = map[string]failedChecks{}
	}
	u.unreachable[node] = failed
	return failed.since
}

// Reach is the result of CheckReach.
type Reach uint8

// The results of a check.
const (
	// NotChecked means that this node could not connect for a local reason, such as too many open files.
	NotChecked Reach = iota
	// Reached means that the process has responded.
	Reached
	// NotReached means that the process has not responded, or that no process listens.
	NotReached
)

// String returns the name of the result.
func (r Reach) String() string { return [...]string{"not checked", "reached", "not reached"}[r] }

// CheckReach checks whether the process of a node responds. A refusal is also a response.
func CheckReach(ctx context.Context, port *peer.Port, node string) Reach {
	ctx, cancel := context.WithTimeout(ctx, ownerDialTimeout)
	defer cancel()
	c, err := port.Dial(ctx, node, peer.Control)
	if err == nil {
		_ = c.Close()
		return Reached
	}
	if _, isRefusal := errors.AsType[*peer.RefusedError](err); isRefusal {
		return Reached
	}
	if peer.IsLocalFailure(err) {
		return NotChecked
	}
	return NotReached
}
