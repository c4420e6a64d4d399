package listener

import (
	"context"
	"errors"
	"net"
	"os"
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
	const rounds, clients, conns = 100, 4, 25
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
		fds := acceptBacklog(ln)
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

// The race of TestEndingListenerResetsNoConnection lasts microseconds and does not occur in each run,
// so this test checks the SYN filter itself.
func TestEndingListenerDropsSYNs(t *testing.T) {
	ln := listenTCP(t, "127.0.0.1:0")
	if fds := acceptBacklog(ln); len(fds) != 0 {
		t.Fatalf("%d connections accepted, want none", len(fds))
	}
	_ = rawListenerConn(ln).Control(func(fd uintptr) {
		var size uint32 // requests the number of instructions
		if _, _, err := syscall.Syscall6(syscall.SYS_GETSOCKOPT, fd, syscall.SOL_SOCKET, unix.SO_GET_FILTER, 0, uintptr(unsafe.Pointer(&size)), 0); err != 0 || size == 0 {
			t.Errorf("a filter of %d instructions, %v", size, err)
		}
	})
}
