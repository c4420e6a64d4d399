package clock

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// MinInterval is the shortest time between two ticks, and the interval while the process
	// is busy.
	MinInterval = 10 * time.Millisecond
	// MaxInterval is the longest time between two ticks.
	MaxInterval = 10 * MinInterval
	// alarmTolerance is how much earlier than the next due time the timer may fire without
	// being reset, because a reset is a system call. Tickers that may come early accept at
	// least this much, see TickWithin.
	alarmTolerance = MinInterval / 20
)

// Scheduler is the shared ticker for all periodic work of a process. In an idle process a
// wake-up costs more than the work it is for, and a wake-up shared by ten goroutines costs
// little more than one.
//
// A Scheduler ticks when the first Ticker must be delivered, at the latest MaxInterval after the
// previous tick, and every MinInterval while the process is busy. The zero Scheduler is ready to
// use and ticks while Run runs.
type Scheduler struct {
	// CPUTime returns the CPU time of the process. If it is nil, the process counts as busy
	// for the Tickers of NewBusyTicker.
	CPUTime func() (time.Duration, bool)
	// UseKernelTimer selects the timer of the kernel while the process is not busy, if there is
	// one. It must be false in a synctest bubble, whose time the kernel does not have.
	UseKernelTimer bool

	mu            sync.Mutex
	tickers       []*Ticker
	alarm         alarm     // nil while Run is not running
	lastTick      time.Time // last tick, or start of Run
	nextTick      time.Time // time for which the alarm is set; zero means not set
	settlePending bool      // settle will set the alarm after the woken goroutines have run
	load          load
}

// Ticker is the subscription of one goroutine to a Scheduler.
type Ticker struct {
	// C receives a value when the Ticker is due. Its capacity is 1, so a slow receiver misses
	// ticks.
	C <-chan struct{}

	c         chan struct{} // C, with capacity 1
	scheduler *Scheduler
	kind      kind
	interval  time.Duration
	due       time.Time // zero means not due
	// maxEarly is how much before its due time a Ticker of NewOnDemandTicker may be delivered together with
	// another tick.
	maxEarly time.Duration
}

// kind is the condition under which a Ticker is delivered.
type kind uint8

const (
	periodic  kind = iota + 1 // at a fixed interval
	onDemand                  // after a call of TickWithin
	whileBusy                 // at a fixed interval while the process is busy
)

// NewTicker returns a Ticker with interval d. It may be delivered earlier or later by up to a
// quarter of d, and by up to half of MaxInterval. A Ticker with an interval above MaxInterval/2 and up
// to MaxInterval has no fixed schedule in an idle process, but is delivered together with other
// ticks.
//
// Of the goroutines woken by one tick, the one that subscribed first runs first. The work
// of the others does not delay it on a busy machine.
func (s *Scheduler) NewTicker(d time.Duration) *Ticker {
	return s.addTicker(&Ticker{kind: periodic, interval: d})
}

// NewOnDemandTicker returns a Ticker that is delivered once after each call of TickWithin. It may be
// delivered early, by up to a twentieth of the requested time and up to half of MaxInterval, if
// the Scheduler ticks then.
func (s *Scheduler) NewOnDemandTicker() *Ticker { return s.addTicker(&Ticker{kind: onDemand}) }

// NewBusyTicker returns a Ticker that is delivered like one of NewTicker while the process is busy,
// and otherwise not at all. It is for checks whether the runtime is overloaded.
func (s *Scheduler) NewBusyTicker(d time.Duration) *Ticker {
	return s.addTicker(&Ticker{kind: whileBusy, interval: d})
}

func (s *Scheduler) addTicker(b *Ticker) *Ticker {
	c := make(chan struct{}, 1)
	b.C, b.c, b.scheduler = c, c, s
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.interval > 0 {
		b.due = time.Now().Add(b.interval)
	}
	s.tickers = append(s.tickers, b)
	s.setAlarmLocked()
	return b
}

// Stop ends the subscription. C may still contain a value.
func (t *Ticker) Stop() {
	t.scheduler.mu.Lock()
	defer t.scheduler.mu.Unlock()
	t.scheduler.tickers = slices.DeleteFunc(t.scheduler.tickers, func(other *Ticker) bool { return other == t })
}

// TickWithin schedules a Ticker of NewOnDemandTicker for d from now, or for MinInterval after the last tick if
// that is later. It replaces the earlier schedule.
func (t *Ticker) TickWithin(d time.Duration) {
	t.scheduler.mu.Lock()
	defer t.scheduler.mu.Unlock()
	t.due = time.Now()
	if d > MinInterval { // otherwise as soon as possible
		t.due, t.maxEarly = t.due.Add(d), min(d/20, MaxInterval/2)
	}
	t.scheduler.setAlarmLocked()
}

// Run delivers ticks until ctx ends.
func (s *Scheduler) Run(ctx context.Context) {
	a := s.startAlarm()
	defer s.removeAlarm()
	defer context.AfterFunc(ctx, a.stop)()
	for a.wait() {
		s.tick(time.Now(), true)
		runtime.Gosched()
		s.setAlarmAfterTick()
	}
}

// setAlarmAfterTick sets the alarm after the woken goroutines have run. Otherwise each of them would
// set it again.
func (s *Scheduler) setAlarmAfterTick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settlePending = false
	s.setAlarmLocked()
}

// TickEarly ticks now if the next tick is due within half of MaxInterval and the last one was at
// least MinInterval ago. A goroutine calls it after another event has woken it, which saves a
// wake-up of the process.
func (s *Scheduler) TickEarly() {
	if now := time.Now(); s.tickIsNear(now) {
		s.tick(now, false)
	}
}

func (s *Scheduler) tickIsNear(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.alarm != nil && !s.settlePending && now.Sub(s.lastTick) >= MinInterval && s.nextTick.Sub(now) <= MaxInterval/2
}

func (s *Scheduler) startAlarm() alarm {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastTick, s.nextTick = time.Now(), time.Time{}
	s.alarm = newAlarm(s.UseKernelTimer)
	s.setAlarmLocked()
	return s.alarm
}

func (s *Scheduler) removeAlarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarm = nil
}

// setAlarmLocked sets the alarm for the next tick unless it is set already. p.mu must be held.
func (s *Scheduler) setAlarmLocked() {
	if s.alarm == nil || s.settlePending {
		return
	}
	next, busy := s.lastTick.Add(MaxInterval), s.isBusy(s.lastTick)
	if busy {
		next = s.lastTick.Add(MinInterval)
	}
	for _, b := range s.tickers {
		if b.kind == whileBusy || b.due.IsZero() {
			continue
		}
		if due := b.due.Add(b.tolerance()); due.Before(next) {
			next = due
		}
	}
	if least := s.lastTick.Add(MinInterval); next.Before(least) {
		next = least
	}
	if later := next.Sub(s.nextTick); later >= 0 && later <= alarmTolerance {
		return
	}
	s.nextTick = next
	s.alarm.set(time.Until(next), busy)
}

// tolerance is how much earlier or later than its due time the Ticker may be delivered.
func (t *Ticker) tolerance() time.Duration {
	if t.interval == 0 {
		return 0
	}
	return max(min(t.interval/4, MaxInterval/2), MinInterval/2)
}

// followsActualTicks reports whether the Ticker is scheduled relative to the actual ticks. Otherwise a
// Ticker every 100 ms and heartbeats every 97 ms would always need separate wake-ups.
func (t *Ticker) followsActualTicks(now time.Time) bool {
	return t.kind == periodic && t.interval > MaxInterval/2 && t.interval <= MaxInterval && !t.scheduler.isBusy(now)
}

// tick delivers all due Tickers. The goroutine that is woken last runs next, so it wakes them
// in reverse order. settles reports that the caller will call settle; the alarm is set at
// once in a busy process, in which the woken goroutines may take long to run.
func (s *Scheduler) tick(now time.Time, settles bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.CPUTime != nil {
		s.load.update(now, now.Sub(s.nextTick), s.CPUTime)
	}
	s.lastTick, s.nextTick, s.settlePending = now, time.Time{}, settles && !s.isBusy(now)
	for _, b := range slices.Backward(s.tickers) {
		if b.takeIfDue(now) {
			select {
			case b.c <- struct{}{}:
			default:
			}
		}
	}
	s.setAlarmLocked()
}

// takeIfDue reports whether the Ticker is due now, and schedules its next delivery.
func (t *Ticker) takeIfDue(now time.Time) bool {
	if t.due.IsZero() || t.due.Sub(now) > max(t.tolerance(), t.maxEarly) || t.kind == whileBusy && !t.scheduler.isBusy(now) {
		return false
	}
	if t.kind == onDemand {
		t.due = time.Time{}
		return true
	}
	// A Ticker for which the process was woken alone is scheduled from now on relative to
	// this time. Its times then converge with those of a Ticker that has a schedule of its
	// own. Otherwise the two would always need separate wake-ups.
	alone := t.interval > MaxInterval && now.Sub(t.due) >= t.tolerance()
	if t.due = t.due.Add(t.interval); alone || t.followsActualTicks(now) || t.due.Before(now) { // or the tick was late
		t.due = now.Add(t.interval)
	}
	return true
}

// isBusy reports whether the process counts as busy for the Tickers of NewBusyTicker.
func (s *Scheduler) isBusy(now time.Time) bool {
	if s.CPUTime == nil {
		return slices.ContainsFunc(s.tickers, func(b *Ticker) bool { return b.kind == whileBusy })
	}
	return s.load.isBusy(now)
}
