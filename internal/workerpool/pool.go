package workerpool

import (
	"sync"
	"sync/atomic"
)

// maxIdle is the maximum number of idle goroutines of a pool. Each needs a few KiB.
const maxIdle = 64

// Pool runs each job in a goroutine, which then waits for another job.
type Pool[J any] struct {
	run    func(J)
	jobs   chan J        // unbuffered, so that only an idle goroutine receives
	closed chan struct{} // closed by Close
	idle   atomic.Int32
	group  sync.WaitGroup
}

// New returns a pool whose goroutines call run for each job.
func New[J any](run func(J)) *Pool[J] {
	return &Pool[J]{run: run, jobs: make(chan J), closed: make(chan struct{})}
}

// Submit runs a job in an idle goroutine, or in a new one if none is idle. It does not wait for the job.
func (p *Pool[J]) Submit(job J) {
	select {
	case p.jobs <- job:
	default:
		p.group.Go(func() { p.work(job) })
	}
}

// work runs a job, and then waits for further submitted jobs. It returns if maxIdle goroutines are already idle, or
// if the pool is closed.
func (p *Pool[J]) work(job J) {
	for {
		p.run(job)
		if p.idle.Add(1) > maxIdle {
			p.idle.Add(-1)
			return
		}
		select {
		case job = <-p.jobs:
			p.idle.Add(-1)
		case <-p.closed:
			return
		}
	}
}

// Group returns the group of goroutines that Close waits for. A caller that adds to it keeps Close
// waiting, for example for a job that is submitted later.
func (p *Pool[J]) Group() *sync.WaitGroup { return &p.group }

// Close waits for the last job and ends the idle goroutines. No job may be submitted after Close.
func (p *Pool[J]) Close() {
	close(p.closed)
	p.group.Wait()
}
