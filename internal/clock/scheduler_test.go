package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/clock"
)

// runScheduler runs a Scheduler until the returned function is called.
func runScheduler(t *testing.T, p *clock.Scheduler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// next waits for the next delivery and returns its time, rounded to 0.1 ms.
func next(p *clock.Scheduler) {
	for last := p.Last(); p.Last().Equal(last); {
		time.Sleep(time.Millisecond / 10)
		synctest.Wait()
	}
}

func TestBeatsKeepTheirInterval(t *testing.T) {
	for _, every := range []time.Duration{clock.MinInterval, 20 * time.Millisecond, clock.MaxInterval, 250 * time.Millisecond, time.Second} {
		for _, whileBusy := range []bool{false, true} {
			t.Run(every.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var p clock.Scheduler
					b := p.NewTicker(every)
					defer b.Stop()
					slack := clock.MaxInterval/2 + time.Millisecond
					if whileBusy {
						slack = clock.MinInterval + time.Millisecond
						defer p.NewBusyTicker(time.Second).Stop() // without Used the process counts as busy
					}
					slack = min(slack, max(every/4, clock.MinInterval+time.Millisecond))
					defer runScheduler(t, &p)()
					const span = time.Minute
					last, n := time.Now(), 0
					for end := last.Add(span); last.Before(end); n++ {
						<-b.C
						now := time.Now()
						if gap := now.Sub(last); n > 0 && (gap < every-2*slack || gap > every+2*slack) {
							t.Fatalf("Ticker %d came %v after the previous one, want about %v", n, gap, every)
						}
						last = now
					}
					if want := int(span / every); n < want*98/100 || n > want+1 {
						t.Errorf("%d ticks in %v, want %d or a few less", n, span, want)
					}
				})
			})
		}
	}
}

// Sharing ticks is the purpose of a Scheduler.
func TestBeatsShareTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p clock.Scheduler
		periodic := p.NewTicker(clock.MinInterval)
		defer periodic.Stop()
		time.Sleep(3 * time.Millisecond)
		seldom := p.NewTicker(200 * time.Millisecond)
		defer seldom.Stop()
		defer runScheduler(t, &p)()
		both := 0
		for range 2000 {
			<-periodic.C
			synctest.Wait()
			select {
			case <-seldom.C:
				both++
			default:
			}
		}
		if both < 99 || both > 101 {
			t.Errorf("%d of 2000 beats were shared, want 100", both)
		}
	})
}

// Each wake-up of an idle process costs CPU time.
func TestIdleProcessIsWokenRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := clock.Scheduler{CPUTime: func() (time.Duration, bool) { return 0, true }}
		for _, every := range []time.Duration{250 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 100 * time.Millisecond} {
			time.Sleep(7 * time.Millisecond)
			defer p.NewTicker(every).Stop()
		}
		quick := p.NewBusyTicker(clock.MinInterval)
		defer quick.Stop()
		defer p.NewOnDemandTicker().Stop() // Within is not called
		defer runScheduler(t, &p)()
		n := 0
		for end := time.Now().Add(time.Minute); time.Now().Before(end); n++ {
			next(&p)
		}
		if most := int(time.Minute / clock.MaxInterval); n > most*21/20 {
			t.Errorf("%d ticks in a minute, want at most %d", n, most)
		}
		select {
		case <-quick.C:
			t.Error("Ticker of NewBusyTicker was delivered to an idle process")
		default:
		}
	})
}

// The heartbeats of an agent have a schedule of their own. Periodic Tickers must be delivered
// with them: separate wake-ups would be 30 ticks per second.
func TestPeriodicBeatsJoinScheduledOnes(t *testing.T) {
	for _, apart := range []time.Duration{0, 15 * time.Millisecond, 20 * time.Millisecond, 25 * time.Millisecond, 30 * time.Millisecond, 45 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p := clock.Scheduler{CPUTime: func() (time.Duration, bool) { return 0, true }}
			agent := p.NewOnDemandTicker()
			defer agent.Stop()
			periodic := p.NewTicker(100 * time.Millisecond)
			defer periodic.Stop()
			time.Sleep(apart)
			defer runScheduler(t, &p)()
			n, came := 0, 0
			heartbeat := time.Now()
			agent.TickWithin(0)
			for end := heartbeat.Add(time.Minute); heartbeat.Before(end); n++ {
				next(&p)
				select {
				case <-periodic.C:
					came++
				default:
				}
				select {
				case <-agent.C:
				default:
					continue
				}
				if now := time.Now(); !now.Before(heartbeat.Add(-clock.MinInterval / 2)) { // it would not come again before
					heartbeat = now.Add(100 * time.Millisecond)
				}
				agent.TickWithin(time.Until(heartbeat))
			}
			if n > 630 {
				t.Errorf("%v apart: %d ticks in a minute, want 600 or a few more", apart, n)
			}
			if came < 590 {
				t.Errorf("%v apart: Ticker due 600 times a minute was delivered %d times", apart, came)
			}
		})
	}
}

// A leader sends every 97 ms, and checks run every 100 ms. Separate wake-ups for both would
// be 30 ticks per second with three Tickers.
func TestBeatsOfSimilarIntervalComeAlong(t *testing.T) {
	for _, apart := range []time.Duration{0, 20 * time.Millisecond, 45 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p := clock.Scheduler{CPUTime: func() (time.Duration, bool) { return 0, true }}
			const speaks = 97 * time.Millisecond
			leader := p.NewOnDemandTicker()
			defer leader.Stop()
			looks := [2]*clock.Ticker{}
			for i := range looks {
				time.Sleep(apart)
				looks[i] = p.NewTicker(clock.MaxInterval)
				defer looks[i].Stop()
			}
			defer runScheduler(t, &p)()
			leader.TickWithin(speaks)
			n, came := 0, [2]int{}
			for end := time.Now().Add(time.Minute); time.Now().Before(end); n++ {
				next(&p)
				for i, b := range looks {
					select {
					case <-b.C:
						came[i]++
					default:
					}
				}
				select {
				case <-leader.C:
					leader.TickWithin(speaks)
				default:
				}
			}
			want := int(time.Minute / speaks)
			if n > want*22/20 { // or a twentieth earlier, and the first few apart
				t.Errorf("%v apart: %d ticks in a minute, want %d or a few more", apart, n, want)
			}
			for i, c := range came {
				if c < want*98/100 || c > n {
					t.Errorf("%v apart: Ticker due 600 times a minute was delivered %d times to subscriber %d", apart, c, i)
				}
			}
		})
	}
}

func TestWithinDeliversByRequestedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p clock.Scheduler
		b := p.NewOnDemandTicker()
		defer b.Stop()
		defer runScheduler(t, &p)()
		b.TickWithin(0)
		<-b.C
		for _, tt := range []struct{ within, after time.Duration }{
			{0, 10 * time.Millisecond},
			{10 * time.Millisecond, 10 * time.Millisecond},
			{23 * time.Millisecond, 23 * time.Millisecond},
			{50 * time.Millisecond, 50 * time.Millisecond},
			{time.Hour, time.Hour},
		} {
			began := time.Now()
			b.TickWithin(time.Millisecond)
			b.TickWithin(tt.within) // replaces the earlier schedule
			<-b.C
			if got := time.Since(began); got < tt.after-min(tt.after/20, clock.MaxInterval/2) || got > tt.after+2*time.Millisecond {
				t.Errorf("TickWithin(%v): Ticker came after %v, want %v", tt.within, got, tt.after)
			}
		}
		for _, within := range []time.Duration{4 * time.Millisecond, clock.MinInterval} {
			time.Sleep(3 * time.Millisecond)
			began := time.Now()
			b.TickWithin(within)
			if <-b.C; time.Since(began) > 9*time.Millisecond {
				t.Errorf("TickWithin(%v) 3ms after the last tick: Ticker came after %v, want 7ms", within, time.Since(began))
			}
		}
	})
}

func TestBeatIsDeliveredOncePerWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p clock.Scheduler
		defer p.NewTicker(clock.MinInterval).Stop()
		b := p.NewOnDemandTicker()
		defer b.Stop()
		defer runScheduler(t, &p)()
		for _, within := range []time.Duration{0, 35 * time.Millisecond} {
			b.TickWithin(within)
			began := time.Now()
			if <-b.C; time.Since(began) > within+11*time.Millisecond {
				t.Errorf("TickWithin(%v): Ticker came after %v", within, time.Since(began))
			}
			time.Sleep(time.Second)
			synctest.Wait()
			select {
			case <-b.C:
				t.Error("Ticker was delivered twice")
			default:
			}
		}
	})
}

func TestEarlyTicksOnlyIfTickIsNear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := clock.Scheduler{CPUTime: func() (time.Duration, bool) { return 0, true }}
		p.TickEarly() // Run is not running
		defer runScheduler(t, &p)()
		next(&p)
		for _, c := range []struct {
			after time.Duration // the beat before
			want  bool
		}{
			{after: clock.MinInterval - 1}, {after: clock.MaxInterval/2 - 1}, {after: clock.MaxInterval/2 + time.Millisecond, want: true}, {after: clock.MaxInterval - 1, want: true},
		} {
			began := p.Last()
			time.Sleep(time.Until(began.Add(c.after)))
			p.TickEarly()
			p.TickEarly()
			for i, want := range []time.Duration{c.after, clock.MaxInterval} {
				if i == 0 && !c.want {
					continue
				}
				for p.Last().Equal(began) {
					next(&p)
				}
				if took := p.Last().Sub(began); took.Truncate(time.Millisecond) != want.Truncate(time.Millisecond) {
					t.Errorf("tick %v after the previous one, want %v", took, want)
				}
				began = p.Last()
			}
		}
	})
}

// A Ticker of NewOnDemandTicker is delivered with a tick that takes place anyway, if its own tick would
// follow within MinInterval.
func TestWithinIsDeliveredEarlyWithOtherTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := clock.Scheduler{CPUTime: func() (time.Duration, bool) { return 0, true }}
		b := p.NewOnDemandTicker()
		defer b.Stop()
		defer runScheduler(t, &p)()
		synctest.Wait()
		began := time.Now()
		for _, c := range []struct{ within, want time.Duration }{
			{clock.MaxInterval + 5*time.Millisecond, clock.MaxInterval},
			{clock.MaxInterval + 6*time.Millisecond, clock.MaxInterval + clock.MinInterval},
			{30 * time.Millisecond, 30 * time.Millisecond},
		} {
			b.TickWithin(c.within)
			<-b.C
			if took := time.Since(began); took.Truncate(time.Millisecond) != c.want {
				t.Errorf("TickWithin(%v): Ticker came after %v, want %v", c.within, took, c.want)
			}
			began = time.Now()
		}
	})
}

// Checks whether the runtime is overloaded must run often, from soon after the process
// becomes busy until some time after it is idle again.
func TestBusyProcessTicksAtShortestInterval(t *testing.T) {
	for name, tt := range map[string]struct {
		used func(at time.Duration) time.Duration
		want bool
	}{
		"idle": {used: func(at time.Duration) time.Duration { return at / 50 }},
		"busy": {used: func(at time.Duration) time.Duration { return at / 5 }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, until := time.Now(), time.Second
				used := time.Duration(0)
				p := clock.Scheduler{CPUTime: func() (time.Duration, bool) {
					if at := time.Since(began); at <= until {
						used = tt.used(at)
					}
					return used, true
				}}
				b := p.NewBusyTicker(clock.MinInterval)
				defer b.Stop()
				defer runScheduler(t, &p)()
				beats := func(d time.Duration) (n int) {
					for end := time.After(d); ; {
						select {
						case <-end:
							return n
						case <-b.C:
							n++
						}
					}
				}
				beats(100 * time.Millisecond)
				if n := beats(800 * time.Millisecond); tt.want != (n > 20) || !tt.want && n > 0 {
					t.Errorf("%d ticks in 800 ms, want many: %v", n, tt.want)
				}
				beats(time.Second)
				if n := beats(time.Second); n > 0 {
					t.Errorf("%d ticks after the process became idle", n)
				}
			})
		})
	}
}

// A goroutine that receives late gets one value, not one for each missed tick.
func TestSlowReceiverMissesTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p clock.Scheduler
		b := p.NewTicker(20 * time.Millisecond)
		defer runScheduler(t, &p)()
		time.Sleep(time.Second)
		synctest.Wait()
		<-b.C
		select {
		case <-b.C:
			t.Error("a second value was buffered")
		default:
		}
		b.Stop()
		time.Sleep(time.Second)
		select {
		case <-b.C:
			t.Error("Ticker was delivered after Stop")
		default:
		}
	})
}
