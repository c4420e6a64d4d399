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
	// stallLook is how often the clock is looked at, and starveLook how often the
	// kernel is asked for how long threads of the nodes had to wait for a processor.
	stallLook  = 10 * time.Millisecond
	starveLook = 50 * time.Millisecond
	// stall is how late the test or a thread must be for that to be noted: a node
	// that finds itself so late takes it for a pause.
	stall = 100 * time.Millisecond
	// short is how long a thread has to wait between two looks for that to be kept.
	short = 5 * time.Millisecond
)

// stalls are the times in which the machine had none for the test, or for a node.
type stalls struct {
	mu     sync.Mutex
	found  []history.Fault
	waited []history.Wait
	pids   map[int]string
}

// track has a node's process looked after until it has ended.
func (s *stalls) track(node string, pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pids == nil {
		s.pids = make(map[int]string)
	}
	s.pids[pid] = node
}

// watch looks at clock and threads until ctx ends.
func (s *stalls) watch(ctx context.Context) {
	t := time.NewTicker(stallLook)
	defer t.Stop()
	waited := make(map[string]int64) // by the file of a thread
	next := int64(0)
	for last := history.Now(); ; {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		now := history.Now()
		if now-last >= int64(stall) {
			s.note("", last, now)
		}
		if last = now; now >= next {
			next = now + int64(starveLook)
			s.starved(waited, now)
		}
	}
}

func (s *stalls) note(node string, from, until int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = append(s.found, history.Fault{Kind: history.Stalled, Node: node, From: from, Until: until})
}

// starved notes which nodes have threads that had to wait for a processor since it looked
// last. The kernel tells for how long in all as it gives them one.
func (s *stalls) starved(waited map[string]int64, now int64) {
	s.mu.Lock()
	pids := maps.Clone(s.pids)
	s.mu.Unlock()
	for pid, node := range pids {
		threads := threadsOf(pid)
		if len(threads) == 0 {
			s.mu.Lock()
			delete(s.pids, pid)
			s.mu.Unlock()
		}
		most := int64(0)
		for _, thread := range threads {
			total, ok := waits(thread)
			if before, known := waited[thread]; ok && known {
				most = max(most, total-before)
				if total-before >= int64(stall) {
					s.note(node, now-(total-before), now)
				}
			}
			waited[thread] = total
		}
		s.wait(node, now-most, now)
	}
}

// wait notes when a node's thread waited, if it is worth it.
func (s *stalls) wait(node string, from, until int64) {
	if until-from < int64(short) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waited = append(s.waited, history.Wait{Node: node, From: from, Until: until})
}

// threadsOf returns the files in which the kernel tells how the threads of a process
// fare; none if there is no such process.
func threadsOf(pid int) []string {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
	dir, err := os.Open(tasks) //nolint:gosec // the kernel's
	if err != nil {
		return nil
	}
	defer func() { _ = dir.Close() }()
	names, _ := dir.Readdirnames(-1) // it may end meanwhile
	for i, name := range names {
		names[i] = tasks + name + "/schedstat"
	}
	return names
}

// waits is for how many nanoseconds a thread had to wait for a processor: the second
// number of its schedstat. Tens of threads are looked at twenty times a second, beside
// what they are to have the processors for: so without a directory walk or os.ReadFile,
// which cost seven times as much.
func waits(file string) (int64, bool) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer func() { _ = unix.Close(fd) }()
	var b [64]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return 0, false
	}
	fields := bytes.Fields(b[:n])
	if len(fields) < 2 {
		return 0, false
	}
	wait, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return wait, err == nil
}

func (s *stalls) waits() []history.Wait {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.waited)
}

func (s *stalls) all() []history.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.found)
}
