//go:build !unix

package h1

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// socket reads and writes a kernel socket below its net.Conn. Unlike Read it can borrow the buffer
// when data has arrived, and try without blocking. RawConn.Read waits in the poller of the runtime
// like Read, at the same cost. One goroutine may read and one may write at the same time.
type socket struct {
	raw syscall.RawConn
	// read sends this before it waits; nil means nothing
	sendBeforeRead *Writer
	endIfEmpty     bool
}

// newSocket returns the socket of nc, or nil if nc must be read by its Read method. It may reuse
// the memory of over, which was cleared; nil means none.
func newSocket(*socket, net.Conn, *Options) *socket { return nil }

func (*socket) setStopFlag(*atomic.Bool) {}

func (*socket) clear() { panic("h1: no socket") }

// receive reads into p, or into a borrowed buffer if p is nil. It returns the buffer with the n
// bytes. It borrows no buffer if n is 0. Without wait, n = 0 and no error mean that no data has
// arrived.
func (*socket) receive([]byte, bool) ([]byte, int, error) { panic("h1: no socket") }

// receiveNonblock is receive without waiting. It ignores the deadline.
func (*socket) receiveNonblock([]byte) ([]byte, int, error) { panic("h1: no socket") }

// sendCheckedNonblock sends the data of w as sendFirst does, and keeps what the socket does not
// accept.
func (*socket) sendCheckedNonblock(*Writer) error { panic("h1: no socket") }

// sendNonblock writes what the socket accepts of p at once.
func (*socket) sendNonblock([]byte) (int, error) { panic("h1: no socket") }

// send writes p and waits until the socket has accepted it. While the socket accepts nothing it
// waits up to limit; zero means no limit. It returns the number of bytes that were accepted.
func (*socket) send([]byte, time.Duration) (int, error) { panic("h1: no socket") }

func (*socket) setLast(bool) { panic("h1: no socket") }

func (*socket) endIfSilent([]byte) bool { panic("h1: no socket") }

// noLinger makes closing nc a reset if nc wraps a TCP connection.
func noLinger(net.Conn) {}
