package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	ackagent "shardway/ack/agent"
	"shardway/internal/clock"
	"shardway/node/disk"
	"shardway/node/eventlog"
	"shardway/node/metrics"
	"shardway/node/router"
	"shardway/proxy"
	"shardway/queue"
)

// When a process continues after a long stop, its handlers run immediately, and the agent only when it gets a processor. A reader of the
// clock sees the expired lease as early as the agent would: from its abort time on, computed from the published lease, and never before the
// lease ends.
func TestClockShowsExpiredLeaseBeforeTheAgentActs(t *testing.T) {
	timing := ack.DefaultTiming()
	clock := new(clock.Manual)
	clock.Advance(time.Hour)
	state, sent := ack.NewState(), uint64(0)
	a := &agent{
		self: "a", clock: clock, log: zerolog.Nop(), metrics: metrics.New(), changes: new(eventlog.MapChangeRecorder), router: router.New("a", 4, clock, nil),
		newestState: func() *ack.State { return state }, appChecked: func() bool { return true }, appHealthy: func() bool { return true }, appHealth: func() ack.AppHealth { return ack.AppHealth{} },
	}
	a.protocol = ackagent.New(ackagent.Options{
		Node: "a", Boot: 1, Pace: ack.DefaultPace(), Timing: timing,
		Gate: a, RaftTerm: func() uint64 { return 1 }, SendHeartbeat: func(hb ack.Heartbeat) { sent = hb.Number },
	}, clock.Precise())
	a.proxy = proxy.New(proxy.Options{Cluster: a.router, Queue: queue.New(queue.Options{})})
	a.overdue.report = func(error) {}
	grant := func() (cutBy time.Duration) {
		now := clock.Precise()
		a.protocol.HeartbeatNow()
		a.poll(a.BeginTurn())
		a.handleAnswer(a.BeginTurn(), ack.Answer{Term: 1, Number: sent, Boot: 1, HeartbeatNumber: sent, ServeFor: timing.Lease, AbortAfter: timing.Lease + timing.AbortDelay(), LeaseDuration: timing.Lease})
		a.poll(a.BeginTurn())
		return now + timing.Lease + timing.AbortDelay()
	}
	for _, stop := range []time.Duration{0, time.Nanosecond, time.Hour} {
		if a.poll(a.BeginTurn()); stop > 0 && !a.router.IsAbortOverdue() {
			t.Error("without a lease it is over")
		}
		cutBy := grant()
		if a.router.HasLease() && a.router.IsAbortOverdue() {
			t.Fatal("it is over under a lease")
		}
		clock.Advance(100 * time.Millisecond)
		if later := grant(); later != cutBy+100*time.Millisecond {
			t.Fatal("a lease was not renewed")
		}
		clock.Advance(cutBy - clock.Precise()) // the process is stopped: no goroutine reads the clock in the meantime
		if a.router.IsAbortOverdue() {
			t.Error("it is over by a lease that was renewed")
		}
		clock.Advance(100*time.Millisecond - 1)
		if a.router.IsAbortOverdue() {
			t.Error("it is over too soon")
		}
		clock.Advance(1 + stop)
		if !a.router.IsAbortOverdue() {
			t.Error("nobody has cut it, and it may go on")
		}
		a.overdue.abortedAt = 0
		if a.poll(a.BeginTurn()); a.overdue.abortedAt == 0 {
			t.Error("the agent does not cut when the clock says so")
		}
	}
}

// A hook call in progress reads the clock as well. So does a call that begins later, because the process was stopped after the agent had
// read the clock, also if the node gets a lease again and is stopped again. The call that reports lost shards to the app keeps its full
// time.
func TestCallsAskTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, goes := false, make(chan struct{})
		h := newHookRunner(doing(func(ctx context.Context, _ ackagent.HookCall) ackagent.HookResult {
			<-goes
			return ackagent.HookResult{Err: ctx.Err()}
		}), router.NewInFlight(), zerolog.Nop())
		h.ctx, h.isOverdue = t.Context(), func() bool { return over }
		again := func() { over = true }
		call := func(kind ackagent.HookKind, before func()) error {
			h.StartCall(ackagent.HookCall{Kind: kind, Seq: 7, Timeout: 4 * time.Second})
			synctest.Wait()
			before()
			goes <- struct{}{}
			r := <-h.results
			h.removeCall(r.Seq)
			return r.Err
		}
		if err := call(ackagent.HookRelease, func() {}); err != nil {
			t.Errorf("under a lease: %v", err)
		}
		if err := call(ackagent.HookRelease, again); err == nil {
			t.Error("what was shared out since may be written")
		}
		for _, kind := range []ackagent.HookKind{ackagent.HookRelease, ackagent.HookAcquire} {
			if err := call(kind, again); err == nil {
				t.Errorf("%v begun after that is not told", kind)
			}
			h.StartCall(ackagent.HookCall{Kind: kind, Seq: 7, Timeout: 4 * time.Second})
			over = false // the node has a lease
			synctest.Wait()
			again()
			goes <- struct{}{}
			if r := <-h.results; r.Err == nil {
				t.Errorf("%v begun before the lease that ended is not told", kind)
			}
			h.removeCall(7)
		}
		if err := call(ackagent.HookLost, func() {}); err != nil {
			t.Errorf("of what is lost: %v", err)
		}
		h.calls.Wait()
	})
}

// All readers use the node's own clock and the lease that the agent has published.
func TestNodeGivesCallsAndRequestsTheClock(t *testing.T) {
	dir, err := disk.NewMemory().Open("a")
	if err == nil {
		err = dir.SetCluster("5b0c0d4f7a9e1c33", 8)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	o, now := Options{Dir: dir, Shards: 8}, new(clock.Manual)
	now.Advance(time.Hour)
	o.Clock, o.Hooks = now, doing(func(ctx context.Context, _ ackagent.HookCall) ackagent.HookResult {
		return ackagent.HookResult{Err: ctx.Err()}
	})
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := n.agent.hooks
	for _, c := range []struct {
		cutBy time.Duration
		over  bool
	}{{time.Hour + 1, false}, {time.Hour, true}} {
		n.router.SetAbortTime(c.cutBy)
		h.StartCall(ackagent.HookCall{Kind: ackagent.HookAcquire, Seq: 7, Timeout: time.Minute})
		if r := <-h.results; (r.Err != nil) != c.over {
			t.Errorf("to be cut in %v: a call is told %v", c.cutBy-time.Hour, r.Err)
		}
		h.removeCall(7)
		if told := n.proxyOptions().LeaseExpired(); told != c.over {
			t.Errorf("to be cut in %v: a request is told %v", c.cutBy-time.Hour, told)
		}
	}
	h.calls.Wait()
}
