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
	// clockInterval is how often the clock is read. kernelInterval is how often the
	// kernel is asked for stolen CPU time.
	clockInterval  = 10 * time.Millisecond
	kernelInterval = 250 * time.Millisecond
	// minLate is the minimum delay of a timer that is recorded. On a machine with a free
	// processor, the delay is microseconds.
	minLate = 50 * time.Millisecond
)

// Unavailability is the unavailability of the machine during some time.
type Unavailability struct {
	// Late is the total delay of a goroutine that wants to run for an instant. Only
	// delays of more than 50 ms count.
	Late time.Duration
	// Stolen is the share of the CPU time, 0 to 1, that the hypervisor gave to other
	// machines or that a quota of the control group withheld.
	Stolen float64
}

// Excuses reports whether a failed test with the real clock may be repeated: if nothing
// ran for half of the default lease, or if a tenth of the CPU time was missing.
func (a Unavailability) Excuses() bool { return a.Late >= 250*time.Millisecond || a.Stolen >= 0.1 }

// gap is a time in which the machine was not available, wholly or for the share taken of
// the CPU time.
type gap struct {
	from, until  time.Time
	late, stolen time.Duration
}

// machine measures the availability of the machine. The zero value has no measurement.
type machine struct {
	mu   sync.Mutex
	gaps []gap
}

// watch measures until ctx ends.
func (m *machine) watch(ctx context.Context) {
	ticker := time.NewTicker(clockInterval)
	defer ticker.Stop()
	last, asked, before := time.Now(), time.Now(), takenTime()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if d := now.Sub(last) - clockInterval; d >= minLate {
			m.add(gap{from: last, until: now, late: d})
		}
		if last = now; now.Sub(asked) >= kernelInterval {
			total := takenTime()
			if total > before {
				m.add(gap{from: asked, until: now, stolen: total - before})
			}
			asked, before = now, total
		}
	}
}

func (m *machine) add(s gap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gaps = append(m.gaps, s)
}

// unavailability returns the sum between two times, by the part of each gap that lies between
// them.
func (m *machine) unavailability(from, until time.Time) Unavailability {
	m.mu.Lock()
	defer m.mu.Unlock()
	var a Unavailability
	var away time.Duration
	for _, gap := range m.gaps {
		start, end := gap.from, gap.until
		if start.Before(from) {
			start = from
		}
		if end.After(until) {
			end = until
		}
		if !end.After(start) {
			continue
		}
		share := float64(end.Sub(start)) / float64(gap.until.Sub(gap.from))
		a.Late += time.Duration(share * float64(gap.late))
		away += time.Duration(share * float64(gap.stolen))
	}
	if all := until.Sub(from) * time.Duration(runtime.NumCPU()); all > 0 {
		a.Stolen = float64(away) / float64(all)
	}
	return a
}

// takenTime returns the total CPU time since the start of the machine that other machines
// had or a quota withheld. It is 0 if the kernel does not report that.
func takenTime() time.Duration {
	stat, _ := os.ReadFile("/proc/stat")               // exists only on Linux
	group, _ := os.ReadFile("/sys/fs/cgroup/cpu.stat") // missing in the root of the hierarchy
	return stolen(stat) + throttled(group)
}

// stolen returns "steal", the eighth number of the line "cpu" of /proc/stat, which is in
// ticks of 10 ms (proc_stat(5)).
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

// throttled returns "throttled_usec" of cpu.stat of a control group, in µs (cgroups(7)).
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
