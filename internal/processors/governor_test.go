package processors_test

import (
	"testing"
	"time"

	"shardway/internal/processors"
)

// step is a period in which a process has a constant load.
type step struct {
	duration time.Duration
	load     int           // CPU time that the process uses, in percent of one processor
	delay    time.Duration // how late each measurement is
	want     int           // processors at the end of the step
}

func TestGovernorFollowsTheLoad(t *testing.T) {
	const interval = 100 * time.Millisecond
	for name, c := range map[string]struct {
		maximum int
		steps   []step
	}{
		"start with all processors":                {8, []step{{0, 0, 0, 8}}},
		"half when idle":                           {8, []step{{5 * time.Second, 1, 0, 4}}},
		"down to one":                              {8, []step{{16 * time.Second, 1, 0, 1}, {time.Minute, 1, 0, 1}}},
		"half of three is two":                     {3, []step{{5 * time.Second, 1, 0, 2}, {6 * time.Second, 1, 0, 1}}},
		"not before 5 s without load":              {2, []step{{4900 * time.Millisecond, 1, 0, 2}, {interval, 90, 0, 2}, {4900 * time.Millisecond, 1, 0, 2}, {time.Second, 1, 0, 1}}},
		"all if half is not enough":                {4, []step{{time.Minute, 178, 0, 4}}},
		"half if that is enough":                   {4, []step{{6 * time.Second, 174, 0, 2}, {time.Minute, 174, 0, 2}}},
		"all when busy":                            {8, []step{{time.Minute, 1, 0, 1}, {interval, 95, 0, 8}, {time.Second, 800, 0, 8}}},
		"unchanged below busy":                     {2, []step{{time.Minute, 1, 0, 1}, {time.Minute, 94, 0, 1}}},
		"all after a late measurement":             {8, []step{{time.Minute, 1, 0, 1}, {interval, 30, 50 * time.Millisecond, 8}}},
		"unchanged after a short delay":            {8, []step{{time.Minute, 1, 0, 1}, {time.Second, 30, 40 * time.Millisecond, 1}}},
		"all while measurements are late at times": {2, []step{{time.Minute, 1, 0, 1}, {interval, 1, 60 * time.Millisecond, 2}, {4 * time.Second, 1, 0, 2}, {interval, 1, 60 * time.Millisecond, 2}, {4 * time.Second, 1, 0, 2}, {2 * time.Second, 1, 0, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			now, cpuTime := time.Duration(0), time.Duration(0)
			g := processors.NewGovernor(c.maximum, now, cpuTime)
			got := c.maximum
			for i, s := range c.steps {
				for end := now + s.duration; now < end; {
					now += interval + s.delay
					cpuTime += (interval + s.delay) * time.Duration(s.load) / 100
					got = g.Update(now, cpuTime)
				}
				if got != s.want {
					t.Fatalf("step %d: %d processors, want %d", i, got, s.want)
				}
			}
		})
	}
}

// A measurement soon after a late one covers too short a time to be reliable.
func TestShortMeasurementIsIgnored(t *testing.T) {
	g := processors.NewGovernor(4, 0, 0)
	for now := time.Duration(0); now <= time.Minute; now += 100 * time.Millisecond {
		g.Update(now, 0)
	}
	if got := g.Update(time.Minute+40*time.Millisecond, 40*time.Millisecond); got != 1 {
		t.Errorf("after 40 ms with full load: %d processors, want 1", got)
	}
	if got := g.Update(time.Minute+100*time.Millisecond, 100*time.Millisecond); got != 4 {
		t.Errorf("after 100 ms with full load: %d processors, want 4", got)
	}
}
