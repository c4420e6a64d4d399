package proxy

import (
	"net"
	"sync"
	"sync/atomic"
)

// maxIdleWorkers is the maximum number of idle goroutines that wait for connections. Each needs a
// few KiB.
const maxIdleWorkers = 64

// job is a connection that a worker serves.
type job struct {
	conn         net.Conn
	stop         bool // the connection was parked, and must close unless a request has arrived
	returnedSoon bool // the connection was parked only briefly; see parkAfterReturn

	client *client // handed off by an event loop; nil means that the worker creates a client
}

// workerPool serves each connection in a goroutine. After the connection has ended, the goroutine
// waits for another one, because its stack has already grown to the size that a request needs.
// Growing a stack costs more than a tenth of a short connection.
type workerPool struct {
	serve  func(job)
	jobs   chan job      // unbuffered, so that only an idle worker receives
	closed chan struct{} // closed by close
	idle   atomic.Int32
	wg     sync.WaitGroup
}

func newWorkerPool(carry func(job)) *workerPool {
	return &workerPool{serve: carry, jobs: make(chan job), closed: make(chan struct{})}
}

// submit starts to serve the job g. It does not block.
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

// close waits until the last connection has ended. No job may be submitted after it.
func (w *workerPool) close() {
	close(w.closed)
	w.wg.Wait()
}
