package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/clock"
)

func TestNowAndPreciseHaveSameOrigin(t *testing.T) {
	c := clock.New()
	for range 1000 {
		a := c.Precise()
		n := c.Now()
		b := c.Precise()
		// The origins are read one after the other; a preempted New or a
		// suspended machine may add to the distance, never a second.
		if n < a-time.Second || n > b+time.Second {
			t.Fatalf("Now() = %v, want it near Precise() in [%v, %v]", n, a, b)
		}
		if b < a {
			t.Fatalf("Precise() went back from %v to %v", a, b)
		}
	}
}

func TestVirtualUsesTimeOfBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Virtual()
		time.Sleep(13 * time.Minute)
		if got := c.Now(); got != 13*time.Minute {
			t.Errorf("Now() = %v, want 13m", got)
		}
		if got := c.Precise(); got != 13*time.Minute {
			t.Errorf("Precise() = %v, want 13m", got)
		}
	})
}

func TestSuspensionAdvancesPreciseOnly(t *testing.T) {
	var c clock.Manual
	c.Advance(time.Second)
	c.Suspend(time.Minute)
	if got := c.Now(); got != time.Second {
		t.Errorf("Now() = %v, want 1s", got)
	}
	if got, want := c.Precise(), time.Minute+time.Second; got != want {
		t.Errorf("Precise() = %v, want %v", got, want)
	}
}

func BenchmarkNow(b *testing.B) {
	c := clock.New()
	for b.Loop() {
		_ = c.Now()
	}
}

func BenchmarkPrecise(b *testing.B) {
	c := clock.New()
	for b.Loop() {
		_ = c.Precise()
	}
}
