package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/clock"
)

// beating runs a Pulse until the returned function is called.
func beating(t *testing.T, p *clock.Pulse) (stop func()) {
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

func TestBeatsComeAsOftenAsTheyWereAskedFor(t *testing.T) {
	for _, every := range []time.Duration{clock.EveryBeat, 20 * time.Millisecond, 250 * time.Millisecond, time.Second} {
		t.Run(every.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p clock.Pulse
				b := p.Every(every)
				defer b.Stop()
				defer beating(t, &p)()
				const span = time.Minute
				last, n := time.Now(), 0
				for end := last.Add(span); last.Before(end); n++ {
					<-b.C
					now := time.Now()
					if gap := now.Sub(last); gap < every-10*time.Millisecond || gap > every+11*time.Millisecond {
						t.Fatalf("beat %d came %v after the one before, want about %v", n, gap, every)
					}
					last = now
				}
				if want := int(span / every); n < want*99/100 || n > want+1 {
					t.Errorf("%d beats in %v, want %d or a few less", n, span, want)
				}
			})
		})
	}
}

// TestBeatsComeTogether: it is what a Pulse is for.
func TestBeatsComeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p clock.Pulse
		often := p.Every(clock.EveryBeat)
		defer often.Stop()
		time.Sleep(3 * time.Millisecond)
		seldom := p.Every(200 * time.Millisecond)
		defer seldom.Stop()
		defer beating(t, &p)()
		both := 0
		for range 2000 {
			<-often.C
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

// TestWhoIsHeldUpMissesBeats: a goroutine that comes late is not woken for each beat of
// that time.
func TestWhoIsHeldUpMissesBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p clock.Pulse
		b := p.Every(20 * time.Millisecond)
		defer beating(t, &p)()
		time.Sleep(time.Second)
		synctest.Wait()
		<-b.C
		select {
		case <-b.C:
			t.Error("a second beat was kept")
		default:
		}
		b.Stop()
		time.Sleep(time.Second)
		select {
		case <-b.C:
			t.Error("a beat came after Stop")
		default:
		}
	})
}
