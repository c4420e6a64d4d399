//go:build !unix

package h1

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// socket is unused on these systems: newSocket returns nil, so that a Conn uses the methods of net.Conn.
type socket struct {
	raw               syscall.RawConn
	sendBeforeRead    *Writer
	closeWriteIfEmpty bool
}

// newSocket returns nil: nc must be read with its Read method.
func newSocket(*socket, net.Conn, *Options) *socket { return nil }

func (*socket) setStopFlag(*atomic.Bool) {}

func (*socket) clear() { panic("h1: no socket") }

func (*socket) receive([]byte, bool) ([]byte, int, error) { panic("h1: no socket") }

func (*socket) receiveNonblock([]byte) ([]byte, int, error) { panic("h1: no socket") }

func (*socket) sendCheckedNonblock(*Writer) error { panic("h1: no socket") }

func (*socket) sendNonblock([]byte) (int, error) { panic("h1: no socket") }

func (*socket) send([]byte, time.Duration) (int, error) { panic("h1: no socket") }

func (*socket) setLast(bool) { panic("h1: no socket") }

func (*socket) closeWriteIfSilent([]byte) bool { panic("h1: no socket") }

// noLinger does nothing: there is no access to the socket below a wrapper.
func noLinger(net.Conn) {}
