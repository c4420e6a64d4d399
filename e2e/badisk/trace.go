//go:build linux

package badisk

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// patience bounds how long attaching and detaching may take.
const patience = 20 * time.Second

// Tracer is one strace at work. Its methods may be called from any goroutine.
type Tracer struct {
	pid      int
	strace   *child
	attached chan struct{} // latch: strace says so
	read     chan struct{} // latch: all that it wrote was read
	hits     atomic.Int64
	stop     sync.Once
	err      error // of Stop

	mu   sync.Mutex
	last []string // what strace said beside its calls, for errors
}

// Trace lets a process suffer a fault until Stop, all its threads and those it
// makes meanwhile. It returns when every thread is traced: the next call fails.
// A process has one tracer at a time.
func Trace(pid int, f Fault) (*Tracer, error) {
	args, err := f.args()
	if err != nil {
		return nil, err
	}
	c, err := begin(append([]string{"strace", "-f", "-p", strconv.Itoa(pid)}, args...)...)
	if err != nil {
		return nil, err
	}
	t := &Tracer{pid: pid, strace: c, attached: make(chan struct{}), read: make(chan struct{})}
	go t.follow(c.output)
	if err := t.await(); err != nil {
		return nil, errors.Join(err, t.Stop())
	}
	return t, nil
}

// await waits until strace has every thread.
func (t *Tracer) await() error {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	attached := t.attached
	for {
		select {
		case <-attached:
			attached = nil // from now on the threads tell
		case <-tick.C:
		case <-t.read:
			return fmt.Errorf("badisk: strace of %d ended: %s", t.pid, t.said())
		case <-deadline.C:
			return fmt.Errorf("badisk: strace has not attached to %d after %v: %s", t.pid, patience, t.said())
		}
		if attached == nil && t.whole() {
			return nil
		}
	}
}

// whole tells whether our strace traces every thread.
func (t *Tracer) whole() bool {
	dir := fmt.Sprintf("/proc/%d/task", t.pid)
	threads, err := os.ReadDir(dir)
	if err != nil || len(threads) == 0 {
		return false
	}
	tracer := fmt.Sprintf("\nTracerPid:\t%d\n", t.strace.pid)
	for _, e := range threads {
		status, err := os.ReadFile(dir + "/" + e.Name() + "/status") //nolint:gosec // of the kernel
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil || !strings.Contains(string(status), tracer) {
			return false
		}
	}
	return true
}

// follow reads what strace writes: it would stand still, and the process with it,
// if nobody did.
func (t *Tracer) follow(r io.Reader) {
	defer close(t.read)
	attached := sync.OnceFunc(func() { close(t.attached) })
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasSuffix(line, "(INJECTED)"), strings.HasSuffix(line, "(DELAYED)"), strings.HasSuffix(line, "(INJECTED) (DELAYED)"):
			t.hits.Add(1)
			continue
		case strings.HasPrefix(line, fmt.Sprintf("strace: Process %d attached", t.pid)):
			attached()
		}
		t.mu.Lock()
		t.last = append(t.last[max(0, len(t.last)-9):], line)
		t.mu.Unlock()
	}
}

func (t *Tracer) said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.last, "; ")
}

// Hits is how many calls have met the fault and returned.
func (t *Tracer) Hits() int { return int(t.hits.Load()) }

// Stop takes strace away and returns when the process is traced no more. A call
// that waits goes on at once, and so may a process that SIGSTOP had stopped. Only
// the first call does anything.
func (t *Tracer) Stop() error {
	t.stop.Do(func() {
		t.err = t.detach()
		<-t.read
		_ = t.strace.output.Close()
	})
	return t.err
}

// detach asks strace to let go of all its threads and to end. It may wait for ever
// for one of a process that is dead meanwhile: then the kernel lets go for it.
func (t *Tracer) detach() error {
	_ = t.strace.cmd.Process.Signal(syscall.SIGINT) // it may have ended
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-t.strace.ended:
			return nil
		case <-tick.C:
			if t.dead() {
				t.strace.kill()
				return nil
			}
		case <-deadline.C:
			t.strace.kill()
			return fmt.Errorf("badisk: strace of %d has not ended after %v: %s", t.pid, patience, t.said())
		}
	}
}

// dead tells whether the process has ended, waited for or not.
func (t *Tracer) dead() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", t.pid))
	if err != nil {
		return true
	}
	// The state follows the name, which is in parentheses.
	_, state, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}
