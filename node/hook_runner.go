package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/internal/chanutil"
	"shardway/internal/pollctx"
	"shardway/node/metrics"
	"shardway/node/router"
	"shardway/shardmap"
)

// Hooks inform the app of shards that it must acquire (load their state) or release (write their state).
type Hooks interface {
	// Do makes one call of a hook and returns the result, whose Seq need not be set. ctx ends after the
	// Timeout of the call, or earlier when the call is aborted. Do must not return while the call still
	// runs, as far as this process can detect: for an app in another process, the call has ended when its
	// connection is closed. Do is called from several goroutines at the same time.
	Do(ctx context.Context, call ackagent.HookCall) ackagent.HookResult
}

// maxWarned is the largest number of failed releases that are logged for one map change. It is also the largest
// number of logged release notes that exceed the limit.
const maxWarned = 8

// hookRunner runs the hook calls that package ack/agent decides on, each in a separate goroutine. Only the
// goroutine of agent.run uses it, except for the fields that mu protects and those noted below.
type hookRunner struct {
	hooks    Hooks
	log      zerolog.Logger
	inFlight *router.InFlight // the requests that the app is processing
	// isOverdue reports whether running calls should have been aborted by now. It is called from any
	// goroutine.
	isOverdue func() bool
	// onAcquireFailed is called from any goroutine when an acquire call has failed; nil means no call.
	onAcquireFailed func()
	metrics         *metrics.Hooks

	// Running calls.
	ctx     context.Context               // of agent.run; set before the first call
	cancels map[uint64]context.CancelFunc // aborts a running call, by HookCall.Seq
	calls   sync.WaitGroup                // the goroutines of running calls
	results chan ackagent.HookResult      // unbuffered: results of calls; a sender stops waiting when ctx ends

	// Release notes for the leader.
	releaseNotes   chan ack.Releases // cap 1: the newest notes
	loggedExceeded exceededNotes     // the last logged number of notes that exceed the limit

	notAcquiredChanged chan struct{} // cap 1: notified when mu.notAcquired has changed

	// mu protects its fields. Any goroutine may use them.
	mu struct {
		sync.Mutex
		notAcquired    map[shardmap.Shard]shardmap.Epoch // shards that the app has reported as not held, with the ownership epoch
		failedReleases releaseFailureCount
	}
}

// releaseFailureCount counts the failed release calls of one map change.
type releaseFailureCount struct {
	mapEpoch shardmap.Epoch // epoch of the map that the change proposes
	calls    int
}

var _ ackagent.App = (*hookRunner)(nil)

// newHookRunner returns a hookRunner that calls hooks. inFlight counts the requests that the app is
// processing.
func newHookRunner(hooks Hooks, inFlight *router.InFlight, log zerolog.Logger) *hookRunner {
	h := &hookRunner{
		hooks:              hooks,
		log:                log,
		inFlight:           inFlight,
		isOverdue:          neverOverdue,
		metrics:            metrics.NewHooks(),
		ctx:                context.Background(),
		cancels:            map[uint64]context.CancelFunc{},
		results:            make(chan ackagent.HookResult),
		releaseNotes:       make(chan ack.Releases, 1),
		notAcquiredChanged: make(chan struct{}, 1),
	}
	h.mu.notAcquired = map[shardmap.Shard]shardmap.Epoch{}
	return h
}

// neverOverdue is used for hooks that may run past the node's deadline.
func neverOverdue() bool { return false }

// inputs returns the channels from which agent.run receives: the results of calls, and notifications that the
// app does not hold a shard. h may be nil; then both channels are nil.
func (h *hookRunner) inputs() (results <-chan ackagent.HookResult, notAcquiredChanged <-chan struct{}) {
	if h == nil {
		return nil, nil
	}
	return h.results, h.notAcquiredChanged
}

// StartCall starts a call of a hook in the background. Its result is sent on results.
func (h *hookRunner) StartCall(call ackagent.HookCall) {
	timeoutCtx, cancel := context.WithTimeout(h.ctx, call.Timeout)
	h.cancels[call.Seq] = cancel
	isOverdue := h.isOverdue
	if call.Kind == ackagent.HookLost {
		isOverdue = neverOverdue // the hook only reports that the state is lost, and writes nothing
	}
	callCtx, stopPolling := pollctx.Context(timeoutCtx, isOverdue)
	runCtx := h.ctx
	h.metrics.RecordStart(&call)
	h.calls.Go(func() {
		defer cancel()
		defer stopPolling()
		startedAt := time.Now()
		result := h.hooks.Do(callCtx, call)
		result.Seq = call.Seq
		wasAborted := errors.Is(timeoutCtx.Err(), context.Canceled)
		h.metrics.RecordEnd(&call, &result, wasAborted, time.Since(startedAt))
		if !wasAborted { // the result of a call that is not needed any more does not matter
			h.reportFailure(&call, &result)
		}
		select {
		case h.results <- result:
		case <-runCtx.Done():
		}
	})
}

// reportFailure logs or counts a call that failed for all or some of its shards.
func (h *hookRunner) reportFailure(call *ackagent.HookCall, result *ackagent.HookResult) {
	hasFailed := result.Err != nil || len(result.Failed) > 0
	if !hasFailed {
		return
	}
	switch call.Kind {
	case ackagent.HookRelease:
		h.logFailedRelease(call, result)
	case ackagent.HookAcquire:
		if h.onAcquireFailed != nil {
			h.onAcquireFailed()
		}
	case ackagent.HookLost:
	}
}

// logFailedRelease logs a release that failed. It logs up to maxWarned failures of one map change, because a
// failed release is retried repeatedly.
func (h *hookRunner) logFailedRelease(call *ackagent.HookCall, result *ackagent.HookResult) {
	switch count := h.countFailedRelease(call.Map); {
	case count <= maxWarned:
		shards, reason := failedShards(call, result)
		h.log.Warn().Uint64("epoch", uint64(call.Map)).Func(logService(call.Service)).Str("shards", shardmap.FormatShards(shards)).Str("reason", reason).Msg("release failed")
	case count == maxWarned+1:
		h.log.Warn().Uint64("epoch", uint64(call.Map)).Msg("more releases failed")
	}
}

// logService returns a function that adds the name of a service to a log line. Without services, the name is empty, and
// the line has no such field.
func logService(name string) func(*zerolog.Event) {
	return func(line *zerolog.Event) {
		if name != "" {
			line.Str("service", name)
		}
	}
}

// countFailedRelease counts a failed release call of the map change with the given epoch, and returns the
// number of these calls.
func (h *hookRunner) countFailedRelease(mapEpoch shardmap.Epoch) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.failedReleases.mapEpoch != mapEpoch {
		h.mu.failedReleases = releaseFailureCount{mapEpoch: mapEpoch}
	}
	h.mu.failedReleases.calls++
	return h.mu.failedReleases.calls
}

// failedShards returns the shards for which a call failed, in ascending order, and the error of the first one. The
// shards count from the first shard of their service.
func failedShards(call *ackagent.HookCall, result *ackagent.HookResult) (shards []shardmap.Shard, reason string) {
	if result.Err != nil { // the call failed for all its shards
		for _, s := range call.Shards {
			shards = append(shards, s.Shard-call.First)
		}
		return shards, result.Err.Error()
	}
	failed := slices.Sorted(maps.Keys(result.Failed))
	for _, shard := range failed {
		shards = append(shards, shard-call.First)
	}
	return shards, result.Failed[failed[0]]
}

// CancelCall aborts a call. Its result is still sent on results.
func (h *hookRunner) CancelCall(seq uint64) {
	if cancel := h.cancels[seq]; cancel != nil {
		cancel()
	}
}

// CountRequests counts the requests that run for a shard. If there are any, the agent polls when the last one has
// ended.
func (h *hookRunner) CountRequests(s shardmap.Shard) int { return h.inFlight.CountAndNotify(s) }

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

// takeNotAcquired calls handle for each shard that recordNotAcquired has recorded since the previous call.
func (h *hookRunner) takeNotAcquired(handle func(shardmap.Shard, shardmap.Epoch)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s, epoch := range h.mu.notAcquired {
		handle(s, epoch)
	}
	clear(h.mu.notAcquired)
}
