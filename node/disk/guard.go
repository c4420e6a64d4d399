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
	dir          string // for the operator
	writeTimeout time.Duration
	onFailure    func(error)
	onStall      func(bool)
	onWrite      func(time.Duration) // called with the duration of each write; may be nil
	released     chan struct{}       // closed by release

	failOnce     sync.Once
	releaseOnce  sync.Once
	err          atomic.Pointer[error]
	pending      atomic.Int64
	slowestWrite slowestWrite

	mu            sync.Mutex // serializes the calls of onStall
	stalledWrites int        // number of stalled writes
}

// read runs a read operation. It returns only results that Raft may receive: nil, or an error for
// which isExpected returns true. Any other error ends the goroutine; see fail.
func (g *guard) read(op string, isExpected func(error) bool, run func() error) error {
	g.exitIfReleased()
	err := recoverPanic(run)
	if err == nil || isExpected != nil && isExpected(err) {
		return err
	}
	g.fail(op, err)
	return err
}

// write runs a write operation and reports it while it is stalled. It returns only after success;
// see fail.
func (g *guard) write(op string, run func() error) error {
	g.exitIfReleased()
	g.pending.Add(1)
	stopWatch := g.watchWrite()
	start := time.Now()
	err := recoverPanic(run)
	took := time.Since(start)
	g.slowestWrite.record(time.Now(), took)
	if g.onWrite != nil {
		g.onWrite(took)
	}
	g.pending.Add(-1)
	stopWatch()
	// A write that was in progress when the node stopped must not be acknowledged to other
	// nodes. They treat it as lost, as after a crash.
	g.exitIfReleased()
	if err != nil {
		g.fail(op, err)
	}
	return err
}

// watchWrite reports a write as stalled once it takes longer than writeTimeout. The caller must
// call stop after the write.
func (g *guard) watchWrite() (stop func()) {
	if g.writeTimeout < 0 || g.onStall == nil {
		return func() {}
	}
	fired := make(chan struct{})
	timer := time.AfterFunc(g.writeTimeout, func() {
		defer close(fired)
		g.countStalled(1)
	})
	return func() {
		if !timer.Stop() {
			<-fired
			g.countStalled(-1)
		}
	}
}

// countStalled adds delta to the number of stalled writes. It calls onStall when the first write
// stalls, and when the last stalled write has ended.
func (g *guard) countStalled(delta int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.stalledWrites
	g.stalledWrites += delta
	if (before == 0) != (g.stalledWrites == 0) {
		g.onStall(g.stalledWrites > 0)
	}
}

// recoverPanic converts a panic of the store into an error. bbolt panics when it finds damage.
func recoverPanic(run func() error) (err error) {
	defer func() {
		if panicValue := recover(); panicValue != nil {
			err = fmt.Errorf("store panicked: %v", panicValue)
		}
	}()
	return run()
}

// fail reports the first error and does not return: the goroutine exits when the stores are
// released. Its deferred calls run, so that Raft's count of its goroutines stays correct
// and Shutdown can be awaited.
func (g *guard) fail(op string, err error) {
	g.failOnce.Do(func() {
		err = unusableError(g.dir, fmt.Errorf("%s: %w", op, err))
		g.err.Store(&err)
		if g.onFailure != nil {
			g.onFailure(err)
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
	if err := g.err.Load(); err != nil {
		return *err
	}
	return nil
}

// release makes failed calls and all later calls exit their goroutines.
func (g *guard) release() { g.releaseOnce.Do(func() { close(g.released) }) }

// pendingWrites returns the number of writes in progress.
func (g *guard) pendingWrites() int64 { return g.pending.Load() }
