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

// Scheduler is the shared ticker for all periodic work of a process. In an idle process, a wake-up
// costs more than the work it is for, and a wake-up shared by ten goroutines costs little more than
// a single one.
//
// A Scheduler ticks when the first Ticker must be delivered, no later than MaxInterval after the
// previous tick, and every MinInterval while the process is busy. The zero Scheduler is ready to
// use, and ticks while Run is running.
type Scheduler struct {
	// CPUTime returns the CPU time of the process. If it is nil, the process is treated as busy for
	// the Tickers of NewBusyTicker.
	CPUTime func() (time.Duration, bool)
	// UseKernelTimer selects the timer of the kernel while the process is not busy, if there is
	// one. It must be false in a synctest bubble, whose time the kernel does not have.
	UseKernelTimer bool

	// mu protects the following fields, and the field due of each Ticker.
	mu            sync.Mutex
	tickers       []*Ticker // in order of subscription
	alarm         alarm     // nil while Run is not running
	lastTick      time.Time // last tick, or start of Run
	nextTick      time.Time // time for which the alarm is set; zero means not set
	alarmDeferred bool      // setAlarmAfterTick will set the alarm after the woken goroutines have run
	cpuLoad       cpuLoad
}

// Ticker is the subscription of one goroutine to a Scheduler.
type Ticker struct {
	// C receives a value when the Ticker is due. Its capacity is 1, so a slow receiver misses
	// ticks.
	C <-chan struct{}

	ch        chan struct{} // C, with capacity 1
	scheduler *Scheduler
	kind      tickerKind
	interval  time.Duration // zero for a Ticker of NewOnDemandTicker
	due       time.Time     // when to deliver it; zero means that it is not scheduled
	// maxEarliness is how much before its due time a Ticker of NewOnDemandTicker may be delivered
	// together with another tick.
	maxEarliness time.Duration
}

// tickerKind is the condition under which a Ticker is delivered.
type tickerKind uint8

const (
	periodic  tickerKind = iota + 1 // at a fixed interval
	onDemand                        // after a call of TickWithin
	whileBusy                       // at a fixed interval while the process is busy
)

// NewTicker returns a Ticker with the given interval. It may be delivered earlier or later by up to a
// quarter of the interval, and by up to half of MaxInterval. A Ticker with an interval above
// MaxInterval/2 and up to MaxInterval has no fixed schedule in an idle process, but is delivered
// together with other ticks.
//
// Of the goroutines woken by one tick, the one that subscribed first runs first, so that the work
// of the others does not delay it on a busy machine.
func (s *Scheduler) NewTicker(interval time.Duration) *Ticker {
	return s.addTicker(&Ticker{kind: periodic, interval: interval})
}

// NewOnDemandTicker returns a Ticker that is delivered once after each call of TickWithin. It may be
// delivered early, by up to a twentieth of the requested time and up to half of MaxInterval, if
// the Scheduler ticks then.
func (s *Scheduler) NewOnDemandTicker() *Ticker { return s.addTicker(&Ticker{kind: onDemand}) }

// NewBusyTicker returns a Ticker that ticks like one from NewTicker while the process is busy, and not at all
// otherwise. It serves to detect that the runtime is overloaded.
func (s *Scheduler) NewBusyTicker(interval time.Duration) *Ticker {
	return s.addTicker(&Ticker{kind: whileBusy, interval: interval})
}

// addTicker adds a Ticker to the Scheduler, and schedules its first delivery if it has an interval.
func (s *Scheduler) addTicker(ticker *Ticker) *Ticker {
	ch := make(chan struct{}, 1)
	ticker.C, ticker.ch, ticker.scheduler = ch, ch, s
	s.mu.Lock()
	defer s.mu.Unlock()
	if ticker.interval > 0 {
		ticker.due = time.Now().Add(ticker.interval)
	}
	s.tickers = append(s.tickers, ticker)
	s.setAlarmLocked()
	return ticker
}

// Stop ends the subscription. C may still contain a value.
func (t *Ticker) Stop() {
	t.scheduler.mu.Lock()
	defer t.scheduler.mu.Unlock()
	t.scheduler.tickers = slices.DeleteFunc(t.scheduler.tickers, func(other *Ticker) bool { return other == t })
}

// TickWithin schedules a Ticker of NewOnDemandTicker for the given delay from now, or for
// MinInterval after the last tick if that is later. It replaces the previous schedule.
func (t *Ticker) TickWithin(delay time.Duration) {
	t.scheduler.mu.Lock()
	defer t.scheduler.mu.Unlock()
	t.due = time.Now() // as soon as possible
	if delay > MinInterval {
		t.due = t.due.Add(delay)
		t.maxEarliness = min(delay/20, MaxInterval/2)
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

// setAlarmAfterTick sets the alarm once the woken goroutines have run, because each of them would
// otherwise set it again.
func (s *Scheduler) setAlarmAfterTick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarmDeferred = false
	s.setAlarmLocked()
}

// TickEarly ticks now if the next tick is due within half of MaxInterval and the last one was at
// least MinInterval ago. Calling it from a goroutine that another event has woken saves a wake-up
// of the process.
func (s *Scheduler) TickEarly() {
	if now := time.Now(); s.tickIsNear(now) {
		s.tick(now, false)
	}
}

// tickIsNear reports whether TickEarly should tick at the given time.
func (s *Scheduler) tickIsNear(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alarm == nil || s.alarmDeferred {
		return false
	}
	return now.Sub(s.lastTick) >= MinInterval && s.nextTick.Sub(now) <= MaxInterval/2
}

// startAlarm creates and sets the alarm at the start of Run.
func (s *Scheduler) startAlarm() alarm {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastTick, s.nextTick = time.Now(), time.Time{}
	s.alarm = newAlarm(s.UseKernelTimer)
	s.setAlarmLocked()
	return s.alarm
}

// removeAlarm removes the alarm at the end of Run.
func (s *Scheduler) removeAlarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarm = nil
}

// setAlarmLocked sets the alarm for the next tick unless it is set already. s.mu must be held.
func (s *Scheduler) setAlarmLocked() {
	if s.alarm == nil || s.alarmDeferred {
		return
	}
	busy := s.isBusy(s.lastTick)
	next := s.nextTickLocked(busy)
	postponement := next.Sub(s.nextTick)
	isSetCloseEnough := postponement >= 0 && postponement <= alarmTolerance
	if isSetCloseEnough {
		return
	}
	s.nextTick = next
	s.alarm.set(time.Until(next), busy)
}

// nextTickLocked returns the time of the next tick. It is between MinInterval and MaxInterval after the
// last one. s.mu must be held.
func (s *Scheduler) nextTickLocked(busy bool) time.Time {
	earliest := s.lastTick.Add(MinInterval)
	if busy {
		return earliest
	}
	next := s.lastTick.Add(MaxInterval)
	for _, ticker := range s.tickers {
		if ticker.kind == whileBusy || ticker.due.IsZero() {
			continue
		}
		latest := ticker.due.Add(ticker.tolerance())
		if latest.Before(next) {
			next = latest
		}
	}
	if next.Before(earliest) {
		return earliest
	}
	return next
}

// tolerance returns how much earlier or later than its due time the Ticker may be delivered.
func (t *Ticker) tolerance() time.Duration {
	if t.interval == 0 {
		return 0
	}
	return max(min(t.interval/4, MaxInterval/2), MinInterval/2)
}

// followsActualTicks reports whether the Ticker is scheduled relative to the actual ticks. Otherwise a
// Ticker every 100 ms and heartbeats every 97 ms would always need separate wake-ups.
func (t *Ticker) followsActualTicks(now time.Time) bool {
	isNearMaxInterval := t.interval > MaxInterval/2 && t.interval <= MaxInterval
	return t.kind == periodic && isNearMaxInterval && !t.scheduler.isBusy(now)
}

// tick delivers all due Tickers. The goroutine that is woken last runs next, so it wakes them in
// reverse order. deferAlarm is set if the caller will call setAlarmAfterTick. In a busy process the
// alarm is set at once, because the woken goroutines may need a long time.
func (s *Scheduler) tick(now time.Time, deferAlarm bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.CPUTime != nil {
		s.cpuLoad.update(now, now.Sub(s.nextTick), s.CPUTime)
	}
	s.lastTick, s.nextTick = now, time.Time{}
	s.alarmDeferred = deferAlarm && !s.isBusy(now)
	for _, ticker := range slices.Backward(s.tickers) {
		if ticker.takeIfDue(now) {
			select {
			case ticker.ch <- struct{}{}:
			default:
			}
		}
	}
	s.setAlarmLocked()
}

// takeIfDue reports whether the Ticker is due now, and schedules its next delivery.
func (t *Ticker) takeIfDue(now time.Time) bool {
	tooEarly := t.due.Sub(now) > max(t.tolerance(), t.maxEarliness)
	if t.due.IsZero() || tooEarly {
		return false
	}
	if t.kind == whileBusy && !t.scheduler.isBusy(now) {
		return false
	}
	if t.kind == onDemand {
		t.due = time.Time{}
		return true
	}
	// If the process was woken for this Ticker alone, schedule the Ticker relative to this time
	// from now on. Its times then converge with those of a Ticker with its own schedule; otherwise
	// the two would always need separate wake-ups.
	wokeProcessAlone := t.interval > MaxInterval && now.Sub(t.due) >= t.tolerance()
	next := t.due.Add(t.interval)
	missedNext := next.Before(now) // the tick was late
	if wokeProcessAlone || missedNext || t.followsActualTicks(now) {
		next = now.Add(t.interval)
	}
	t.due = next
	return true
}

// isBusy reports whether the process is treated as busy for the Tickers of NewBusyTicker.
func (s *Scheduler) isBusy(now time.Time) bool {
	if s.CPUTime == nil {
		return slices.ContainsFunc(s.tickers, func(b *Ticker) bool { return b.kind == whileBusy })
	}
	return s.cpuLoad.isBusy(now)
}
