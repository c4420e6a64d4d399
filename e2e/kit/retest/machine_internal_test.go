package main

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestTakenTimeIsReadFromTheKernel(t *testing.T) {
	const stat = "cpu  10132153 290696 3084719 46828483 16683 0 25195 175628 0 0\ncpu0 1 1 1 1 1 1 1 999 0 0\n"
	if got, want := stolen([]byte(stat)), 1_756_280*time.Millisecond; got != want {
		t.Errorf("stolen = %v, want %v", got, want)
	}
	const group = "usage_usec 8\nnr_throttled 3\nthrottled_usec 2500\nnr_bursts 0\n"
	if got, want := throttled([]byte(group)), 2500*time.Microsecond; got != want {
		t.Errorf("throttled = %v, want %v", got, want)
	}
	for _, s := range []string{"", "cpu", "cpu 1 2 3 4 5 6 7 x", "intr 1 2 3 4 5 6 7 8 9", "throttled_usec ", "throttled_usec x"} {
		if got := stolen([]byte(s)) + throttled([]byte(s)); got != 0 {
			t.Errorf("%q: %v, want 0", s, got)
		}
	}
}

func TestOnlyUnavailabilityDuringTheTestCounts(t *testing.T) {
	at := time.Unix(1000, 0)
	second := func(n float64) time.Time { return at.Add(time.Duration(n * float64(time.Second))) }
	var m machine
	m.add(gap{from: second(0), until: second(2), late: 2 * time.Second})
	m.add(gap{from: second(4), until: second(5), stolen: time.Duration(runtime.NumCPU()) * time.Second / 2})
	for _, tt := range []struct {
		from, until float64
		want        Unavailability
		excuses     bool
	}{
		{2, 4, Unavailability{}, false},
		{1.5, 3, Unavailability{Late: 500 * time.Millisecond}, true},
		{1.9, 3, Unavailability{Late: 100 * time.Millisecond}, false},
		{4, 5, Unavailability{Stolen: 0.5}, true},
		{4, 6, Unavailability{Stolen: 0.25}, true},
		{4, 14, Unavailability{Stolen: 0.05}, false},
	} {
		got := m.unavailability(second(tt.from), second(tt.until))
		if d := got.Late - tt.want.Late; d.Abs() > time.Millisecond || got.Stolen < tt.want.Stolen-0.001 || got.Stolen > tt.want.Stolen+0.001 {
			t.Errorf("from %v until %v: %+v, want %+v", tt.from, tt.until, got, tt.want)
		}
		if got.Excuses() != tt.excuses {
			t.Errorf("from %v until %v: excused %v, want %v", tt.from, tt.until, got.Excuses(), tt.excuses)
		}
	}
}

func TestAvailableMachineIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m machine
		from := time.Now()
		go m.watch(t.Context())
		time.Sleep(10 * time.Second)
		if a := m.unavailability(from, time.Now()); a.Late != 0 {
			t.Errorf("late by %v in a time in which nothing was", a.Late)
		}
	})
}
