package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/internal/chanutil"
	"shardway/internal/pollctx"
	"shardway/node/router"
	"shardway/shardmap"
)

// Hooks inform the app of shards that it must acquire (load their state) or release (write their state).
// Do makes one call of a hook and returns the result. It must not return while the call
// still runs, as far as this process can detect: for an app in another process, the call has ended when
// its connection is closed. ctx ends after the call's Timeout, or earlier when the call is aborted. The
// Seq of the result need not be set. Do is called from several goroutines at the same time.
type Hooks interface {
	Do(ctx context.Context, call ackagent.HookCall) ackagent.HookResult
}

// maxWarned is the largest number of failed releases that are logged for one map change, and of release
// notes that are too large.
const maxWarned = 8

// hookRunner runs the hook calls that package ack/agent decides on, each in a separate goroutine. Only the
// goroutine of agent.run uses it, except for the fields that mu protects and those noted below.
type hookRunner struct {
	hooks   Hooks
	log     zerolog.Logger
	running *router.InFlight
	// isOverdue reports whether running calls should have been aborted by now. It is called from any
	// goroutine.
	isOverdue       func() bool
	ctx             context.Context               // of agent.run; set before the first call
	cancels         map[uint64]context.CancelFunc // aborts the running calls, by HookCall.Seq
	onAcquireFailed func()                        // called from any goroutine when an acquire call has failed; nil means no call
	calls           sync.WaitGroup
	// results receives the results of calls. A sender stops waiting when ctx ends.
	results chan ackagent.HookResult
	// releaseNotes contains the newest release notes for the leader; cap 1.
	releaseNotes       chan ack.Releases
	exceeded           exceededNotes // the last logged number of notes that exceed the limit
	notAcquiredChanged chan struct{} // notified when notAcquired has changed
	mu                 struct {
		sync.Mutex
		notAcquired map[shardmap.Shard]shardmap.Epoch // shards that the app has reported as not held, by ownership epoch
		warned      warningCount
	}
}

// warningCount counts the failed releases of one map change.
type warningCount struct {
	change shardmap.Epoch
	calls  int
}

var _ ackagent.App = (*hookRunner)(nil)

// newHookRunner returns a hookRunner that calls h. running contains the in-flight requests of the app.
func newHookRunner(h Hooks, running *router.InFlight, log zerolog.Logger) *hookRunner {
	k := &hookRunner{
		hooks: h, running: running, isOverdue: neverOverdue, log: log, releaseNotes: make(chan ack.Releases, 1), ctx: context.Background(), cancels: map[uint64]context.CancelFunc{},
		results: make(chan ackagent.HookResult), notAcquiredChanged: make(chan struct{}, 1),
	}
	k.mu.notAcquired = map[shardmap.Shard]shardmap.Epoch{}
	return k
}

// neverOverdue is an isOverdue function that returns false.
func neverOverdue() bool { return false }

// StartCall starts a call of a hook in the background. Its result is sent on results.
func (h *hookRunner) StartCall(c ackagent.HookCall) {
	timed, cancel := context.WithTimeout(h.ctx, c.Timeout)
	h.cancels[c.Seq] = cancel
	over := h.isOverdue
	if c.Kind == ackagent.HookLost {
		over = neverOverdue // the hook only reports that the state is lost, and writes nothing
	}
	ctx, stop := pollctx.Context(timed, over)
	run := h.ctx
	h.calls.Go(func() {
		defer cancel()
		defer stop()
		r := h.hooks.Do(ctx, c)
		r.Seq = c.Seq
		cut := errors.Is(timed.Err(), context.Canceled) // the call was aborted because it is no longer needed
		h.logFailedRelease(&c, &r, cut)
		if h.onAcquireFailed != nil && c.Kind == ackagent.HookAcquire && !cut && (r.Err != nil || len(r.Failed) > 0) {
			h.onAcquireFailed()
		}
		select {
		case h.results <- r:
		case <-run.Done():
		}
	})
}

// logFailedRelease logs a release that failed for all or some of its shards. It logs up to maxWarned failures of one
// map change, because a failed release is retried repeatedly.
func (h *hookRunner) logFailedRelease(c *ackagent.HookCall, r *ackagent.HookResult, cut bool) {
	if c.Kind != ackagent.HookRelease || cut || r.Err == nil && len(r.Failed) == 0 {
		return
	}
	failed := slices.Sorted(maps.Keys(r.Failed))
	var why string
	if r.Err != nil {
		failed, why = nil, r.Err.Error()
		for _, s := range c.Shards {
			failed = append(failed, s.Shard)
		}
	} else {
		why = r.Failed[failed[0]]
	}
	h.mu.Lock()
	if h.mu.warned.change != c.Map {
		h.mu.warned = warningCount{change: c.Map}
	}
	h.mu.warned.calls++
	n := h.mu.warned.calls
	h.mu.Unlock()
	switch {
	case n <= maxWarned:
		h.log.Warn().Uint64("epoch", uint64(c.Map)).Str("shards", shardmap.FormatShards(failed)).Str("why", why).Msg("release failed")
	case n == maxWarned+1:
		h.log.Warn().Uint64("epoch", uint64(c.Map)).Msg("more releases failed")
	}
}

// CancelCall aborts a call. Its result is still sent on results.
func (h *hookRunner) CancelCall(seq uint64) {
	if cancel := h.cancels[seq]; cancel != nil {
		cancel()
	}
}

// CountRequests counts the requests that run for a shard. If there are any, the agent polls when the last one has
// ended.
func (h *hookRunner) CountRequests(s shardmap.Shard) int { return h.running.CountShard(s) }

// callCount returns the number of running calls. h may be nil.
func (h *hookRunner) callCount() int {
	if h == nil {
		return 0
	}
	return len(h.cancels)
}

// removeCall records that a call has ended.
func (h *hookRunner) removeCall(seq uint64) { delete(h.cancels, seq) }

// recordNotAcquired records that the app does not hold a shard under the ownership epoch of a request. It may be
// called from any goroutine.
func (h *hookRunner) recordNotAcquired(s shardmap.Shard, epoch shardmap.Epoch) {
	h.mu.Lock()
	h.mu.notAcquired[s] = max(epoch, h.mu.notAcquired[s])
	h.mu.Unlock()
	chanutil.Notify(h.notAcquiredChanged)
}

// takeNotAcquired calls do for each shard that recordNotAcquired has recorded since the previous call.
func (h *hookRunner) takeNotAcquired(do func(shardmap.Shard, shardmap.Epoch)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s, epoch := range h.mu.notAcquired {
		do(s, epoch)
	}
	clear(h.mu.notAcquired)
}
