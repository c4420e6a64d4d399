package disk

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// guard stands between Raft and its stores. It keeps errors of the stores away from Raft,
// which would panic.
type guard struct {
	dir      string // for the operator
	timeout  time.Duration
	failed   func(error)
	hung     func(bool)
	onWrite  func(time.Duration) // called with the duration of each write; may be nil
	released chan struct{}       // closed by release

	once    sync.Once
	stop    sync.Once
	err     atomic.Pointer[error]
	pending atomic.Int64
	slowest slowestWrite

	mu          sync.Mutex // serializes the calls of hung
	stuckWrites int        // number of hung writes
}

// read runs a read operation. It returns only results that Raft may see: nil, or an error
// that pass accepts.
func (g *guard) read(op string, pass func(error) bool, f func() error) error {
	g.exitIfReleased()
	err := recoverPanic(f)
	if err == nil || pass != nil && pass(err) {
		return err
	}
	g.fail(op, err)
	return err
}

// write runs a write operation and reports it while it hangs. It returns only after
// success.
func (g *guard) write(op string, f func() error) error {
	g.exitIfReleased()
	g.pending.Add(1)
	slow := g.watchWrite()
	began := time.Now()
	err := recoverPanic(f)
	took := time.Since(began)
	g.slowest.record(time.Now(), took)
	if g.onWrite != nil {
		g.onWrite(took)
	}
	g.pending.Add(-1)
	slow()
	// A write that was in progress when the node stopped must not be acknowledged to other
	// nodes. They treat it as lost, as after a crash.
	g.exitIfReleased()
	if err != nil {
		g.fail(op, err)
	}
	return err
}

// watchWrite reports a hung write until the returned function is called.
func (g *guard) watchWrite() (stop func()) {
	if g.timeout < 0 || g.hung == nil {
		return func() {}
	}
	fired := make(chan struct{})
	t := time.AfterFunc(g.timeout, func() {
		defer close(fired)
		g.addStuck(1)
	})
	return func() {
		if !t.Stop() {
			<-fired
			g.addStuck(-1)
		}
	}
}

// addStuck reports the first of several hung writes and the end of the last one.
func (g *guard) addStuck(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.stuckWrites
	g.stuckWrites += n
	if (before == 0) != (g.stuckWrites == 0) {
		g.hung(g.stuckWrites > 0)
	}
}

// recoverPanic converts a panic of the store into an error. bbolt panics when it finds damage.
func recoverPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store panicked: %v", p)
		}
	}()
	return f()
}

// fail reports the first error and does not return: the goroutine exits when the stores are
// released. Its deferred calls run, so that Raft's count of its goroutines stays correct
// and Shutdown can be awaited.
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

// exitIfReleased exits the goroutine if the stores are released.
func (g *guard) exitIfReleased() {
	select {
	case <-g.released:
		runtime.Goexit()
	default:
	}
}

// firstError returns the first error of a store, or nil.
func (g *guard) firstError() error {
	if p := g.err.Load(); p != nil {
		return *p
	}
	return nil
}

// release makes failed calls and all later calls exit their goroutines.
func (g *guard) release() { g.stop.Do(func() { close(g.released) }) }

// pendingWrites returns the number of writes in progress.
func (g *guard) pendingWrites() int64 { return g.pending.Load() }
