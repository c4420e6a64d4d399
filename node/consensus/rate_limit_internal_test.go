package consensus

import (
	"testing"
	"time"
)

// The time of the last campaign includes the monotonic clock, which is used to compare two times. Once, only the wall clock was kept: after
// it was set back by an hour, no voter campaigned for that hour when its leader died.
func TestCampaignRateLimitUsesMonotonicClock(t *testing.T) {
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
	if kept := *p.last.Load(); kept.String() == kept.Round(0).String() { // String prints the monotonic time
		t.Error("the time that is kept has lost its monotonic clock")
	}
}
