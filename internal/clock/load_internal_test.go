package clock

import (
	"testing"
	"time"
)

// A process that the machine holds up is not known by what it uses.
func TestALateBeatCountsAsBusy(t *testing.T) {
	nothing := func() (time.Duration, bool) { return 0, true }
	for name, tt := range map[string]struct {
		late time.Duration
		used func() (time.Duration, bool)
		want bool
	}{
		"in time":           {late: time.Millisecond, used: nothing},
		"late":              {late: 40 * time.Millisecond, used: nothing, want: true},
		"nobody can say so": {used: func() (time.Duration, bool) { return 0, false }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			l, now := load{}, time.Now()
			l.look(now, tt.late, tt.used)
			if got := l.busy(now.Add(busyFor - 1)); got != tt.want {
				t.Errorf("busy: %v, want %v", got, tt.want)
			}
			if l.busy(now.Add(busyFor)) {
				t.Error("it stays so without a cause")
			}
		})
	}
}
