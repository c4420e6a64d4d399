package clock

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// EveryBeat is the shortest time between two beats, and the time between them while
	// the process is busy.
	EveryBeat = 10 * time.Millisecond
	// AtRest is the longest time between two beats.
	AtRest = 10 * EveryBeat
	// nearEnough is by how much a timer may end before the first beat is due: to set it anew is
	// a system call. What may come early does so by as much at least, see Within.
	nearEnough = EveryBeat / 20
)

// Pulse is the one timer of what a process does every so often, whether or not there is
// anything to do: each wake-up of an idle process costs more than what it is for, and one
// that ten goroutines share costs little more than one.
//
// It beats when the first of them has to be woken, AtRest after the last beat at the
// latest, and every EveryBeat while the process is busy. The zero Pulse is ready, and
// beats while Run runs.
type Pulse struct {
	// Used returns how much processor time the process has used; nil: nobody knows, and
	// it counts as busy for those who look only then.
	Used func() (time.Duration, bool)
	// Kernel has the kernel's timer wake the process while it is not busy, where there is
	// one: the time of a bubble is none that the kernel knows.
	Kernel bool

	mu    sync.Mutex
	beats []*Beat
	alarm alarm     // nil: Run does not run
	last  time.Time // the last beat, or when Run began
	next  time.Time // the one that the timer is set for; zero: it is not set
	woken bool      // those that Run has woken say when they want to be again before it is
	load  load
}

// Beat is what one goroutine has of a Pulse.
type Beat struct {
	// C gets one when it is time. It holds one at most: who comes late has missed some.
	C <-chan struct{}

	c     chan struct{} // C, cap 1
	p     *Pulse
	kind  kind
	every time.Duration
	due   time.Time // zero: nothing is due
	// early is by how much one of Asked comes before it is due, with another beat.
	early time.Duration
}

// kind says when a Beat comes.
type kind uint8

const (
	often  kind = iota + 1 // every so often
	asked                  // when it was asked for
	loaded                 // every so often while the process is busy
)

// Every returns a Beat that comes every d, or up to half the time between two beats of the
// Pulse earlier or later, a quarter of d at most. One of more than half of AtRest, and AtRest at
// most, keeps to no time of its own at rest, but to that of others. Of those that come together the
// goroutine runs first that asked first: what the others do does not hold it up on a busy
// machine.
func (p *Pulse) Every(d time.Duration) *Beat { return p.add(&Beat{kind: often, every: d}) }

// Asked returns a Beat that comes once for each time that it was asked for by Within, or up to
// a twentieth of that time earlier if the Pulse beats then, and half of AtRest at most.
func (p *Pulse) Asked() *Beat { return p.add(&Beat{kind: asked}) }

// WhileBusy returns a Beat that comes as one of Every while the process is busy, and else
// not at all: for what looks whether the runtime is behind.
func (p *Pulse) WhileBusy(d time.Duration) *Beat { return p.add(&Beat{kind: loaded, every: d}) }

func (p *Pulse) add(b *Beat) *Beat {
	c := make(chan struct{}, 1)
	b.C, b.c, b.p = c, c, p
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.every > 0 {
		b.due = time.Now().Add(b.every)
	}
	p.beats = append(p.beats, b)
	p.set()
	return b
}

// Stop ends the Beat. One may be left in C.
func (b *Beat) Stop() {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.p.beats = slices.DeleteFunc(b.p.beats, func(other *Beat) bool { return other == b })
}

// Within has a Beat of Asked come within d, or EveryBeat after the last beat of the
// Pulse if that is later. It holds until it comes, and takes the place of what was said before.
func (b *Beat) Within(d time.Duration) {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.due = time.Now()
	if d > EveryBeat { // else as soon as it can
		b.due, b.early = b.due.Add(d), min(d/20, AtRest/2)
	}
	b.p.set()
}

// Run beats until ctx ends.
func (p *Pulse) Run(ctx context.Context) {
	a := p.begin()
	defer p.end()
	defer context.AfterFunc(ctx, a.stop)()
	for a.wait() {
		p.beat(time.Now(), true)
		runtime.Gosched()
		p.settle()
	}
}

// settle sets the alarm once those have run that were woken: each of them would set it anew.
func (p *Pulse) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.woken = false
	p.set()
}

// Early has the Pulse beat now if it would within half of AtRest, and EveryBeat has passed
// since it last did: for who was woken by something else, so that the process is not for this.
func (p *Pulse) Early() {
	if now := time.Now(); p.nearly(now) {
		p.beat(now, false)
	}
}

func (p *Pulse) nearly(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alarm != nil && !p.woken && now.Sub(p.last) >= EveryBeat && p.next.Sub(now) <= AtRest/2
}

func (p *Pulse) begin() alarm {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.next = time.Now(), time.Time{}
	p.alarm = newAlarm(p.Kernel)
	p.set()
	return p.alarm
}

func (p *Pulse) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alarm = nil
}

// set sets the alarm for the next beat, if it is not.
func (p *Pulse) set() {
	if p.alarm == nil || p.woken {
		return
	}
	next, busy := p.last.Add(AtRest), p.busy(p.last)
	if busy {
		next = p.last.Add(EveryBeat)
	}
	for _, b := range p.beats {
		if b.kind == loaded || b.due.IsZero() {
			continue
		}
		if due := b.due.Add(b.slack()); due.Before(next) {
			next = due
		}
	}
	if least := p.last.Add(EveryBeat); next.Before(least) {
		next = least
	}
	if later := next.Sub(p.next); later >= 0 && later <= nearEnough {
		return
	}
	p.next = next
	p.alarm.set(time.Until(next), busy)
}

// slack is how much earlier or later than it is due the Beat may come.
func (b *Beat) slack() time.Duration {
	if b.every == 0 {
		return 0
	}
	return max(min(b.every/4, AtRest/2), EveryBeat/2)
}

// follows reports whether the Beat keeps to the time of others: what comes every 100 ms to that
// of heartbeats which leave every 97, from which it would else be waited for apart, always.
func (b *Beat) follows(now time.Time) bool {
	return b.kind == often && b.every > AtRest/2 && b.every <= AtRest && !b.p.busy(now)
}

// beat wakes everybody whose time it is. Whom a goroutine wakes last runs next. Who calls settle
// says so, unless it would wait for others to run that have much to do.
func (p *Pulse) beat(now time.Time, settles bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Used != nil {
		p.load.look(now, now.Sub(p.next), p.Used)
	}
	p.last, p.next, p.woken = now, time.Time{}, settles && !p.busy(now)
	for _, b := range slices.Backward(p.beats) {
		if b.comes(now) {
			select {
			case b.c <- struct{}{}:
			default:
			}
		}
	}
	p.set()
}

// comes reports whether it is the Beat's time, and notes when it is again.
func (b *Beat) comes(now time.Time) bool {
	if b.due.IsZero() || b.due.Sub(now) > max(b.slack(), b.early) || b.kind == loaded && !b.p.busy(now) {
		return false
	}
	if b.kind == asked {
		b.due = time.Time{}
		return true
	}
	// Who was waited for alone comes at that time from now on: so it draws near to what has
	// a time of its own, and is waited for with that. Else each of the two had its own
	// beats for ever.
	alone := b.every > AtRest && now.Sub(b.due) >= b.slack()
	if b.due = b.due.Add(b.every); alone || b.follows(now) || b.due.Before(now) { // or it was held up
		b.due = now.Add(b.every)
	}
	return true
}

// busy reports whether it counts as such, to those who look only then.
func (p *Pulse) busy(now time.Time) bool {
	if p.Used == nil {
		return slices.ContainsFunc(p.beats, func(b *Beat) bool { return b.kind == loaded })
	}
	return p.load.busy(now)
}
