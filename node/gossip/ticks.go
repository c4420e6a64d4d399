package gossip

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/hashicorp/memberlist"

	"shardway/internal/clock"
)

const (
	gossipInterval = 200 * time.Millisecond // state exchanges and probes spread news without waiting for it
	probeInterval  = 500 * time.Millisecond
	// FailureDetectionTime is how long gossip usually takes to report a crashed node as failed: one
	// probe, then a suspicion of four probe intervals (SuspicionMult of memberlist).
	FailureDetectionTime = 5 * time.Second
	// exchangeInterval is the interval at which a node exchanges the whole state with another one in a
	// cluster of up to exchangeScaleThreshold nodes. It is extended by this interval whenever the nodes
	// double.
	exchangeInterval       = 10 * time.Second
	exchangeScaleThreshold = 32
)

// memberlist (v0.6.0) runs its periodic work by timers of the runtime, each of which wakes an idle
// process several times. No setting makes it use another ticker. A version of memberlist without these
// methods fails to link; a test verifies their signatures.

// unschedule stops the timers of memberlist. A second call, as in Shutdown, does nothing.
//
//go:linkname unschedule github.com/hashicorp/memberlist.(*Memberlist).deschedule
func unschedule(m *memberlist.Memberlist)

// gossipOnce sends queued messages to a few members. It does not wait for responses.
//
//go:linkname gossipOnce github.com/hashicorp/memberlist.(*Memberlist).gossip
func gossipOnce(m *memberlist.Memberlist)

// probeOnce probes the next member and waits for the response. Calls must not overlap.
//
//go:linkname probeOnce github.com/hashicorp/memberlist.(*Memberlist).probe
func probeOnce(m *memberlist.Memberlist)

// exchangeOnce exchanges the whole state with a random member and waits for it.
//
//go:linkname exchangeOnce github.com/hashicorp/memberlist.(*Memberlist).pushPull
func exchangeOnce(m *memberlist.Memberlist)

// startPeriodicWork runs the periodic work of memberlist by the scheduler until ctx ends or stop is called.
// It does not wait for a probe or an exchange in progress, which ends by its own timeout within
// seconds.
func (g *Gossip) startPeriodicWork(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	scheduler := g.options.Scheduler
	if scheduler == nil {
		scheduler = new(clock.Scheduler)
		wg.Go(func() { scheduler.Run(ctx) })
	}
	list := g.serf.Memberlist()
	wg.Go(func() { runEvery(ctx, scheduler, gossipInterval, func() { gossipOnce(list) }) })
	go runEvery(ctx, scheduler, probeInterval, func() { probeOnce(list) })
	go runEvery(ctx, scheduler, exchangeInterval, reduceRate(list.NumMembers, func() {
		exchangeOnce(list)
		notify(g.snapshot.changed) // the Lamport time may have changed, for which there is no event
	}))
	return func() {
		cancel()
		wg.Wait()
	}
}

// runEvery calls run at every interval until ctx ends. It starts after a random delay, so that
// nodes that were started together do not all send at once.
func runEvery(ctx context.Context, scheduler *clock.Scheduler, interval time.Duration, run func()) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(rand.N(interval)): //nolint:gosec // not security-relevant
	}
	ticker := scheduler.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if ctx.Err() != nil { // both channels were ready
			return
		}
		run()
	}
}

// reduceRate returns a function that calls run each time while there are up to exchangeScaleThreshold nodes,
// and less often with more nodes: both the cost of an exchange and the number of exchanges grow with the
// nodes.
func reduceRate(countNodes func() int, run func()) func() {
	skipped := 0
	return func() {
		if skipped++; skipped >= exchangeRateDivisor(countNodes()) {
			skipped = 0
			run()
		}
	}
}

// exchangeRateDivisor returns the divisor n: every n-th exchange takes place. It computes the
// same as pushPullScale of memberlist.
func exchangeRateDivisor(nodes int) int {
	if nodes <= exchangeScaleThreshold {
		return 1
	}
	return 1 + int(math.Ceil(math.Log2(float64(nodes))-math.Log2(exchangeScaleThreshold)))
}
