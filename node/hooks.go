package node

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/pollctx"
	"shardway/shardmap"
)

// Hooks carry calls to the app. Do makes one attempt and returns what came of it, not
// before nothing of it runs any more as far as this process can tell: of an app in
// another process that is when its connection is closed. ctx ends after the call's
// Timeout, and as soon as the call is to be cut. The result's Seq need not be set. Do
// is called from several goroutines at once.
type Hooks interface {
	Do(ctx context.Context, call ack.HookCall) ack.HookResult
}

// maxWarned is how many failed releases, and how many refused notes, of one map change are
// logged.
const maxWarned = 8

// hooking runs the calls that the machine decides on, each in a goroutine of its own.
// The agent's goroutine owns it, but for what is under mu.
type hooking struct {
	hooks   Hooks
	log     zerolog.Logger
	running *inflight
	// outlived reports that what runs should have been cut, to a call that asks whether it
	// is over; any goroutine calls it.
	outlived func() bool
	ctx      context.Context // the agent's run; set before the first call
	under    map[uint64]context.CancelFunc
	failed   func() // told, from any goroutine, of a call to acquire that failed; nil: nobody is
	calls    sync.WaitGroup
	// results have what came of calls; whoever sends one gives up with ctx.
	results chan ack.HookResult
	// given is what the machine has brought to the leader; cap 1: the newest waits.
	given chan ack.Releases
	over  overs         // what was said of notes that do not fit
	told  chan struct{} // hint: there is something under mu
	mu    struct {
		sync.Mutex
		notAcquired map[shardmap.Shard]shardmap.Epoch // what the app says it does not hold
		warned      warned
	}
}

// warned counts the failed releases of one map change.
type warned struct {
	change shardmap.Epoch
	calls  int
}

var _ ack.App = (*hooking)(nil)

func newHooking(h Hooks, running *inflight, log zerolog.Logger) *hooking {
	k := &hooking{
		hooks: h, running: running, outlived: never, log: log, given: make(chan ack.Releases, 1), ctx: context.Background(), under: map[uint64]context.CancelFunc{},
		results: make(chan ack.HookResult), told: make(chan struct{}, 1),
	}
	k.mu.notAcquired = map[shardmap.Shard]shardmap.Epoch{}
	return k
}

func never() bool { return false }

// Call begins a call.
func (h *hooking) Call(c ack.HookCall) {
	timed, cancel := context.WithTimeout(h.ctx, c.Timeout)
	h.under[c.Seq] = cancel
	over := h.outlived
	if c.Kind == ack.HookLost {
		over = never // it writes nothing, and says that what was here is lost
	}
	ctx, stop := pollctx.Context(timed, over)
	run := h.ctx
	h.calls.Go(func() {
		defer cancel()
		defer stop()
		r := h.hooks.Do(ctx, c)
		r.Seq = c.Seq
		cut := errors.Is(timed.Err(), context.Canceled) // what it was for is over
		h.warn(&c, &r, cut)
		if h.failed != nil && c.Kind == ack.HookAcquire && !cut && (r.Err != nil || len(r.Failed) > 0) {
			h.failed()
		}
		select {
		case h.results <- r:
		case <-run.Done():
		}
	})
}

// warn logs a release that failed, for all of its shards or some: at most maxWarned of one
// map change, because a shard that fails is tried again and again.
func (h *hooking) warn(c *ack.HookCall, r *ack.HookResult, cut bool) {
	if c.Kind != ack.HookRelease || cut || r.Err == nil && len(r.Failed) == 0 {
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
		h.mu.warned = warned{change: c.Map}
	}
	h.mu.warned.calls++
	n := h.mu.warned.calls
	h.mu.Unlock()
	switch {
	case n <= maxWarned:
		h.log.Warn().Uint64("epoch", uint64(c.Map)).Str("shards", named(failed)).Str("why", why).Msg("release failed")
	case n == maxWarned+1:
		h.log.Warn().Uint64("epoch", uint64(c.Map)).Msg("more releases failed")
	}
}

// CutCall ends a call; its result follows.
func (h *hooking) CutCall(seq uint64) {
	if cancel := h.under[seq]; cancel != nil {
		cancel()
	}
}

// Busy counts what runs for a shard. If anything does, the end of the last leads to a
// look.
func (h *hooking) Busy(s shardmap.Shard) int { return h.running.countShard(s) }

// count returns how many calls are under way.
func (h *hooking) count() int {
	if h == nil {
		return 0
	}
	return len(h.under)
}

// ended notes that nothing of a call runs any more.
func (h *hooking) ended(seq uint64) { delete(h.under, seq) }

// tell notes, from any goroutine, that the app says it does not hold a shard under the
// ownership epoch that a request came with.
func (h *hooking) tell(s shardmap.Shard, epoch shardmap.Epoch) {
	h.mu.Lock()
	h.mu.notAcquired[s] = max(epoch, h.mu.notAcquired[s])
	h.mu.Unlock()
	notify(h.told)
}

// each passes on what was told since the last time.
func (h *hooking) each(do func(shardmap.Shard, shardmap.Epoch)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s, epoch := range h.mu.notAcquired {
		do(s, epoch)
	}
	clear(h.mu.notAcquired)
}
