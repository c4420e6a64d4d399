package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const (
	// clockInterval is the interval at which the clock is read. kernelInterval is the interval at
	// which the kernel is asked for stolen CPU time.
	clockInterval  = 10 * time.Millisecond
	kernelInterval = 250 * time.Millisecond
	// minTimerDelay is the minimum delay of a timer that is recorded. On a machine with a free
	// processor, the delay is microseconds.
	minTimerDelay = 50 * time.Millisecond
)

// Unavailability describes how much CPU time was missing during an interval.
type Unavailability struct {
	// TimerDelay is the total delay of a goroutine that reads the clock every 10 ms. Delays of less
	// than 50 ms do not count.
	TimerDelay time.Duration
	// StolenShare is the share of the CPU time, from 0 to 1, that the hypervisor gave to other
	// machines, or that a quota of the control group withheld.
	StolenShare float64
}

const (
	// maxTimerDelay is half of the default lease, and maxStolenShare a tenth of the CPU time. Tests must
	// tolerate less than that.
	maxTimerDelay  = 250 * time.Millisecond
	maxStolenShare = 0.1
	// clockTick is the unit of the times in /proc/stat.
	clockTick = 10 * time.Millisecond
)

// ExcusesFailure reports whether a test that failed in this interval may be repeated, because goroutines
// did not run for maxTimerDelay, or because maxStolenShare of the CPU time was missing.
func (a Unavailability) ExcusesFailure() bool {
	return a.TimerDelay >= maxTimerDelay || a.StolenShare >= maxStolenShare
}

// String returns the missing CPU time in words.
func (a Unavailability) String() string {
	return fmt.Sprintf("timers late by %v, %.0f %% of the CPU time stolen", a.TimerDelay.Round(time.Millisecond), 100*a.StolenShare)
}

// outage is an interval in which the machine was not or only partly available.
type outage struct {
	from, until time.Time
	timerDelay  time.Duration // how late the goroutine of watch ran
	stolenTime  time.Duration // CPU time of all processors that was missing
}

// machineMonitor measures the availability of the machine. The zero value has no measurement.
type machineMonitor struct {
	mu      sync.Mutex
	outages []outage
}

// watch records outages until ctx ends.
func (m *machineMonitor) watch(ctx context.Context) {
	ticker := time.NewTicker(clockInterval)
	defer ticker.Stop()
	lastTick, lastKernelRead, previousTotal := time.Now(), time.Now(), missingCPUTime()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := time.Now()
		if delay := now.Sub(lastTick) - clockInterval; delay >= minTimerDelay {
			m.add(outage{from: lastTick, until: now, timerDelay: delay})
		}
		lastTick = now
		if now.Sub(lastKernelRead) >= kernelInterval {
			total := missingCPUTime()
			if total > previousTotal {
				m.add(outage{from: lastKernelRead, until: now, stolenTime: total - previousTotal})
			}
			lastKernelRead, previousTotal = now, total
		}
	}
}

func (m *machineMonitor) add(o outage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outages = append(m.outages, o)
}

// unavailability returns the sum of the outages between two times. An outage that lies only partly
// between them counts in proportion.
func (m *machineMonitor) unavailability(from, until time.Time) Unavailability {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum Unavailability
	var missing time.Duration
	for _, outage := range m.outages {
		start, end := outage.from, outage.until
		if start.Before(from) {
			start = from
		}
		if end.After(until) {
			end = until
		}
		if !end.After(start) {
			continue
		}
		share := float64(end.Sub(start)) / float64(outage.until.Sub(outage.from))
		sum.TimerDelay += time.Duration(share * float64(outage.timerDelay))
		missing += time.Duration(share * float64(outage.stolenTime))
	}
	if available := until.Sub(from) * time.Duration(runtime.NumCPU()); available > 0 {
		sum.StolenShare = float64(missing) / float64(available)
	}
	return sum
}

// missingCPUTime returns the total CPU time since the start of the machine that other machines
// had or a quota withheld. It is 0 if the kernel does not report that.
func missingCPUTime() time.Duration {
	stat, _ := os.ReadFile("/proc/stat")               // exists only on Linux
	group, _ := os.ReadFile("/sys/fs/cgroup/cpu.stat") // missing in the root of the hierarchy
	return stolenTime(stat) + throttledTime(group)
}

// stolenTime returns "steal", the eighth number of the line "cpu" of /proc/stat, which is in
// ticks of 10 ms (proc_stat(5)).
func stolenTime(stat []byte) time.Duration {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0
	}
	ticks, err := strconv.ParseInt(string(fields[8]), 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(ticks) * clockTick
}

// throttledTime returns how long the kernel throttled a control group, from "throttled_usec" in its
// cpu.stat (cgroups(7)). It returns 0 if the entry is missing or invalid.
func throttledTime(stat []byte) time.Duration {
	for line := range bytes.Lines(stat) {
		if rest, ok := bytes.CutPrefix(line, []byte("throttled_usec ")); ok {
			micros, err := strconv.ParseInt(string(bytes.TrimSpace(rest)), 10, 64)
			if err != nil {
				return 0
			}
			return time.Duration(micros) * time.Microsecond
		}
	}
	return 0
}
