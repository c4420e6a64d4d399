package diagnosis_test

import (
	"testing"
	"time"

	"shardway/diagnosis"
)

func TestSteadyWaitsForWhatLasts(t *testing.T) {
	s := diagnosis.Debouncer{OnDelay: 2 * time.Second, OffDelay: time.Second}
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		after time.Duration
		so    bool
		want  bool
	}{
		{0, true, false},
		{time.Second, true, false},
		{time.Second / 2, false, false}, // it flickers: it begins anew
		{time.Second / 2, true, false},
		{time.Second, true, false},
		{time.Second, true, true},
		{time.Second / 2, false, true},
		{time.Second / 4, true, true},
		{time.Second / 4, false, true},
		{time.Second, false, false},
	} {
		now = now.Add(step.after)
		if got := s.Update(now, step.so); got != step.want {
			t.Errorf("step %d: Update = %v, want %v", i, got, step.want)
		}
	}
	var zero diagnosis.Debouncer
	if !zero.Update(now, true) || zero.Update(now, false) {
		t.Error("the zero value does not follow at once")
	}
}

func TestForCountsFromTheBegin(t *testing.T) {
	var f diagnosis.ConditionTimer
	now := time.Unix(1000, 0)
	if got := f.Update(now, true) + f.Update(now.Add(time.Second), true); got != time.Second {
		t.Errorf("after a second it is %v", got)
	}
	if f.Update(now, false) != 0 || f.Update(now.Add(time.Minute), true) != 0 {
		t.Error("it does not begin anew")
	}
}

func TestMomentsForgetWhatIsOver(t *testing.T) {
	m := diagnosis.BurstCounter{Window: 10 * time.Second}
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		after   time.Duration
		counter uint64
		want    uint64
	}{{0, 5, 0}, {time.Second, 5, 0}, {time.Second, 8, 3}, {9 * time.Second, 9, 4}, {9 * time.Second, 9, 4}, {time.Second, 9, 0}, {time.Second, 10, 1}} {
		now = now.Add(step.after)
		if got := m.Update(now, step.counter); got != step.want {
			t.Errorf("step %d: Update(%d) = %d, want %d", i, step.counter, got, step.want)
		}
	}
}
