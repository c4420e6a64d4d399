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
	// cluster of up to scaleFrom nodes. It is extended by this interval whenever the nodes
	// double.
	exchangeInterval = 10 * time.Second
	scaleFrom        = 32
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

// startTicks runs the periodic work of memberlist by the scheduler until ctx ends or stop is called.
// It does not wait for a probe or an exchange in progress, which ends by its own timeout within
// seconds.
func (g *Gossip) startTicks(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	p := g.o.Scheduler
	if p == nil {
		p = new(clock.Scheduler)
		wg.Go(func() { p.Run(ctx) })
	}
	m := g.serf.Memberlist()
	wg.Go(func() { runEvery(ctx, p, gossipInterval, func() { gossipOnce(m) }) })
	go runEvery(ctx, p, probeInterval, func() { probeOnce(m) })
	go runEvery(ctx, p, exchangeInterval, scaledDown(m.NumMembers, func() {
		exchangeOnce(m)
		notify(g.snapshot.changed) // the Lamport time may have changed, for which there is no event
	}))
	return func() {
		cancel()
		wg.Wait()
	}
}

// runEvery calls f every d until ctx ends. It starts after a random delay, so that nodes that were
// started together do not all send at once.
func runEvery(ctx context.Context, p *clock.Scheduler, d time.Duration, f func()) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(rand.N(d)): //nolint:gosec // not security-relevant
	}
	b := p.NewTicker(d)
	defer b.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.C:
		}
		if ctx.Err() != nil { // both channels were ready
			return
		}
		f()
	}
}

// scaledDown returns a function that calls f each time while there are up to scaleFrom nodes, and
// less often with more nodes: both the cost of an exchange and the number of exchanges grow with
// the nodes.
func scaledDown(nodes func() int, f func()) func() {
	passed := 0
	return func() {
		if passed++; passed >= scale(nodes()) {
			passed = 0
			f()
		}
	}
}

// scale is pushPullScale of memberlist.
func scale(nodes int) int {
	if nodes <= scaleFrom {
		return 1
	}
	return 1 + int(math.Ceil(math.Log2(float64(nodes))-math.Log2(scaleFrom)))
}
