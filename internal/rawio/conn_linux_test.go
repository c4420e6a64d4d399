//go:build linux && (amd64 || arm64)

package rawio

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair returns a Conn and the client side of the connection.
func pair(t *testing.T, addr string) (c *Conn, far *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	switch {
	case err != nil && strings.HasPrefix(addr, "["):
		t.Skipf("no IPv6 here: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	sc, ok := ln.(syscall.Conn)
	if !ok {
		t.Fatalf("%T has no socket", ln)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var conn net.Conn
	var inherits error
	if err = raw.Control(func(fd uintptr) { inherits = SetInheritedOptions(fd) }); err != nil || inherits != nil {
		t.Fatal(err, inherits)
	}
	host, _, _ := net.SplitHostPort(addr) // with its zone, which a listener does not say
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	dialed, err := net.Dial("tcp", net.JoinHostPort(host, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dialed.Close() })
	if err = raw.Control(func(fd uintptr) {
		conn = Accept(fd)
		if none := Accept(fd); none != nil {
			t.Errorf("accepted %v, though nobody waits", none)
		}
	}); err != nil {
		t.Fatal(err)
	}
	c, ok = conn.(*Conn)
	if !ok {
		t.Fatal("nothing accepted, though a client waits")
	}
	t.Cleanup(func() { _ = c.Close() })
	if far, ok = dialed.(*net.TCPConn); !ok {
		t.Fatalf("dialed a %T", dialed)
	}
	return c, far
}

// waiting returns once a goroutine waits for c, which requires that c is registered with
// the poller.
func waiting(t *testing.T, c *Conn) {
	t.Helper()
	for late := time.Now().Add(20 * time.Second); c.polled.Load() == nil; {
		if time.Now().After(late) {
			t.Fatal("nobody waits")
		}
	}
}

// arrived returns once data has arrived.
func arrived(t *testing.T, c *Conn) {
	t.Helper()
	if err := c.control(func(fd uintptr) {
		if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20_000); n != 1 {
			t.Errorf("nothing has come: %v", err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func writeString(t *testing.T, far io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(far, text); err != nil {
		t.Fatal(err)
	}
}

func TestReadOfAvailableDataDoesNotRegister(t *testing.T) {
	c, far := pair(t, "127.0.0.1:0")
	writeString(t, far, "hello")
	arrived(t, c)
	p := make([]byte, 8)
	if n, err := c.Read(p); err != nil || string(p[:n]) != "hello" {
		t.Fatalf("Read = %q, %v", p[:n], err)
	}
	if n, err := c.Write([]byte("answer")); n != 6 || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
	if c.polled.Load() != nil {
		t.Error("the poller knows a connection that nobody has waited for")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(far); string(b) != "answer" || err != nil {
		t.Errorf("the client got %q, %v", b, err)
	}
}

func TestReadWaitsForData(t *testing.T) {
	c, far := pair(t, "127.0.0.1:0")
	got := make(chan string)
	go func() {
		p := make([]byte, 8)
		n, err := c.Read(p)
		got <- string(p[:n])
		n, again := c.Read(p)
		got <- string(p[:n])
		_, end := c.Read(p)
		if err != nil || again != nil || end != io.EOF { //nolint:errorlint // io.EOF is never wrapped
			t.Errorf("Read = %v, %v, %v, want nil, nil, EOF", err, again, end)
		}
		close(got)
	}()
	waiting(t, c)
	for _, text := range []string{"one", "two"} {
		writeString(t, far, text)
		if s := <-got; s != text {
			t.Errorf("Read %q, want %q", s, text)
		}
	}
	_ = far.Close()
	<-got
}

// Write waits until the socket buffer has taken everything.
func TestLongWriteCompletes(t *testing.T) {
	c, far := pair(t, "127.0.0.1:0")
	long := bytes.Repeat([]byte("0123456789"), 1<<20)
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(far) // a short read fails the test below
		got <- b
	}()
	if n, err := c.Write(long); n != len(long) || err != nil {
		t.Fatalf("Write = %d, %v, want %d", n, err, len(long))
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if b := <-got; !bytes.Equal(b, long) {
		t.Errorf("the client got %d bytes, want the same %d", len(b), len(long))
	}
	writeString(t, far, "more") // the other half is open
	if n, err := c.Read(make([]byte, 8)); n != 4 || err != nil {
		t.Errorf("Read = %d, %v, want 4", n, err)
	}
}

func TestDeadlines(t *testing.T) {
	var wg sync.WaitGroup // for the goroutine that sets the deadlines: the read may end earlier
	for name, set := range map[string]func(t *testing.T, c *Conn){
		"before anybody waits": func(t *testing.T, c *Conn) { t.Helper(); set(t, c, time.Now().Add(time.Millisecond)) },
		"over, with bytes":     func(t *testing.T, c *Conn) { t.Helper(); set(t, c, time.Unix(1, 0)) },
		"while one waits": func(t *testing.T, c *Conn) {
			t.Helper()
			wg.Go(func() { waiting(t, c); set(t, c, time.Unix(1, 0)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, far := pair(t, "127.0.0.1:0")
			if name == "over, with bytes" {
				writeString(t, far, "hello")
				arrived(t, c)
			}
			set(t, c)
			_, err := c.Read(make([]byte, 8))
			wg.Wait()
			var timeout net.Error
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Fatalf("Read = %v, want a timeout", err)
			}
			var op *net.OpError
			if !errors.As(err, &op) || !op.Temporary() { // package tls asks for that
				t.Errorf("%v is not temporary: TLS would not read on", err)
			}
			set2 := c.SetReadDeadline(time.Time{})
			writeString(t, far, "more")
			if n, err := c.Read(make([]byte, 16)); n == 0 || err != nil || set2 != nil {
				t.Errorf("Read = %d, %v after the deadline was lifted (%v)", n, err, set2)
			}
		})
	}
}

// A deadline that is set while another goroutine registers the connection must not be
// overwritten by the earlier one.
func TestDeadlineSetDuringRegistrationHolds(t *testing.T) {
	c, _ := pair(t, "127.0.0.1:0")
	for i := range 5_000 {
		set(t, c, time.Now().Add(time.Hour))
		ended := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			ended <- err
		}()
		waiting(t, c)
		set(t, c, time.Unix(1, 0))
		select {
		case err := <-ended:
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("read %v, want its deadline", err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("round %d: it waits for ever", i)
		}
		if err := Unregister(c); err != nil {
			t.Fatal(err)
		}
	}
}

func set(t *testing.T, c *Conn, at time.Time) {
	t.Helper()
	if err := c.SetDeadline(at); err != nil {
		t.Error(err)
	}
}

func TestCloseEndsWaitingCalls(t *testing.T) {
	c, _ := pair(t, "127.0.0.1:0")
	ended := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 8))
		ended <- err
	}()
	waiting(t, c)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read = %v, want net.ErrClosed", err)
	}
	raw, _ := c.SyscallConn() // it never fails
	_, rerr := c.Read(make([]byte, 8))
	_, werr := c.Write([]byte("x"))
	for what, err := range map[string]error{
		"Read": rerr, "Write": werr, "Close": c.Close(), "SetDeadline": c.SetDeadline(time.Time{}), "CloseWrite": c.CloseWrite(),
		"Control": raw.Control(func(uintptr) {}), "raw Read": raw.Read(func(uintptr) bool { return true }),
	} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s = %v after Close, want net.ErrClosed", what, err)
		}
	}
}

// The descriptor of a closed socket is reused: a call that still used it would read the
// data of another connection.
func TestDescriptorStaysOpenWhileInUse(t *testing.T) {
	c, far := pair(t, "127.0.0.1:0")
	writeString(t, far, "hello")
	arrived(t, c)
	raw, _ := c.SyscallConn() // it never fails
	if err := raw.Read(func(fd uintptr) bool {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		p := make([]byte, 8)
		if n, err := Read(fd, p); string(p[:n]) != "hello" || err != nil {
			t.Errorf("read %q, %v in the middle, want what had come", p[:n], err)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("the client's end is still open")
	}
}

func TestZeroLingerResetsConnection(t *testing.T) {
	c, far := pair(t, "127.0.0.1:0")
	if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client got %v, want a reset", err)
	}
}

// Concurrent reads, writes, deadline changes and Close must all return, in any order.
func TestConcurrentUseAndCloseEnd(t *testing.T) {
	for range 40 {
		c, far := pair(t, "127.0.0.1:0")
		raw, _ := c.SyscallConn() // it never fails
		var all sync.WaitGroup
		all.Go(func() { _, _ = io.Copy(io.Discard, c) })
		all.Go(func() {
			p := make([]byte, 64<<10)
			for raw.Write(func(fd uintptr) bool {
				_ = c.SetWriteDeadline(time.Now().Add(time.Hour)) // as h1 does, in the middle
				_, err := Write(fd, p)
				return err != syscall.EAGAIN //nolint:errorlint // never wrapped
			}) == nil && c.SetReadDeadline(time.Time{}) == nil {
			}
		})
		all.Go(func() {
			for raw.Control(func(uintptr) {}) == nil {
			}
		})
		all.Go(func() {
			_, _ = io.CopyN(io.Discard, far, 200<<10) // until it waits
			_ = c.Close()
		})
		all.Wait()
		_ = far.Close()
	}
}

// An adopted connection has the same socket and is not registered with the poller until a
// goroutine waits. Unregister removes the registration again.
func TestAdoptAndPartUnregister(t *testing.T) {
	near, far := ends(t)
	local, peer := near.LocalAddr().String(), near.RemoteAddr().String()
	c, ok := Adopt(near).(*Conn)
	if !ok {
		t.Fatal("not adopted")
	}
	t.Cleanup(func() { _ = c.Close() })
	if c.LocalAddr().String() != local || c.RemoteAddr().String() != peer || IsRegistered(c) {
		t.Errorf("%v → %v, known %v, want %v → %v, which is not", c.LocalAddr(), c.RemoteAddr(), IsRegistered(c), local, peer)
	}
	p := make([]byte, 8)
	for range 3 {
		got := make(chan error, 1)
		go func() { _, err := c.Read(p); got <- err }()
		waiting(t, c)
		writeString(t, far, "hello")
		if err := <-got; err != nil || !IsRegistered(c) {
			t.Fatalf("Read = %v, known %v", err, IsRegistered(c))
		}
		set(t, c, time.Unix(1, 0)) // it is lifted
		if err := Unregister(c); err != nil || IsRegistered(c) {
			t.Fatalf("Unregister = %v, known %v", err, IsRegistered(c))
		}
		set(t, c, time.Unix(1, 0)) // that is as well, of one that the poller does not know
		if err := Unregister(c); err != nil || IsRegistered(c) {
			t.Fatalf("Unregister = %v, known %v", err, IsRegistered(c))
		}
		writeString(t, far, "again")
		arrived(t, c)
		if n, err := c.Read(p); n != 5 || err != nil || IsRegistered(c) {
			t.Fatalf("Read = %d, %v, known %v", n, err, IsRegistered(c))
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := far.Read(p); err == nil {
		t.Error("the client's end is still open")
	}
	if err := Unregister(c); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Unregister = %v after Close, want net.ErrClosed", err)
	}
}

// A connection that is closed during Unregister stays closed, and its descriptor is closed once.
func TestPartRacesWithClose(t *testing.T) {
	for range 200 {
		c, far := pair(t, "127.0.0.1:0")
		read := make(chan error, 1)
		go func() { _, err := c.Read(make([]byte, 1)); read <- err }()
		waiting(t, c)
		writeString(t, far, "x")
		if err := <-read; err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() { _ = Unregister(c) })
		all.Go(func() { _ = c.Close() })
		all.Wait()
		if _, err := far.Read(make([]byte, 1)); err == nil {
			t.Fatal("the client's end is still open")
		}
		_ = far.Close()
	}
}

// Only TCP connections of package net are adopted.
func TestAdoptLeavesOtherConnectionsUnchanged(t *testing.T) {
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	if Adopt(near) != near || IsRegistered(near) || Unregister(near) == nil {
		t.Error("a pipe is adopted")
	}
}

// A call that uses the socket since before the registration keeps the descriptor until it
// returns. Otherwise the descriptor could be reused by another socket meanwhile.
func TestPartRefusesSocketInUse(t *testing.T) {
	c, far := pair(t, "127.0.0.1:0")
	in, out := make(chan struct{}), make(chan struct{})
	var using sync.WaitGroup
	using.Go(func() {
		if err := c.control(func(fd uintptr) {
			close(in)
			<-out
			var st syscall.Stat_t
			if err := syscall.Fstat(int(fd), &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFSOCK {
				t.Errorf("by the number in use there is mode %o, %v", st.Mode, err)
			}
		}); err != nil {
			t.Error(err)
		}
	})
	<-in
	read := make(chan error, 1)
	go func() { _, err := c.Read(make([]byte, 1)); read <- err }()
	waiting(t, c)
	writeString(t, far, "x")
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if err := Unregister(c); !errors.Is(err, syscall.EBUSY) || !IsRegistered(c) {
		t.Errorf("Unregister = %v, known %v, want EBUSY", err, IsRegistered(c))
	}
	close(out)
	using.Wait()
	if err := Unregister(c); err != nil || IsRegistered(c) {
		t.Errorf("Unregister = %v, known %v", err, IsRegistered(c))
	}
}
