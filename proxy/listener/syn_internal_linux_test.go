package listener

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// listenTCP listens as a node does: without Multipath TCP, whose sockets do not support filters.
func listenTCP(t *testing.T, address string) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	ln, err := lc.Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

func TestListenerThatDropsSYNsKeepsBacklog(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			ln := listenTCP(t, address)
			waits, err := new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = waits.Close() }()
			var dropped error
			if err = rawListenerConn(ln).Control(func(fd uintptr) { dropped = dropSYNs(int(fd)) }); err != nil || dropped != nil {
				t.Fatal(err, dropped)
			}
			dialer := net.Dialer{Timeout: 50 * time.Millisecond}
			if late, derr := dialer.DialContext(t.Context(), "tcp", ln.Addr().String()); !os.IsTimeout(derr) {
				t.Errorf("a SYN after the filter: %v, %v, want no response", late, derr)
			}
			conn, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err = waits.Write([]byte("x")); err != nil {
				t.Error(err)
			}
			if n, err := conn.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Errorf("read %d, %v from a connection that waited", n, err)
			}
		})
	}
}

// Connections that arrive while a listener ends are accepted or refused, and never reset.
func TestEndingListenerResetsNoConnection(t *testing.T) {
	const rounds, clients, conns = 40, 4, 25
	var served, reset atomic.Int64
	for range rounds {
		ln := listenTCP(t, "127.0.0.1:0")
		ctx, over := context.WithCancel(t.Context()) // for clients whose SYN was dropped
		established := make(chan struct{}, clients*conns)
		var dials, reads sync.WaitGroup
		for range clients {
			dials.Go(func() {
				for range conns {
					conn, err := new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
					if errors.Is(err, syscall.ECONNRESET) {
						reset.Add(1)
					}
					if err != nil {
						return
					}
					established <- struct{}{}
					reads.Go(func() {
						if n, _ := conn.Read(make([]byte, 1)); n == 1 {
							served.Add(1)
						} else {
							reset.Add(1)
						}
						_ = conn.Close()
					})
				}
			})
		}
		for range clients {
			<-established
		}
		fds := acceptBacklog(ln, handshakeWait)
		over()
		dials.Wait()
		for _, fd := range fds {
			_, _ = syscall.Write(fd, []byte("x"))
			_ = syscall.Close(fd)
		}
		reads.Wait()
	}
	if reset.Load() != 0 {
		t.Errorf("%d connections were reset, %d served", reset.Load(), served.Load())
	}
}

// A handshake that has begun when a listener ends is completed, and the listener ends as soon as none is in progress.
// The listener first drops the last segment of the handshake, so that the client is connected before the server. The
// client's first byte then ends the handshake.
func TestEndingListenerAwaitsHandshakes(t *testing.T) {
	ln := listenTCP(t, "127.0.0.1:0")
	const flagsOffset, syn = 13, 0x02
	onlySYNs := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flagsOffset},
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: syn, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	raw := rawListenerConn(ln)
	var attached error
	if err := raw.Control(func(fd uintptr) {
		attached = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(onlySYNs)), Filter: &onlySYNs[0]})
	}); err != nil || attached != nil {
		t.Fatal(err, attached)
	}
	before := filterLength(t, raw)
	wantHandshakes(t, raw, false)
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	wantHandshakes(t, raw, true)
	accepted := make(chan []int, 1)
	go func() { accepted <- acceptBacklog(ln, time.Hour) }()
	for filterLength(t, raw) == before {
		runtime.Gosched()
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection ended with %v", err)
	}
	fds := <-accepted
	for _, fd := range fds {
		_ = syscall.Close(fd)
	}
	if len(fds) != 1 {
		t.Errorf("%d connections accepted, want the one whose handshake was in progress", len(fds))
	}
}

// wantHandshakes checks whether handshakes with a listener are in progress.
func wantHandshakes(t *testing.T, raw syscall.RawConn, want bool) {
	t.Helper()
	got := false
	if err := raw.Control(func(fd uintptr) { got = hasHandshakes(int(fd)) }); err != nil || got != want {
		t.Errorf("handshakes in progress: %v, %v, want %v", got, err, want)
	}
}

// The race of TestEndingListenerResetsNoConnection lasts microseconds and does not occur in each run,
// so this test checks the SYN filter itself.
func TestEndingListenerDropsSYNs(t *testing.T) {
	ln := listenTCP(t, "127.0.0.1:0")
	if fds := acceptBacklog(ln, handshakeWait); len(fds) != 0 {
		t.Fatalf("%d connections accepted, want none", len(fds))
	}
	if size := filterLength(t, rawListenerConn(ln)); size == 0 {
		t.Error("the listener has no filter")
	}
}

// filterLength returns the number of instructions of a socket's filter.
func filterLength(t *testing.T, raw syscall.RawConn) (size uint32) {
	t.Helper()
	var failed syscall.Errno
	if err := raw.Control(func(fd uintptr) {
		_, _, failed = syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.SOL_SOCKET, unix.SO_GET_FILTER, 0, uintptr(unsafe.Pointer(&size)), 0)
	}); err != nil || failed != 0 {
		t.Fatal(err, failed)
	}
	return size
}
