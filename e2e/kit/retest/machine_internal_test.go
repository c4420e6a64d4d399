package main

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestMissingCPUTimeIsReadFromTheKernel(t *testing.T) {
	const stat = "cpu  10132153 290696 3084719 46828483 16683 0 25195 175628 0 0\ncpu0 1 1 1 1 1 1 1 999 0 0\n"
	if got, want := stolenTime([]byte(stat)), 1_756_280*time.Millisecond; got != want {
		t.Errorf("stolen = %v, want %v", got, want)
	}
	const group = "usage_usec 8\nnr_throttled 3\nthrottled_usec 2500\nnr_bursts 0\n"
	if got, want := throttledTime([]byte(group)), 2500*time.Microsecond; got != want {
		t.Errorf("throttled = %v, want %v", got, want)
	}
	for _, s := range []string{"", "cpu", "cpu 1 2 3 4 5 6 7 x", "intr 1 2 3 4 5 6 7 8 9", "throttled_usec ", "throttled_usec x"} {
		if got := stolenTime([]byte(s)) + throttledTime([]byte(s)); got != 0 {
			t.Errorf("%q: %v, want 0", s, got)
		}
	}
}

func TestOnlyUnavailabilityDuringTheTestCounts(t *testing.T) {
	at := time.Unix(1000, 0)
	second := func(n float64) time.Time { return at.Add(time.Duration(n * float64(time.Second))) }
	var m machineMonitor
	m.add(outage{from: second(0), until: second(2), timerDelay: 2 * time.Second})
	m.add(outage{from: second(4), until: second(5), stolenTime: time.Duration(runtime.NumCPU()) * time.Second / 2})
	for _, tt := range []struct {
		from, until float64
		want        Unavailability
		excuses     bool
	}{
		{2, 4, Unavailability{}, false},
		{1.5, 3, Unavailability{TimerDelay: 500 * time.Millisecond}, true},
		{1.9, 3, Unavailability{TimerDelay: 100 * time.Millisecond}, false},
		{4, 5, Unavailability{StolenShare: 0.5}, true},
		{4, 6, Unavailability{StolenShare: 0.25}, true},
		{4, 14, Unavailability{StolenShare: 0.05}, false},
	} {
		got := m.unavailability(second(tt.from), second(tt.until))
		if d := got.TimerDelay - tt.want.TimerDelay; d.Abs() > time.Millisecond || got.StolenShare < tt.want.StolenShare-0.001 || got.StolenShare > tt.want.StolenShare+0.001 {
			t.Errorf("from %v until %v: %+v, want %+v", tt.from, tt.until, got, tt.want)
		}
		if got.ExcusesFailure() != tt.excuses {
			t.Errorf("from %v until %v: excused %v, want %v", tt.from, tt.until, got.ExcusesFailure(), tt.excuses)
		}
	}
}

func TestAvailableMachineIsNotLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m machineMonitor
		from := time.Now()
		go m.watch(t.Context())
		time.Sleep(10 * time.Second)
		if a := m.unavailability(from, time.Now()); a.TimerDelay != 0 {
			t.Errorf("late by %v in a time in which nothing was", a.TimerDelay)
		}
	})
}
