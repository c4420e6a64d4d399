package consensus

import (
	"testing"
	"time"
)

// The time of the last campaign was kept as the machine's date: set back by an hour,
// no voter stood at its leader's end for that hour. What is kept has the monotonic
// clock with it, which is what two times are compared by.
func TestPaceDoesNotGoByTheDate(t *testing.T) {
	p := rateLimit{interval: time.Second}
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {time.Millisecond, false}, {999 * time.Millisecond, false}, {time.Second, true}, {1500 * time.Millisecond, false}, {2 * time.Second, true}} {
		if got := p.allow(now.Add(step.after)); got != step.want {
			t.Errorf("after %v: allowed %v, want %v", step.after, got, step.want)
		}
	}
	if kept := *p.last.Load(); kept.String() == kept.Round(0).String() { // it prints the monotonic one
		t.Error("the time that is kept has lost its monotonic clock")
	}
}
