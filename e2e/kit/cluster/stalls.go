//go:build linux

package cluster

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"shardway/e2e/kit/history"
)

const (
	// clockInterval is the interval at which the clock is read. A longer gap between two readings
	// shows that the test had no CPU time.
	clockInterval = 10 * time.Millisecond
	// cpuWaitInterval is the interval at which the kernel is asked how long threads of the nodes
	// waited for a processor.
	cpuWaitInterval = 50 * time.Millisecond
	// minStall is the shortest delay of the test or of a thread that is recorded as a fault,
	// because a node with such a delay assumes that it was paused.
	minStall = 100 * time.Millisecond
	// minWait is the shortest wait of a thread between two observations that is recorded.
	minWait = 5 * time.Millisecond
)

// stalls records the periods in which the machine had no CPU time for the test, or for a node.
type stalls struct {
	// mu protects the following fields.
	mu        sync.Mutex
	faults    []history.Fault   // delays of at least minStall
	cpuWaits  []history.CPUWait // waits of at least minWait
	nodeByPID map[int]string    // the observed processes
}

// track adds the process of a node to the observed processes. It is observed until it has ended.
func (s *stalls) track(node string, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodeByPID == nil {
		s.nodeByPID = make(map[int]string)
	}
	s.nodeByPID[pid] = node
}

// watch observes the clock and the threads until ctx ends.
func (s *stalls) watch(ctx context.Context) {
	ticker := time.NewTicker(clockInterval)
	defer ticker.Stop()
	waitByThread := make(map[string]int64) // total wait in ns at the last observation, by schedstat file
	nextObservation := int64(0)
	for lastTick := history.Now(); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := history.Now()
		if now-lastTick >= int64(minStall) {
			s.addFault("", lastTick, now)
		}
		lastTick = now
		if now >= nextObservation {
			nextObservation = now + int64(cpuWaitInterval)
			s.observe(waitByThread, now)
		}
	}
}

// addFault records that the machine had no CPU time for a node, or with an empty ID for the test.
func (s *stalls) addFault(node string, from, until int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, history.Fault{Kind: history.Stalled, Node: node, From: from, Until: until})
}

// observe records how long threads of nodes waited for a processor since the last call. waitByThread
// contains the total wait of each thread at the last call, and is updated.
func (s *stalls) observe(waitByThread map[string]int64, now int64) {
	s.mu.Lock()
	pids := maps.Clone(s.nodeByPID)
	s.mu.Unlock()
	for pid, node := range pids {
		threads := threadsOf(pid)
		if len(threads) == 0 {
			s.forget(pid)
			continue
		}
		longest := int64(0)
		for _, thread := range threads {
			waited := updateWait(waitByThread, thread)
			longest = max(longest, waited)
			if waited >= int64(minStall) {
				s.addFault(node, now-waited, now)
			}
		}
		s.addCPUWait(node, now-longest, now)
	}
}

// updateWait returns how long a thread waited for a processor since the last call, in nanoseconds, and
// stores its total wait. The kernel updates the total only when the thread gets a processor, so the
// wait ended just before. Zero means that the thread has ended or was not known before.
func updateWait(waitByThread map[string]int64, thread string) int64 {
	total, ok := cpuWaitOf(thread)
	before, isKnown := waitByThread[thread]
	waitByThread[thread] = total
	if !ok || !isKnown {
		return 0
	}
	return total - before
}

// forget removes a process that has ended from the observed processes.
func (s *stalls) forget(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodeByPID, pid)
}

// addCPUWait records that a thread of a node waited, unless the wait is shorter than
// minWait.
func (s *stalls) addCPUWait(node string, from, until int64) {
	if until-from < int64(minWait) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cpuWaits = append(s.cpuWaits, history.CPUWait{Node: node, From: from, Until: until})
}

// threadsOf returns the files with the scheduler statistics of the threads of a process.
// There are none if the process has ended.
func threadsOf(pid int) []string {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
	dir, err := os.Open(tasks) //nolint:gosec // a directory of the kernel
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1) // the process may end in the meantime
	for i, name := range names {
		names[i] = tasks + name + "/schedstat"
	}
	return names
}

// cpuWaitOf returns how many nanoseconds a thread has waited for a processor since its start: the
// second number of its schedstat file. ok is false if the thread has ended. The function uses
// neither a directory walk nor os.ReadFile, which take seven times as long: tens of threads are
// observed twenty times per second, while the nodes need the processors.
func cpuWaitOf(file string) (total int64, ok bool) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer func() { _ = unix.Close(fd) }()
	var buf [64]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(buf[:n])
	if len(fields) < 2 {
		return 0, false
	}
	total, err = strconv.ParseInt(string(fields[1]), 10, 64)
	return total, err == nil
}

// recordedWaits returns the waits of threads so far.
func (s *stalls) recordedWaits() []history.CPUWait {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.cpuWaits)
}

// recordedFaults returns the faults of kind history.Stalled so far.
func (s *stalls) recordedFaults() []history.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}
