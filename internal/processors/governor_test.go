package processors_test

import (
	"testing"
	"time"

	"shardway/internal/processors"
)

// step is what a process does for a while: it uses share percent of one processor, and who
// looks comes late by that.
type step struct {
	lasts time.Duration
	share int
	late  time.Duration
	want  int // processors at the end of it
}

func TestAProcessUsesAsManyProcessorsAsItNeeds(t *testing.T) {
	const beat = 100 * time.Millisecond
	for name, c := range map[string]struct {
		most  int
		steps []step
	}{
		"one that starts uses all":            {8, []step{{0, 0, 0, 8}}},
		"one that idles gives half back":      {8, []step{{5 * time.Second, 1, 0, 4}}},
		"and half again, to one":              {8, []step{{16 * time.Second, 1, 0, 1}, {time.Minute, 1, 0, 1}}},
		"of three that are two":               {3, []step{{5 * time.Second, 1, 0, 2}, {6 * time.Second, 1, 0, 1}}},
		"not before the calm has lasted":      {2, []step{{4900 * time.Millisecond, 1, 0, 2}, {beat, 90, 0, 2}, {4900 * time.Millisecond, 1, 0, 2}, {time.Second, 1, 0, 1}}},
		"what half could not do keeps all":    {4, []step{{time.Minute, 178, 0, 4}}},
		"what half can do":                    {4, []step{{6 * time.Second, 174, 0, 2}, {time.Minute, 174, 0, 2}}},
		"a busy one takes all":                {8, []step{{time.Minute, 1, 0, 1}, {beat, 95, 0, 8}, {time.Second, 800, 0, 8}}},
		"one that is not quite busy stays":    {2, []step{{time.Minute, 1, 0, 1}, {time.Minute, 94, 0, 1}}},
		"one that is behind time takes all":   {8, []step{{time.Minute, 1, 0, 1}, {beat, 30, 50 * time.Millisecond, 8}}},
		"a little late is not behind":         {8, []step{{time.Minute, 1, 0, 1}, {time.Second, 30, 40 * time.Millisecond, 1}}},
		"what is behind now and then has all": {2, []step{{time.Minute, 1, 0, 1}, {beat, 1, 60 * time.Millisecond, 2}, {4 * time.Second, 1, 0, 2}, {beat, 1, 60 * time.Millisecond, 2}, {4 * time.Second, 1, 0, 2}, {2 * time.Second, 1, 0, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			now, used := time.Duration(0), time.Duration(0)
			g := processors.NewGovernor(c.most, now, used)
			got := c.most
			for i, s := range c.steps {
				for end := now + s.lasts; now < end; {
					now += beat + s.late
					used += (beat + s.late) * time.Duration(s.share) / 100
					got = g.Update(now, used)
				}
				if got != s.want {
					t.Fatalf("after step %d it uses %d processors, want %d", i, got, s.want)
				}
			}
		})
	}
}

// The look after a late one comes soon, and what was done in a moment says little.
func TestShortMeasurementIsIgnored(t *testing.T) {
	g := processors.NewGovernor(4, 0, 0)
	for now := time.Duration(0); now <= time.Minute; now += 100 * time.Millisecond {
		g.Update(now, 0)
	}
	if got := g.Update(time.Minute+40*time.Millisecond, 40*time.Millisecond); got != 1 {
		t.Errorf("after 40 busy milliseconds it uses %d processors, want 1", got)
	}
	if got := g.Update(time.Minute+100*time.Millisecond, 100*time.Millisecond); got != 4 {
		t.Errorf("after 100 it uses %d processors, want 4", got)
	}
}
