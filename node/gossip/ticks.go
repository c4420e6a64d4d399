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
	gossipInterval = 200 * time.Millisecond // what is new by streams, and to probes, does not wait for it
	probeInterval  = 500 * time.Millisecond
	// NoticesWithin is how long gossip usually takes to report a crashed node as failed:
	// one probe, and then a suspicion of four probe intervals (memberlist's SuspicionMult).
	FailureDetectionTime = 5 * time.Second
	// exchangeEvery is how often a node exchanges the whole state with another one, of up
	// to scaleFrom nodes; once more of it for each time that there are twice as many.
	exchangeInterval = 10 * time.Second
	scaleFrom        = 32
)

// What memberlist (v0.6.0) does every so often it does by timers of the runtime, each of which
// wakes a process at rest several times, and nothing in its configuration has it wait for
// something else. A version without these methods is not linked; that they take and return
// nothing is a test's business.

// unschedule ends memberlist's own timers. It does nothing the second time, as in Shutdown.
//
//go:linkname unschedule github.com/hashicorp/memberlist.(*Memberlist).deschedule
func unschedule(m *memberlist.Memberlist)

// gossipOnce tells a few others what is queued. It does not wait for them.
//
//go:linkname gossipOnce github.com/hashicorp/memberlist.(*Memberlist).gossip
func gossipOnce(m *memberlist.Memberlist)

// probeOnce asks the next member whether it is there, and waits for the answer. Only one call
// may run at a time.
//
//go:linkname probeOnce github.com/hashicorp/memberlist.(*Memberlist).probe
func probeOnce(m *memberlist.Memberlist)

// exchangeOnce exchanges the whole state with some member, and waits for it.
//
//go:linkname exchangeOnce github.com/hashicorp/memberlist.(*Memberlist).pushPull
func exchangeOnce(m *memberlist.Memberlist)

// tick has memberlist do by the Pulse what it did by its timers, until ctx ends or stop is called. A probe
// or an exchange that is under way then is not waited for: it ends by its own timeout, within
// seconds, as it always did.
func (g *Gossip) startTicks(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	p := g.o.Pulse
	if p == nil {
		p = new(clock.Pulse)
		wg.Go(func() { p.Run(ctx) })
	}
	m := g.serf.Memberlist()
	wg.Go(func() { runEvery(ctx, p, gossipInterval, func() { gossipOnce(m) }) })
	go runEvery(ctx, p, probeInterval, func() { probeOnce(m) })
	go runEvery(ctx, p, exchangeInterval, scaledDown(m.NumMembers, func() {
		exchangeOnce(m)
		notify(g.snapshot.changed) // by the clock perhaps, of which no event tells
	}))
	return func() {
		cancel()
		wg.Wait()
	}
}

// every calls f every d until ctx ends, and begins at random, so that nodes that were started
// together do not ask each other all at once.
func runEvery(ctx context.Context, p *clock.Pulse, d time.Duration, f func()) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(rand.N(d)): //nolint:gosec // it is no secret
	}
	b := p.Every(d)
	defer b.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.C:
		}
		if ctx.Err() != nil { // both had come
			return
		}
		f()
	}
}

// scaled returns what calls f each time while there are no more than scaleFrom nodes, and less
// often if there are: what an exchange costs grows with them, and so does their number.
func scaledDown(nodes func() int, f func()) func() {
	passed := 0
	return func() {
		if passed++; passed >= scale(nodes()) {
			passed = 0
			f()
		}
	}
}

// scale is memberlist's pushPullScale.
func scale(nodes int) int {
	if nodes <= scaleFrom {
		return 1
	}
	return 1 + int(math.Ceil(math.Log2(float64(nodes))-math.Log2(scaleFrom)))
}
