package main

import (
	"bytes"
	"context"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const (
	// look is how often the clock is looked at, and ask how often the kernel is asked
	// what was taken away.
	look = 10 * time.Millisecond
	ask  = 250 * time.Millisecond
	// late is how late a look must be to be noted: where a processor is free, or soon
	// is, that is microseconds.
	late = 50 * time.Millisecond
)

// Absence is what a machine did not give during some time.
type Absence struct {
	// Late is for how long in all something that wanted to run for an instant had to
	// wait, where that took more than 50 ms.
	Late time.Duration
	// Taken is the share of the processors' time, 0 to 1, that the hypervisor gave to
	// others or a quota of the control group withheld.
	Taken float64
}

// Excuses reports whether a test by the real clock that failed meanwhile deserves a
// repeat: half of the default lease in which nothing ran, or a tenth of the processors.
func (a Absence) Excuses() bool { return a.Late >= 250*time.Millisecond || a.Taken >= 0.1 }

// spell is a time in which the machine was not there: wholly, or for taken of the
// processors' time.
type spell struct {
	from, until time.Time
	late, taken time.Duration
}

// machine watches the machine. The zero value has seen nothing.
type machine struct {
	mu     sync.Mutex
	spells []spell
}

// watch notes what the machine does not give until ctx ends.
func (m *machine) watch(ctx context.Context) {
	t := time.NewTicker(look)
	defer t.Stop()
	last, asked, before := time.Now(), time.Now(), taken()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if d := now.Sub(last) - look; d >= late {
			m.note(spell{from: last, until: now, late: d})
		}
		if last = now; now.Sub(asked) >= ask {
			total := taken()
			if total > before {
				m.note(spell{from: asked, until: now, taken: total - before})
			}
			asked, before = now, total
		}
	}
}

func (m *machine) note(s spell) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spells = append(m.spells, s)
}

// absence sums up what was missing between two times, by the part of each spell that
// lies between them.
func (m *machine) absence(from, until time.Time) Absence {
	m.mu.Lock()
	defer m.mu.Unlock()
	var a Absence
	var away time.Duration
	for _, s := range m.spells {
		start, end := s.from, s.until
		if start.Before(from) {
			start = from
		}
		if end.After(until) {
			end = until
		}
		if !end.After(start) {
			continue
		}
		share := float64(end.Sub(start)) / float64(s.until.Sub(s.from))
		a.Late += time.Duration(share * float64(s.late))
		away += time.Duration(share * float64(s.taken))
	}
	if all := until.Sub(from) * time.Duration(runtime.NumCPU()); all > 0 {
		a.Taken = float64(away) / float64(all)
	}
	return a
}

// taken is the processors' time in all, since the machine started, that others had or a
// quota withheld; 0 where no kernel tells.
func taken() time.Duration {
	stat, _ := os.ReadFile("/proc/stat")               // none elsewhere than on Linux
	group, _ := os.ReadFile("/sys/fs/cgroup/cpu.stat") // none in the root of the hierarchy
	return stolen(stat) + throttled(group)
}

// stolen reads "steal", the eighth number of the line "cpu" of /proc/stat, in ticks of
// 10 ms (proc_stat(5)).
func stolen(stat []byte) time.Duration {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0
	}
	ticks, err := strconv.ParseInt(string(fields[8]), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// throttled reads "throttled_usec" of a control group's cpu.stat, in µs (cgroups(7)).
func throttled(stat []byte) time.Duration {
	for line := range bytes.Lines(stat) {
		if rest, ok := bytes.CutPrefix(line, []byte("throttled_usec ")); ok {
			us, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
			if err != nil {
				return 0
			}
			return time.Duration(us) * time.Microsecond
		}
	}
	return 0
}
