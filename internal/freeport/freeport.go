// Package freeport returns loopback addresses for the servers of tests.
//
// Tests of one process may run in parallel: no address is returned twice. Tests in other processes use
// the same range of ports, so each process starts at a random port.
package freeport

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// The range of ports is below the ephemeral ports, which outgoing connections use.
const (
	firstPort = 21000
	lastPort  = 31999
)

var (
	// mu protects nextPort.
	mu       sync.Mutex
	nextPort = firstPort + rand.IntN(lastPort-firstPort+1) //nolint:gosec // a port is no secret
)

// Addrs returns count addresses of the form 127.0.0.1:PORT on which no socket listens.
func Addrs(tb testing.TB, count int) []string {
	tb.Helper()
	var addrs []string
	for range lastPort - firstPort {
		if len(addrs) == count {
			return addrs
		}
		if addr := takeNext(); isFree(tb, addr) {
			addrs = append(addrs, addr)
		}
	}
	tb.Fatalf("freeport: %d of %d ports are free", len(addrs), count)
	return nil
}

// takeNext returns the next address of the range.
func takeNext() string {
	mu.Lock()
	defer mu.Unlock()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(nextPort))
	if nextPort++; nextPort > lastPort {
		nextPort = firstPort
	}
	return addr
}

// isFree reports whether a server can listen on the address with TCP and with UDP.
func isFree(tb testing.TB, addr string) bool {
	tb.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", addr)
	if err != nil {
		return false
	}
	_ = listener.Close()
	packets, err := config.ListenPacket(tb.Context(), "udp", addr)
	if err != nil {
		return false
	}
	_ = packets.Close()
	return true
}
