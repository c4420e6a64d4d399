package processors

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"shardway/internal/clock"
)

// machine simulates the processors of a process in a synctest bubble.
type machine struct {
	mu         sync.Mutex
	inUse      int           // number of processors that the process uses
	maximum    int           // number of processors that the process may use
	load       int           // CPU time that the process uses, in percent of one processor
	cpuTime    time.Duration // CPU time so far
	measuredAt time.Time     // time up to which cpuTime is counted
	isUnknown  bool          // the platform does not report the CPU time

	run sync.WaitGroup // the call of process.run
}

// start runs the process until stop is called.
func (m *machine) start(t *testing.T) (stop func()) {
	t.Helper()
	m.measuredAt, m.inUse = time.Now(), m.maximum
	simulated := process{cpuTime: m.measure, setCount: m.setCount, setMaximum: m.setMaximum}
	var scheduler clock.Scheduler
	ctx, cancel := context.WithCancel(t.Context())
	m.run.Go(func() { simulated.run(ctx, &scheduler, zerolog.Nop()) })
	var ticks sync.WaitGroup
	ticks.Go(func() { scheduler.Run(ctx) })
	return func() {
		cancel()
		m.run.Wait()
		ticks.Wait()
	}
}

// measure returns the CPU time so far, for process.cpuTime.
func (m *machine) measure() (total time.Duration, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cpuTime += time.Since(m.measuredAt) * time.Duration(m.load) / 100
	m.measuredAt = time.Now()
	return m.cpuTime, !m.isUnknown
}

func (m *machine) setCount(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inUse = n
}

func (m *machine) setMaximum() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inUse = m.maximum
	return m.maximum
}

// change sets the load, in percent of one processor, and the number of permitted processors, from now on.
func (m *machine) change(load, maximum int) {
	m.measure()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.load, m.maximum = load, maximum
}

// checkAfter checks how many processors the process uses after a time.
func (m *machine) checkAfter(t *testing.T, d time.Duration, want int) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inUse != want {
		t.Errorf("the process uses %d processors, want %d", m.inUse, want)
	}
}

func TestProcessFollowsItsGovernor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{maximum: 4, load: 2}
		stop := m.start(t)
		m.checkAfter(t, 20*time.Second, 1)
		m.change(100, 4)
		m.checkAfter(t, 200*time.Millisecond, 4)
		m.change(2, 8) // The container limit grows. The process notices that when it uses all processors.
		m.checkAfter(t, 12*time.Second, 1)
		m.change(400, 8)
		m.checkAfter(t, 200*time.Millisecond, 8)
		m.change(2, 8)
		m.checkAfter(t, 30*time.Second, 1)
		stop()
		m.checkAfter(t, 0, 8) // The shutdown has all processors.
	})
}

func TestProcessWithoutAChoiceIsNotAdjusted(t *testing.T) {
	for name, m := range map[string]*machine{"one processor": {maximum: 1}, "unknown CPU time": {maximum: 4, isUnknown: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop := m.start(t)
				m.run.Wait() // process.run returns immediately
				m.checkAfter(t, time.Minute, m.maximum)
				stop()
			})
		})
	}
}

// setMaximum replaces any earlier setting.
func TestSetMaximumUsesAllPermittedProcessors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	maximum := setMaximum()
	runtime.GOMAXPROCS(maximum + 1)
	if got := setMaximum(); got != maximum || runtime.GOMAXPROCS(0) != maximum {
		t.Errorf("setMaximum() = %d, and the process uses %d, want %d", got, runtime.GOMAXPROCS(0), maximum)
	}
}
