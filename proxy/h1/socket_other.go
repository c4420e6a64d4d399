//go:build !unix

package h1

import "net"

// socket exists only where sockets can be read below their net.Conn.
type socket struct{}

func newSocket(net.Conn, *Options) *socket { return nil }

func (*socket) receive([]byte, bool) ([]byte, int, error) { panic("h1: no socket") }

func (*socket) send([]byte) (int, error) { panic("h1: no socket") }

// noLinger cannot reach below a wrapper here.
func noLinger(net.Conn) {}
