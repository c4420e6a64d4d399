package proxy

import (
	"net"
	"sync"
	"sync/atomic"
)

// spareHands is how many goroutines wait for connections at most, a few KiB each.
const spareHands = 64

// crew carries connections, each by a goroutine of its own. One that is done waits for
// another connection: its stack has grown to what a request takes, and growing one costs
// more than a tenth of a short connection.
type crew struct {
	carry func(net.Conn)
	next  chan net.Conn // unbuffered: whoever takes from it waits
	over  chan struct{} // closed by dismiss
	spare atomic.Int32
	wg    sync.WaitGroup
}

func newCrew(carry func(net.Conn)) *crew {
	return &crew{carry: carry, next: make(chan net.Conn), over: make(chan struct{})}
}

// take has conn carried. It does not wait.
func (w *crew) take(conn net.Conn) {
	select {
	case w.next <- conn:
	default:
		w.wg.Go(func() { w.work(conn) })
	}
}

func (w *crew) work(conn net.Conn) {
	for {
		w.carry(conn)
		if w.spare.Add(1) > spareHands {
			w.spare.Add(-1)
			return
		}
		select {
		case conn = <-w.next:
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
