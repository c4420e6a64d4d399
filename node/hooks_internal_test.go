package node

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	ackagent "shardway/ack/agent"
	"shardway/node/router"
	"shardway/shardmap"
)

// doing is an app that handles a hook call with a function.
type doing func(context.Context, ackagent.HookCall) ackagent.HookResult

func (d doing) Do(ctx context.Context, c ackagent.HookCall) ackagent.HookResult { return d(ctx, c) }

// A call ends after its own timeout, and immediately when it is cancelled. It counts, under its number, until the agent has its result.
func TestCallEndsInTimeOrWhenItIsCut(t *testing.T) {
	for cut, want := range map[time.Duration]time.Duration{0: 4 * time.Second, time.Second: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			h := newHookRunner(doing(func(ctx context.Context, _ ackagent.HookCall) ackagent.HookResult {
				<-ctx.Done()
				return ackagent.HookResult{Seq: 1, Err: ctx.Err()}
			}), router.NewInFlight(), zerolog.Nop())
			h.ctx = t.Context()
			began := time.Now()
			h.StartCall(ackagent.HookCall{Kind: ackagent.HookAcquire, Seq: 7, Timeout: 4 * time.Second})
			h.CancelCall(8) // another call
			if h.callCount() != 1 {
				t.Errorf("%d calls are under way, want 1", h.callCount())
			}
			if cut > 0 {
				time.Sleep(cut)
				h.CancelCall(7)
			}
			r := <-h.results
			if took := time.Since(began); took != want || r.Seq != 7 {
				t.Errorf("call %d ended after %v, want 7 after %v", r.Seq, took, want)
			}
			h.removeCall(r.Seq)
			if h.callCount() != 0 {
				t.Errorf("%d calls are under way, want none", h.callCount())
			}
			h.calls.Wait()
		})
	}
}

// An acquire that is cancelled because the shards move, or the node ends, has not failed. An acquire that exceeds its timeout has.
func TestCallThatIsCutIsNotCounted(t *testing.T) {
	for cut, want := range map[bool]int{true: 0, false: 1} {
		synctest.Test(t, func(t *testing.T) {
			h := newHookRunner(doing(func(ctx context.Context, _ ackagent.HookCall) ackagent.HookResult {
				<-ctx.Done()
				return ackagent.HookResult{Err: ctx.Err()}
			}), router.NewInFlight(), zerolog.Nop())
			failed := 0
			h.ctx, h.onAcquireFailed = t.Context(), func() { failed++ }
			h.StartCall(ackagent.HookCall{Kind: ackagent.HookAcquire, Seq: 7, Timeout: time.Second})
			if cut {
				h.CancelCall(7)
			}
			<-h.results
			h.calls.Wait()
			if failed != want {
				t.Errorf("cut: %t: counted %d times, want %d", cut, failed, want)
			}
		})
	}
}

// A call ends with the run, although no goroutine receives its result any more.
func TestCallEndsWithTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := newHookRunner(doing(func(context.Context, ackagent.HookCall) ackagent.HookResult { return ackagent.HookResult{} }), router.NewInFlight(), zerolog.Nop())
		h.ctx = ctx
		h.StartCall(ackagent.HookCall{Kind: ackagent.HookAcquire, Seq: 7, Timeout: time.Hour})
		synctest.Wait()
		cancel()
		began := time.Now()
		ended := make(chan struct{})
		go func() { h.calls.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			<-h.results
			t.Errorf("it waits, %v later", time.Since(began))
		}
	})
}

// A failed acquire is counted, whether it failed for all shards or for some. A failed release is logged: one line per call, up to maxWarned
// per map change.
func TestFailedHookCallIsReportedByItsKind(t *testing.T) {
	some := map[shardmap.Shard]string{1: "no", 3: "not this one"}
	for name, tc := range map[string]struct {
		kind         ackagent.HookKind
		r            ackagent.HookResult
		calls        int
		failed       int
		single, more int // number of log lines
	}{
		"acquired":                 {ackagent.HookAcquire, ackagent.HookResult{}, 1, 0, 0, 0},
		"acquired in part":         {ackagent.HookAcquire, ackagent.HookResult{Failed: some}, 1, 1, 0, 0},
		"not acquired":             {ackagent.HookAcquire, ackagent.HookResult{Err: errors.New("no")}, 1, 1, 0, 0},
		"released":                 {ackagent.HookRelease, ackagent.HookResult{}, 1, 0, 0, 0},
		"released in part":         {ackagent.HookRelease, ackagent.HookResult{Failed: some}, 1, 0, 1, 0},
		"not released":             {ackagent.HookRelease, ackagent.HookResult{Err: errors.New("no")}, 2, 0, 2, 0},
		"not released, many times": {ackagent.HookRelease, ackagent.HookResult{Err: errors.New("no")}, 3 * maxWarned, 0, maxWarned, 1},
		"lost in part":             {ackagent.HookLost, ackagent.HookResult{Failed: some}, 1, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				failed := 0
				h := newHookRunner(doing(func(context.Context, ackagent.HookCall) ackagent.HookResult { return tc.r }), router.NewInFlight(), zerolog.New(&log))
				h.ctx, h.onAcquireFailed = t.Context(), func() { failed++ }
				for range tc.calls {
					h.StartCall(ackagent.HookCall{Kind: tc.kind, Seq: 7, Timeout: time.Second, Shards: []ackagent.HookShard{{Shard: 1}}})
					<-h.results
				}
				h.calls.Wait()
				single, more := strings.Count(log.String(), `"release failed"`), strings.Count(log.String(), `"more releases failed"`)
				if failed != tc.failed || single != tc.single || more != tc.more {
					t.Errorf("counted %d times, %d lines of calls and %d of more, want %d, %d and %d", failed, single, more, tc.failed, tc.single, tc.more)
				}
			})
		})
	}
}

// The app's report that it does not hold a shard is passed on once, with the newest epoch of a request, in whatever order the requests
// arrive.
func TestNotAcquiredIsPassedOnOnce(t *testing.T) {
	h := newHookRunner(nil, nil, zerolog.Nop())
	h.recordNotAcquired(1, 7)
	h.recordNotAcquired(1, 5)
	h.recordNotAcquired(2, 3)
	got := map[shardmap.Shard]shardmap.Epoch{}
	h.takeNotAcquired(func(s shardmap.Shard, epoch shardmap.Epoch) { got[s] = epoch })
	if len(got) != 2 || got[1] != 7 || got[2] != 3 || len(h.notAcquiredChanged) != 1 {
		t.Errorf("passed on %v, with %d hints, want 1 under 7 and 2 under 3, with one", got, len(h.notAcquiredChanged))
	}
	h.takeNotAcquired(func(s shardmap.Shard, epoch shardmap.Epoch) { t.Errorf("passed on again: %d under %d", s, epoch) })
}

// The end of requests wakes only the goroutine that waits for it.
func TestEndOfRequestsWakesTheWaiter(t *testing.T) {
	told := func(f *router.InFlight) bool {
		select {
		case <-f.ReachedZero:
			return true
		default:
			return false
		}
	}
	only := func(s shardmap.Shard) func(shardmap.Shard) bool { return func(o shardmap.Shard) bool { return o == s } }
	f := router.NewInFlight()
	end := f.Begin(1)
	if end(); told(f) {
		t.Error("told, though nobody waits")
	}
	end, other := f.Begin(1), f.Begin(2)
	if n := f.CountUnowned(only(2)); n != 1 {
		t.Errorf("%d run that may not, want 1", n)
	}
	if end(); !told(f) {
		t.Error("it has ended, and nobody is told")
	}
	if n := f.CountUnowned(only(2)); n != 0 {
		t.Errorf("%d run that may not, want none", n)
	}
	if other(); told(f) {
		t.Error("told, though nobody waits any more")
	}
	if n := f.CountAndNotify(3); n != 0 {
		t.Errorf("%d run for a shard, want none", n)
	}
	end = f.Begin(1)
	if end(); told(f) {
		t.Error("told, though nothing was waited for")
	}
	end = f.Begin(3)
	if n := f.CountAndNotify(3); n != 1 || f.Count(3) != 1 {
		t.Errorf("%d run for a shard, want 1", n)
	}
	if end(); !told(f) {
		t.Error("it has ended, and nobody is told")
	}
}

// Releases take time only for an app with hooks.
func TestReleasesTakeTimeWhereThereAreHooks(t *testing.T) {
	h := doing(func(context.Context, ackagent.HookCall) ackagent.HookResult { return ackagent.HookResult{} })
	for want, o := range map[time.Duration]Options{
		4 * time.Second: {Hooks: h, ReleaseTimeout: 4 * time.Second},
		0:               {Hooks: h, ReleaseTimeout: 4 * time.Second, Gateway: true},
	} {
		if got := (&Node{options: o, fsm: newFSM(nil)}).shutdownOptions().ReleaseTimeout; got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	if got := (&Node{options: Options{ReleaseTimeout: time.Second}, fsm: newFSM(nil)}).shutdownOptions().ReleaseTimeout; got != 0 {
		t.Errorf("%v without hooks, want none", got)
	}
}
