package node

import (
	"runtime"
	"testing"
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

// A late turn of a busy process is no pause. Once, with 3 000 clients at one node, the agent's turn was sometimes late by more than a
// quarter of the lease. This counted as a pause: the lease was void, although it was valid for hundreds of milliseconds more, and all
// requests waited for the next one. The processor time that the process has used in the meantime distinguishes the two cases.
func TestLateTurnOfABusyProcessIsNoPause(t *testing.T) {
	timing := ack.DefaultTiming()
	late := timing.Lease/4 + 5*time.Millisecond
	for name, c := range map[string]struct {
		used time.Duration
		want bool // the lease stays valid
	}{
		"paused": {used: 0}, "hardly there": {used: late/8 - time.Millisecond},
		"busy": {used: late / 8, want: true}, "busy with all it has": {used: 4 * late, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			clock, used := new(clock.Manual), time.Duration(0)
			clock.Advance(time.Hour)
			state, sent := ack.NewState(), uint64(0)
			a := &agent{
				self: "a", clock: clock, log: zerolog.Nop(), metrics: metrics.New(), changes: new(eventlog.MapChangeRecorder), router: router.New("a", 4, clock, nil),
				newestState: func() *ack.State { return state }, appChecked: func() bool { return true }, appHealthy: func() bool { return true }, appHealth: func() ack.AppHealth { return ack.AppHealth{} },
			}
			a.pauseDetector.cpuTime = func() (time.Duration, bool) { return used, true }
			a.protocol = ackagent.New(ackagent.Options{
				Node: "a", Boot: 1, Pace: ack.DefaultPace(), Timing: timing,
				Gate: a, RaftTerm: func() uint64 { return 1 }, SendHeartbeat: func(hb ack.Heartbeat) { sent = hb.Number },
			}, clock.Precise())
			a.proxy = proxy.New(proxy.Options{Cluster: a.router, Queue: queue.New(queue.Options{})})
			a.poll(a.BeginTurn())
			a.handleAnswer(a.BeginTurn(), ack.Answer{Term: 1, Number: 1, Boot: 1, HeartbeatNumber: sent, ServeFor: timing.Lease, AbortAfter: timing.DeadAfter, LeaseDuration: timing.Lease})
			a.poll(a.BeginTurn())
			pass := func(d, u time.Duration) {
				clock.Advance(d)
				used += u
				a.poll(a.BeginTurn())
			}
			pass(10*time.Millisecond, 0)
			pass(late, c.used)
			if got := a.router.HasLease(); got != c.want {
				t.Errorf("leased %v after a turn %v late, with %v of a processor, want %v", got, late, c.used, c.want)
			}
			if a.lastPause.Load() != nil {
				t.Error("a pause of a quarter of a lease is reported before it has cost the lease")
			}
			pass(timing.Lease, timing.Lease)
			if a.router.HasLease() {
				t.Error("the lease outlasts its end")
			}
			if stood := a.lastPause.Load() != nil; stood == c.want {
				t.Errorf("after the end of a lease that was not renewed, a pause is reported: %v, want %v", stood, !c.want)
			}
		})
	}
}

// The processor time is not read at each turn. Time that was used between two turns in quick succession does not count for the pause that
// follows.
func TestWhatWasUsedBeforeAPauseDoesNotCount(t *testing.T) {
	used := time.Duration(0)
	x := pauseDetector{cpuTime: func() (time.Duration, bool) { return used, true }}
	now := time.Hour
	pass := func(d, u time.Duration) (gap time.Duration, ran bool) {
		now += d
		used += u
		return x.beginTurn(now)
	}
	pass(0, 0)
	pass(cpuTimeInterval, 0)
	const together = cpuTimeInterval - 1
	most := together * time.Duration(runtime.NumCPU())
	pass(together, most)
	pause := minRunningShare * most
	if gap, ran := pass(pause, 0); gap != pause || ran {
		t.Errorf("after a pause of %v it is told %v, and that the process ran: %v", pause, gap, ran)
	}
	pass(together, most)
	if _, ran := pass(pause, pause/minRunningShare); !ran {
		t.Error("it ran for an eighth of the time since the last turn, and is taken for paused")
	}
}
