//go:build !unix

package h1

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// socket exists only where sockets can be read below their net.Conn.
type socket struct {
	raw            syscall.RawConn
	sendBeforeRead *Writer
	fin            bool
}

func newSocket(*socket, net.Conn, *Options) *socket { return nil }

func (*socket) stops(*atomic.Bool) {}

func (*socket) forget() { panic("h1: no socket") }

func (*socket) receive([]byte, bool) ([]byte, int, error) { panic("h1: no socket") }

func (*socket) receiveNonblock([]byte) ([]byte, int, error) { panic("h1: no socket") }

func (*socket) sendCheckedNonblock(*Writer) error { panic("h1: no socket") }

func (*socket) sendNonblock([]byte) (int, error) { panic("h1: no socket") }

func (*socket) send([]byte, time.Duration) (int, error) { panic("h1: no socket") }

func (*socket) ends(bool) { panic("h1: no socket") }

func (*socket) silent([]byte) bool { panic("h1: no socket") }

// noLinger cannot reach below a wrapper here.
func noLinger(net.Conn) {}
