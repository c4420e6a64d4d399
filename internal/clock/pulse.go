package clock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// EveryBeat is what to ask Every for to be woken at each beat.
const EveryBeat = 10 * time.Millisecond

// pulseEvery is the time between two beats. The runtime waits for sockets in whole
// milliseconds, rounded down, and once more for what is left: a wait of a little more than
// ten ends at its first wake-up, one of exactly ten at its second.
const pulseEvery = EveryBeat + 60*time.Microsecond

// Pulse is the one timer of what a process does every so often, whether or not there is
// anything to do: each wake-up of an idle process costs more than what it is for, and one
// that ten goroutines share costs little more than one.
//
// It beats about every EveryBeat. The zero Pulse is ready, and beats while Run runs.
type Pulse struct {
	mu    sync.Mutex
	beats []*Beat
}

// Beat is what one goroutine has of a Pulse.
type Beat struct {
	// C gets one when it is time. It holds one at most: who comes late has missed some.
	C <-chan struct{}

	c     chan struct{} // C, cap 1
	p     *Pulse
	every time.Duration
	due   time.Time
}

// Every returns a Beat that comes every d, or up to half a beat of the Pulse earlier or
// later. Of those that come together the goroutine runs first that asked first: what the
// others do does not hold it up on a busy machine.
func (p *Pulse) Every(d time.Duration) *Beat {
	c := make(chan struct{}, 1)
	b := &Beat{C: c, c: c, p: p, every: d, due: time.Now().Add(d)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beats = append(p.beats, b)
	return b
}

// Stop ends the Beat. One may be left in C.
func (b *Beat) Stop() {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.p.beats = slices.DeleteFunc(b.p.beats, func(other *Beat) bool { return other == b })
}

// Run beats until ctx ends.
func (p *Pulse) Run(ctx context.Context) {
	t := time.NewTimer(pulseEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		p.beat(time.Now())
		t.Reset(pulseEvery)
	}
}

// beat wakes everybody whose time it is. Whom a goroutine wakes last runs next.
func (p *Pulse) beat(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range slices.Backward(p.beats) {
		if b.due.Sub(now) > pulseEvery/2 {
			continue
		}
		if b.due = b.due.Add(b.every); b.due.Before(now) { // it was held up
			b.due = now.Add(b.every)
		}
		select {
		case b.c <- struct{}{}:
		default:
		}
	}
}
