package node

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/proxy"
	"shardway/queue"
)

// Requests that were refused for want of a lease wait for the next table. A lease
// that ran out and came back within one step of the agent must make one too.
func TestLeaseThatComesBackMakesATable(t *testing.T) {
	timing, pace := ack.DefaultTiming(), ack.DefaultPace()
	clock := new(clock.Manual)
	clock.Advance(time.Hour)
	a := &agent{
		self: "a", pace: pace, clock: clock, log: zerolog.Nop(), metrics: newMetrics(),
		holder: ack.NewHolder(1, clock.Precise()), follower: ack.NewFollower("a", pace.DrainTimeout),
		router: newRouter("a", 4, false, clock, nil),
	}
	a.proxy = proxy.New(proxy.Options{Cluster: a.router, Room: queue.New(queue.Options{})})
	renew := func(beat uint64) {
		a.holder.Answered(clock.Precise(), 1, ack.Answer{Term: 1, Number: beat, Boot: 1, Beat: beat, Serve: timing.Lease, Cut: timing.DeadAfter, Lease: timing.Lease})
		a.publishLease()
	}
	generation := func() uint64 { return a.router.Table().Generation() }

	first := generation()
	a.holder.Beat(clock.Precise())
	renew(1)
	if !a.router.leased() || generation() != first+1 {
		t.Fatalf("leased %v with table %d after the first grant, want table %d", a.router.leased(), generation(), first+1)
	}
	for beat := uint64(2); beat <= 4; beat++ { // in time: nobody waits
		clock.Advance(100 * time.Millisecond)
		a.holder.Beat(clock.Precise())
		renew(beat)
	}
	if generation() != first+1 {
		t.Errorf("a renewal made table %d", generation())
	}
	for range 5 { // runs out between two steps
		clock.Advance(99 * time.Millisecond)
		a.holder.Tick(clock.Precise())
		a.publishLease()
	}
	a.holder.Beat(clock.Precise())
	clock.Advance(5 * time.Millisecond)
	if a.router.leased() {
		t.Fatal("the lease did not run out")
	}
	renew(5)
	if !a.router.leased() || a.inForce == 0 || generation() != first+2 {
		t.Errorf("leased %v, table %d after the gap, want table %d", a.router.leased(), generation(), first+2)
	}
}
