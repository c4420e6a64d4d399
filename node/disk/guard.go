package disk

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// guard stands between Raft and its stores: what fails goes no further.
type guard struct {
	dir      string // for the operator
	timeout  time.Duration
	failed   func(error)
	hung     func(bool)
	told     func(time.Duration) // of each write; nil: nobody is
	released chan struct{}       // latch

	once    sync.Once
	stop    sync.Once
	err     atomic.Pointer[error]
	pending atomic.Int64
	slowest slowest

	mu    sync.Mutex // keeps the calls of hung in order
	stuck int        // writes that hang
}

// read runs a call that only reads. It returns only what Raft may see: nil, or
// an error that pass accepts.
func (g *guard) read(op string, pass func(error) bool, f func() error) error {
	g.live()
	err := caught(f)
	if err == nil || pass != nil && pass(err) {
		return err
	}
	g.fail(op, err)
	return err
}

// write runs a call that writes, and reports it while it hangs. It returns only
// if it succeeded.
func (g *guard) write(op string, f func() error) error {
	g.live()
	g.pending.Add(1)
	slow := g.alarm()
	began := time.Now()
	err := caught(f)
	took := time.Since(began)
	g.slowest.took(time.Now(), took)
	if g.told != nil {
		g.told(took)
	}
	g.pending.Add(-1)
	slow()
	// A write that was under way when the node stopped must not be answered to
	// others: who asked takes it for lost, as after a crash.
	g.live()
	if err != nil {
		g.fail(op, err)
	}
	return err
}

// alarm reports a hung write until the returned func is called.
func (g *guard) alarm() (stop func()) {
	if g.timeout < 0 || g.hung == nil {
		return func() {}
	}
	fired := make(chan struct{})
	t := time.AfterFunc(g.timeout, func() {
		defer close(fired)
		g.count(1)
	})
	return func() {
		if !t.Stop() {
			<-fired
			g.count(-1)
		}
	}
}

// count reports the first of several writes that hang and the end of the last.
func (g *guard) count(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.stuck
	g.stuck += n
	if (before == 0) != (g.stuck == 0) {
		g.hung(g.stuck > 0)
	}
}

// caught turns a panic of the store, bbolt's way to report damage, into an error.
func caught(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store panicked: %v", p)
		}
	}()
	return f()
}

// fail reports the first error and does not return: the goroutine ends when the
// stores are released. Its deferred calls run, so Raft's bookkeeping of its
// goroutines stays right and Shutdown can be awaited.
func (g *guard) fail(op string, err error) {
	g.once.Do(func() {
		err = unusable(g.dir, fmt.Errorf("%s: %w", op, err))
		g.err.Store(&err)
		if g.failed != nil {
			g.failed(err)
		}
	})
	<-g.released
	runtime.Goexit()
}

// live ends the goroutine if the stores are released.
func (g *guard) live() {
	select {
	case <-g.released:
		runtime.Goexit()
	default:
	}
}

func (g *guard) first() error {
	if p := g.err.Load(); p != nil {
		return *p
	}
	return nil
}

func (g *guard) release() { g.stop.Do(func() { close(g.released) }) }

func (g *guard) writing() int64 { return g.pending.Load() }
