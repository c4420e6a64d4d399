//go:build linux

package cluster

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"shardway/e2e/kit/history"
)

// The kernel reports how long each thread of a live process waited.
func TestCPUWaitOfThreadIsRead(t *testing.T) {
	threads := threadsOf(os.Getpid())
	if len(threads) == 0 {
		t.Fatal("this process has no threads")
	}
	told := 0
	for _, thread := range threads {
		if n, ok := cpuWaitOf(thread); ok && n >= 0 {
			told++
		}
	}
	if told == 0 {
		t.Errorf("no wait can be read from %v", threads)
	}
	if gone := threadsOf(1 << 30); len(gone) > 0 {
		t.Errorf("a process that cannot be has threads: %v", gone)
	}
}

// The stalls record the longest wait of any thread of a node between two observations,
// according to the kernel. They ignore earlier waits and short ones.
func TestStallsRecordLongWaits(t *testing.T) {
	own := fmt.Sprintf("/proc/%d/task/%[1]d/schedstat", os.Getpid())
	for _, more := range []time.Duration{0, minWait, minStall - 1, minStall, time.Second} {
		s, before := new(stalls), make(map[string]int64)
		s.track("a", os.Getpid())
		for _, thread := range threadsOf(os.Getpid()) {
			before[thread], _ = cpuWaitOf(thread)
		}
		before[own] -= int64(more)
		now, after := history.Now(), maps.Clone(before)
		s.observe(after, now)
		most := int64(0) // more, because of the load of the machine
		for thread, total := range before {
			most = max(most, after[thread]-total)
		}
		var want []history.CPUWait
		if most >= int64(minWait) {
			want = []history.CPUWait{{Node: "a", From: now - most, Until: now}}
		}
		if most < int64(more) || !slices.Equal(s.recordedWaits(), want) {
			t.Errorf("after a wait of %v: recorded waits %v, want %v", time.Duration(most), s.recordedWaits(), want)
		}
		if told := len(s.recordedFaults()) > 0; told != (most >= int64(minStall)) {
			t.Errorf("after a wait of %v: recorded as a fault: %v", time.Duration(most), told)
		}
	}
}
