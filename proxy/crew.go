package proxy

import (
	"net"
	"sync"
	"sync/atomic"
)

// spareHands is how many goroutines wait for connections at most, a few KiB each.
const spareHands = 64

// guest is a connection that is to be carried.
type guest struct {
	conn net.Conn
	stop bool // it was parked, and is to end unless a request has come
	soon bool // it was parked, and its client spoke soon: see parkSoon

	client *client // that a loop has carried; nil: it is one to be made
}

// crew carries connections, each by a goroutine of its own. One that is done waits for
// another connection: its stack has grown to what a request takes, and growing one costs
// more than a tenth of a short connection.
type crew struct {
	carry func(guest)
	next  chan guest    // unbuffered: whoever takes from it waits
	over  chan struct{} // closed by dismiss
	spare atomic.Int32
	wg    sync.WaitGroup
}

func newCrew(carry func(guest)) *crew {
	return &crew{carry: carry, next: make(chan guest), over: make(chan struct{})}
}

// take has g carried. It does not wait.
func (w *crew) take(g guest) {
	select {
	case w.next <- g:
	default:
		w.wg.Go(func() { w.work(g) })
	}
}

func (w *crew) work(g guest) {
	for {
		w.carry(g)
		if w.spare.Add(1) > spareHands {
			w.spare.Add(-1)
			return
		}
		select {
		case g = <-w.next:
			w.spare.Add(-1)
		case <-w.over:
			return
		}
	}
}

// dismiss waits until the last connection has ended. No more is taken.
func (w *crew) dismiss() {
	close(w.over)
	w.wg.Wait()
}
