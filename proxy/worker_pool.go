package proxy

import (
	"net"
	"sync"
	"sync/atomic"
)

// maxIdleWorkers is how many goroutines wait for connections at most, a few KiB each.
const maxIdleWorkers = 64

// job is a connection that is to be carried.
type job struct {
	conn         net.Conn
	stop         bool // it was parked, and is to end unless a request has come
	returnedSoon bool // it was parked, and its client spoke soon: see parkAfterReturn

	client *client // that a loop has carried; nil: it is one to be made
}

// workerPool carries connections, each by a goroutine of its own. One that is done waits for
// another connection: its stack has grown to what a request takes, and growing one costs
// more than a tenth of a short connection.
type workerPool struct {
	serve  func(job)
	jobs   chan job      // unbuffered: whoever takes from it waits
	closed chan struct{} // closed by dismiss
	idle   atomic.Int32
	wg     sync.WaitGroup
}

func newWorkerPool(carry func(job)) *workerPool {
	return &workerPool{serve: carry, jobs: make(chan job), closed: make(chan struct{})}
}

// submit has g carried. It does not wait.
func (w *workerPool) submit(g job) {
	select {
	case w.jobs <- g:
	default:
		w.wg.Go(func() { w.work(g) })
	}
}

func (w *workerPool) work(g job) {
	for {
		w.serve(g)
		if w.idle.Add(1) > maxIdleWorkers {
			w.idle.Add(-1)
			return
		}
		select {
		case g = <-w.jobs:
			w.idle.Add(-1)
		case <-w.closed:
			return
		}
	}
}

// close waits until the last connection has ended. No more is taken.
func (w *workerPool) close() {
	close(w.closed)
	w.wg.Wait()
}
