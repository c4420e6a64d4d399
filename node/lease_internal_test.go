package node

import (
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

// Requests that were refused for lack of a lease wait for the next routing table. A lease that expires and returns within one step of the
// agent must also produce one.
func TestLeaseThatComesBackMakesATable(t *testing.T) {
	timing, pace := ack.DefaultTiming(), ack.DefaultPace()
	clock := new(clock.Manual)
	clock.Advance(time.Hour)
	state, sent := ack.NewState(), uint64(0)
	a := &agent{
		self: "a", clock: clock, log: zerolog.Nop(), metrics: metrics.New(), changes: new(eventlog.MapChangeRecorder), router: router.New("a", 4, clock, nil),
		newestState: func() *ack.State { return state }, appChecked: func() bool { return true }, appHealthy: func() bool { return true }, appHealth: func() ack.AppHealth { return ack.AppHealth{} },
	}
	a.protocol = ackagent.New(ackagent.Options{
		Node: "a", Boot: 1, Pace: pace, Timing: timing,
		Gate: a, RaftTerm: func() uint64 { return 1 }, SendHeartbeat: func(hb ack.Heartbeat) { sent = hb.Number },
	}, clock.Precise())
	a.proxy = proxy.New(proxy.Options{Cluster: a.router, Queue: queue.New(queue.Options{})})
	beat := func() uint64 {
		a.protocol.HeartbeatNow()
		a.poll(a.BeginTurn())
		return sent
	}
	renew := func(beat uint64) {
		a.handleAnswer(a.BeginTurn(), ack.Answer{Term: 1, Number: beat, Boot: 1, HeartbeatNumber: beat, ServeFor: timing.Lease, AbortAfter: timing.DeadAfter, LeaseDuration: timing.Lease})
		a.poll(a.BeginTurn())
	}
	generation := func() uint64 { return a.router.Table().Generation() }

	a.poll(a.BeginTurn())
	first := generation()
	renew(beat())
	if !a.router.HasLease() || generation() != first+1 {
		t.Fatalf("leased %v with table %d after the first grant, want table %d", a.router.HasLease(), generation(), first+1)
	}
	for range 3 { // in time: no request waits
		clock.Advance(100 * time.Millisecond)
		renew(beat())
	}
	if generation() != first+1 {
		t.Errorf("a renewal made table %d", generation())
	}
	for range 4 { // expires between two steps
		clock.Advance(99 * time.Millisecond)
		a.poll(a.BeginTurn())
	}
	clock.Advance(99 * time.Millisecond)
	last := beat()
	clock.Advance(5 * time.Millisecond)
	if a.router.HasLease() {
		t.Fatal("the lease did not run out")
	}
	renew(last)
	if !a.router.HasLease() || generation() != first+2 {
		t.Errorf("leased %v, table %d after the gap, want table %d", a.router.HasLease(), generation(), first+2)
	}
}
