//go:build unix

package rawio_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"shardway/internal/rawio"
)

// streams returns both ends of a loopback connection and the sockets below.
func streams(t *testing.T) (a, b *rawio.Stream, at, bt *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	open := func(f func() (net.Conn, error)) (*rawio.Stream, *net.TCPConn) {
		c, err := f()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		tcp, is := c.(*net.TCPConn)
		if !is {
			t.Fatalf("%T", c)
		}
		raw, err := tcp.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		s := &rawio.Stream{}
		s.Open(raw)
		return s, tcp
	}
	a, at = open(func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) })
	b, bt = open(ln.Accept)
	return a, b, at, bt
}

func TestStreamReportsEndOfSocket(t *testing.T) {
	a, b, at, bt := streams(t)
	buf := make([]byte, 8)
	if err := bt.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Read(buf); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || b.ReadAttempts() != 1 {
		t.Errorf("past its deadline Read = %d, %v, by %d tries", n, err, b.ReadAttempts())
	}
	if err := bt.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Write([]byte("a word")); n != 6 || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
	if n, err := b.Read(buf); string(buf[:n]) != "a word" || err != nil {
		t.Errorf("Read = %q, %v", buf[:n], err)
	}
	if err := at.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Read(buf); n != 0 || err != io.EOF { //nolint:errorlint // never wrapped
		t.Errorf("at the end Read = %d, %v", n, err)
	}
	_ = bt.SetLinger(0)
	_ = bt.Close() // a reset
	if n, err := a.Read(buf); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset Read = %d, %v", n, err)
	}
	_ = at.Close()
	if n, err := a.Write(buf); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("when it is closed Write = %d, %v", n, err)
	}
}

// Concurrent writes must not interleave, however little the socket buffer takes at once.
func TestConcurrentStreamWritesDoNotInterleave(t *testing.T) {
	const each, writers = 1 << 20, 4
	a, b, at, _ := streams(t)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			p := make([]byte, each)
			for j := range p {
				p[j] = byte('a' + i)
			}
			if n, err := a.Write(p); n != each || err != nil {
				t.Errorf("Write = %d, %v", n, err)
			}
		})
	}
	go func() {
		all.Wait()
		_ = at.CloseWrite()
	}()
	got, run, buf := 0, byte(0), make([]byte, 4096)
	for {
		n, err := b.Read(buf)
		for _, c := range buf[:n] {
			if got%each == 0 {
				run = c
			}
			if got++; c != run {
				t.Fatalf("byte %d is %c in the midst of %c", got, c, run)
			}
		}
		if err == io.EOF { //nolint:errorlint // never wrapped
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got != each*writers {
		t.Errorf("%d bytes came, want %d", got, each*writers)
	}
}

// Read and Write run for each request, so they must not allocate.
func TestStreamAllocatesNothing(t *testing.T) {
	a, b, _, _ := streams(t)
	buf := []byte("a word and a few more")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := a.Write(buf); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Read(buf); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a write and a read, want none", n)
	}
}
