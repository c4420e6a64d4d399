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
	"shardway/node/eventlog"
	"shardway/node/metrics"
	"shardway/node/router"
	"shardway/proxy"
	"shardway/queue"
)

// A handler in this process that continues after its lease was lost and its request was aborted would run together with the next owner
// (G1): the process must end before dead-after is over. A handler that returns, or whose node has a lease again, does not end the process.
// Neither does an app in another process, whose requests end with their connections.
func TestHandlerThatOutlivesItsLease(t *testing.T) {
	timing, pace := ack.DefaultTiming(), ack.DefaultPace()
	for _, tc := range []struct {
		name             string
		inside, returns  bool
		renewed, overdue bool
		hook             bool // a hook call, not a handler: its shard is released or acquired
	}{
		{"goes on", true, false, false, true, false},
		{"returns when it is told to", true, true, false, false, false},
		{"goes on under a new lease", true, false, true, false, false},
		{"another process", false, false, false, false, false},
		{"a hook goes on", true, false, false, true, true},
		{"a hook returns when it is told to", true, true, false, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			clock := new(clock.Manual)
			clock.Advance(time.Hour)
			told := time.Duration(0)
			state, sent := ack.NewState(), uint64(0)
			a := &agent{
				self: "a", clock: clock, log: zerolog.Nop(), metrics: metrics.New(), changes: new(eventlog.MapChangeRecorder), router: router.New("a", 4, clock, nil),
				newestState: func() *ack.State { return state }, appChecked: func() bool { return true }, appHealthy: func() bool { return true }, appHealth: func() ack.AppHealth { return ack.AppHealth{} },
			}
			a.protocol = ackagent.New(ackagent.Options{
				Node: "a", Boot: 1, Pace: pace, Timing: timing,
				Gate: a, RaftTerm: func() uint64 { return 1 }, SendHeartbeat: func(hb ack.Heartbeat) { sent = hb.Number },
			}, clock.Precise())
			if tc.inside {
				a.overdue.report = func(error) { told = clock.Precise() }
			}
			a.proxy = proxy.New(proxy.Options{Cluster: a.router, Queue: queue.New(queue.Options{})})
			grant := func() {
				a.protocol.HeartbeatNow()
				a.poll(a.BeginTurn())
				a.handleAnswer(a.BeginTurn(), ack.Answer{Term: 1, Number: sent, Boot: 1, HeartbeatNumber: sent, ServeFor: timing.Lease, AbortAfter: timing.Lease + timing.AbortDelay(), LeaseDuration: timing.Lease})
			}
			every, began := 10*time.Millisecond, clock.Precise()
			grant()
			var release func()
			if tc.hook {
				a.hooks = newHookRunner(nil, a.router.InFlight, zerolog.Nop())
				a.hooks.cancels[1] = func() {}
				release = func() { a.hooks.removeCall(1) }
			} else {
				release = a.router.InFlight.Begin(0)
			}
			for clock.Precise() < began+timing.DeadAfter {
				clock.Advance(every)
				a.poll(a.BeginTurn())
				cut := a.overdue.abortedAt != 0
				if cut && tc.returns {
					release()
					tc.returns = false
				}
				if cut && tc.renewed {
					grant()
				}
			}
			if (told != 0) != tc.overdue {
				t.Fatalf("told: %v, want %v", told != 0, tc.overdue)
			}
			// A tenth is the allowance for clock differences: this clock may be the slow one.
			if tc.overdue && told-began > timing.DeadAfter*10/11 {
				t.Errorf("told %v after the grant: another node may have the shard at %v by a faster clock", told-began, timing.DeadAfter)
			}
		})
	}
}

// An app in another process ends its requests with their connections, so no guard watches it.
func TestNoGuardWatchesAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		var o overdueDetector
		o.recordAbort(time.Second)
		o.check(time.Hour, time.Second, false, router.NewInFlight(), 1)
		began := time.Now()
		o.waitFor(over, time.Second, "requests", func() { time.Sleep(time.Minute) })
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %v, want as long as they run", took)
		}
	})
}
