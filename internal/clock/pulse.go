package clock

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// EveryBeat is the shortest time between two ticks, and the interval while the process
	// is busy.
	EveryBeat = 10 * time.Millisecond
	// AtRest is the longest time between two ticks.
	AtRest = 10 * EveryBeat
	// nearEnough is how much earlier than the next due time the timer may fire without
	// being reset, because a reset is a system call. Beats that may come early accept at
	// least this much, see Within.
	nearEnough = EveryBeat / 20
)

// Pulse is the shared ticker for all periodic work of a process. In an idle process a
// wake-up costs more than the work it is for, and a wake-up shared by ten goroutines costs
// little more than one.
//
// A Pulse ticks when the first Beat must be delivered, at the latest AtRest after the
// previous tick, and every EveryBeat while the process is busy. The zero Pulse is ready to
// use and ticks while Run runs.
type Pulse struct {
	// Used returns the CPU time of the process. If it is nil, the process counts as busy
	// for the Beats of WhileBusy.
	Used func() (time.Duration, bool)
	// Kernel selects the timer of the kernel while the process is not busy, if there is
	// one. It must be false in a synctest bubble, whose time the kernel does not have.
	Kernel bool

	mu    sync.Mutex
	beats []*Beat
	alarm alarm     // nil while Run is not running
	last  time.Time // last tick, or start of Run
	next  time.Time // time for which the alarm is set; zero means not set
	woken bool      // settle will set the alarm after the woken goroutines have run
	load  load
}

// Beat is the subscription of one goroutine to a Pulse.
type Beat struct {
	// C receives a value when the Beat is due. Its capacity is 1, so a slow receiver misses
	// ticks.
	C <-chan struct{}

	c     chan struct{} // C, with capacity 1
	p     *Pulse
	kind  kind
	every time.Duration
	due   time.Time // zero means not due
	// early is how much before its due time a Beat of Asked may be delivered together with
	// another tick.
	early time.Duration
}

// kind is the condition under which a Beat is delivered.
type kind uint8

const (
	periodic  kind = iota + 1 // at a fixed interval
	onDemand                  // after a call of Within
	whileBusy                 // at a fixed interval while the process is busy
)

// Every returns a Beat with interval d. It may be delivered earlier or later by up to a
// quarter of d, and by up to half of AtRest. A Beat with an interval above AtRest/2 and up
// to AtRest has no fixed schedule in an idle process, but is delivered together with other
// ticks.
//
// Of the goroutines woken by one tick, the one that subscribed first runs first. The work
// of the others does not delay it on a busy machine.
func (p *Pulse) Every(d time.Duration) *Beat { return p.add(&Beat{kind: periodic, every: d}) }

// Asked returns a Beat that is delivered once after each call of Within. It may be
// delivered early, by up to a twentieth of the requested time and up to half of AtRest, if
// the Pulse ticks then.
func (p *Pulse) Asked() *Beat { return p.add(&Beat{kind: onDemand}) }

// WhileBusy returns a Beat that is delivered like one of Every while the process is busy,
// and otherwise not at all. It is for checks whether the runtime is overloaded.
func (p *Pulse) WhileBusy(d time.Duration) *Beat { return p.add(&Beat{kind: whileBusy, every: d}) }

func (p *Pulse) add(b *Beat) *Beat {
	c := make(chan struct{}, 1)
	b.C, b.c, b.p = c, c, p
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.every > 0 {
		b.due = time.Now().Add(b.every)
	}
	p.beats = append(p.beats, b)
	p.setLocked()
	return b
}

// Stop ends the subscription. C may still contain a value.
func (b *Beat) Stop() {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.p.beats = slices.DeleteFunc(b.p.beats, func(other *Beat) bool { return other == b })
}

// Within schedules a Beat of Asked for d from now, or for EveryBeat after the last tick if
// that is later. It replaces the earlier schedule.
func (b *Beat) Within(d time.Duration) {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.due = time.Now()
	if d > EveryBeat { // otherwise as soon as possible
		b.due, b.early = b.due.Add(d), min(d/20, AtRest/2)
	}
	b.p.setLocked()
}

// Run delivers ticks until ctx ends.
func (p *Pulse) Run(ctx context.Context) {
	a := p.start()
	defer p.stop()
	defer context.AfterFunc(ctx, a.stop)()
	for a.wait() {
		p.tick(time.Now(), true)
		runtime.Gosched()
		p.settle()
	}
}

// settle sets the alarm after the woken goroutines have run. Otherwise each of them would
// set it again.
func (p *Pulse) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.woken = false
	p.setLocked()
}

// Early ticks now if the next tick is due within half of AtRest and the last one was at
// least EveryBeat ago. A goroutine calls it after another event has woken it, which saves a
// wake-up of the process.
func (p *Pulse) Early() {
	if now := time.Now(); p.tickIsNear(now) {
		p.tick(now, false)
	}
}

func (p *Pulse) tickIsNear(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alarm != nil && !p.woken && now.Sub(p.last) >= EveryBeat && p.next.Sub(now) <= AtRest/2
}

func (p *Pulse) start() alarm {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.next = time.Now(), time.Time{}
	p.alarm = newAlarm(p.Kernel)
	p.setLocked()
	return p.alarm
}

func (p *Pulse) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alarm = nil
}

// setLocked sets the alarm for the next tick unless it is set already. p.mu must be held.
func (p *Pulse) setLocked() {
	if p.alarm == nil || p.woken {
		return
	}
	next, busy := p.last.Add(AtRest), p.busy(p.last)
	if busy {
		next = p.last.Add(EveryBeat)
	}
	for _, b := range p.beats {
		if b.kind == whileBusy || b.due.IsZero() {
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

// slack is how much earlier or later than its due time the Beat may be delivered.
func (b *Beat) slack() time.Duration {
	if b.every == 0 {
		return 0
	}
	return max(min(b.every/4, AtRest/2), EveryBeat/2)
}

// follows reports whether the Beat is scheduled relative to the actual ticks. Otherwise a
// Beat every 100 ms and heartbeats every 97 ms would always need separate wake-ups.
func (b *Beat) follows(now time.Time) bool {
	return b.kind == periodic && b.every > AtRest/2 && b.every <= AtRest && !b.p.busy(now)
}

// tick delivers all due Beats. The goroutine that is woken last runs next, so it wakes them
// in reverse order. settles reports that the caller will call settle; the alarm is set at
// once in a busy process, in which the woken goroutines may take long to run.
func (p *Pulse) tick(now time.Time, settles bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Used != nil {
		p.load.update(now, now.Sub(p.next), p.Used)
	}
	p.last, p.next, p.woken = now, time.Time{}, settles && !p.busy(now)
	for _, b := range slices.Backward(p.beats) {
		if b.advance(now) {
			select {
			case b.c <- struct{}{}:
			default:
			}
		}
	}
	p.setLocked()
}

// advance reports whether the Beat is due now, and schedules its next delivery.
func (b *Beat) advance(now time.Time) bool {
	if b.due.IsZero() || b.due.Sub(now) > max(b.slack(), b.early) || b.kind == whileBusy && !b.p.busy(now) {
		return false
	}
	if b.kind == onDemand {
		b.due = time.Time{}
		return true
	}
	// A Beat for which the process was woken alone is scheduled from now on relative to
	// this time. Its times then converge with those of a Beat that has a schedule of its
	// own. Otherwise the two would always need separate wake-ups.
	alone := b.every > AtRest && now.Sub(b.due) >= b.slack()
	if b.due = b.due.Add(b.every); alone || b.follows(now) || b.due.Before(now) { // or the tick was late
		b.due = now.Add(b.every)
	}
	return true
}

// busy reports whether the process counts as busy for the Beats of WhileBusy.
func (p *Pulse) busy(now time.Time) bool {
	if p.Used == nil {
		return slices.ContainsFunc(p.beats, func(b *Beat) bool { return b.kind == whileBusy })
	}
	return p.load.busy(now)
}
