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

// machine is what a process in a bubble runs on.
type machine struct {
	mu       sync.Mutex
	now, may int // processors that it uses, and that it may use
	share    int // percent of one processor that it is busy for
	used     time.Duration
	last     time.Time
	notKnown bool

	run sync.WaitGroup
}

// start runs the process until stop.
func (m *machine) start(t *testing.T) (stop func()) {
	t.Helper()
	m.last, m.now = time.Now(), m.may
	x := process{cpuTime: m.uses, setCount: m.takes, setMaximum: m.takesAll}
	var p clock.Scheduler
	ctx, cancel := context.WithCancel(t.Context())
	m.run.Go(func() { x.run(ctx, &p, zerolog.Nop()) })
	var beats sync.WaitGroup
	beats.Go(func() { p.Run(ctx) })
	return func() {
		cancel()
		m.run.Wait()
		beats.Wait()
	}
}

func (m *machine) uses() (time.Duration, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used += time.Since(m.last) * time.Duration(m.share) / 100
	m.last = time.Now()
	return m.used, !m.notKnown
}

func (m *machine) takes(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = n
}

func (m *machine) takesAll() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.may
	return m.may
}

// set has it be busy for another share, and allowed so many processors, from now on.
func (m *machine) set(share, may int) {
	m.uses()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.share, m.may = share, may
}

// wants checks how many processors it uses after d.
func (m *machine) wants(t *testing.T, d time.Duration, want int) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now != want {
		t.Errorf("it uses %d processors, want %d", m.now, want)
	}
}

func TestAProcessFollowsItsGovernor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{may: 4, share: 2}
		stop := m.start(t)
		m.wants(t, 20*time.Second, 1)
		m.set(100, 4)
		m.wants(t, 200*time.Millisecond, 4)
		m.set(2, 8) // its container may use more now, which shows when it takes all
		m.wants(t, 12*time.Second, 1)
		m.set(400, 8)
		m.wants(t, 200*time.Millisecond, 8)
		m.set(2, 8)
		m.wants(t, 30*time.Second, 1)
		stop()
		m.wants(t, 0, 8) // who stops has much to do
	})
}

func TestAProcessWithNothingToChooseIsLeftAlone(t *testing.T) {
	for name, m := range map[string]*machine{"one processor": {may: 1}, "an unknown use": {may: 4, notKnown: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop := m.start(t)
				m.run.Wait() // nobody looks at it
				m.wants(t, time.Minute, m.may)
				stop()
			})
		})
	}
}

// What the machine does above the runtime does.
func TestTheRuntimeUsesAllThatItMay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	most := setMaximum()
	runtime.GOMAXPROCS(most + 1)
	if got := setMaximum(); got != most || runtime.GOMAXPROCS(0) != most {
		t.Errorf("all() = %d, and it uses %d, want %d", got, runtime.GOMAXPROCS(0), most)
	}
}
