package peer

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// prompts returns both ends of a low-latency connection over loopback.
func prompts(t *testing.T) (a, b *lowLatencyConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	var ends [2]*lowLatencyConn
	for i, open := range []func() (net.Conn, error){
		func() (net.Conn, error) { return net.Dial("tcp", ln.Addr().String()) }, ln.Accept,
	} {
		c, err := open()
		if err != nil {
			t.Fatal(err)
		}
		p, ok := newLowLatencyConn(c, nil).(*lowLatencyConn)
		if !ok {
			t.Fatalf("%T is not made prompt", c)
		}
		t.Cleanup(func() { _ = p.Close() })
		ends[i] = p
	}
	return ends[0], ends[1]
}

// larger is more than the kernel buffers without a reader.
var larger = bytes.Repeat([]byte("0123456789abcdef"), 1<<20)

// A connection with raw reads and writes behaves like a net.TCPConn.
func TestRawConnBehavesLikeTCPConn(t *testing.T) {
	a, b := prompts(t)
	got := make(chan []byte, 1)
	go func() {
		all, err := io.ReadAll(b)
		if err != nil {
			t.Error(err)
		}
		got <- all
	}()
	if n, err := a.Write(larger); n != len(larger) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(larger), err)
	}
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(<-got, larger) {
		t.Error("the received data differs from the sent data")
	}
	if n, err := b.Read(nil); n != 0 || err != nil {
		t.Errorf("reading nothing: %d, %v", n, err)
	}
}

// TestChecksFindTheDataOfReads tests checks that replace reads while the process has a high latency. A
// check must not take the end of a stream for silence, because the reader would wait forever.
func TestChecksFindTheDataOfReads(t *testing.T) {
	a, b := prompts(t)
	buf := make([]byte, 4)
	look := func(what, want string, over error) {
		t.Helper()
		b.poller = new(readPoller)
		b.poller.latency.fallBehind()
		n, err := b.Read(buf)
		if string(buf[:n]) != want || !errors.Is(err, over) {
			t.Errorf("%s: %q, %v, want %q, %v", what, buf[:n], err, want, over)
		}
	}
	in, ok := b.socket.(interface {
		TryRead(b []byte) (n int, there bool, err error)
	})
	if !ok {
		t.Skip("sockets cannot be looked at here")
	}
	if n, there, err := in.TryRead(buf); n != 0 || there || err != nil {
		t.Errorf("nothing is there: %d, %v, %v", n, there, err)
	}
	if n, err := a.Write([]byte("beat")); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	look("something is there", "beat", nil)
	buf = buf[:0]
	look("no room for it", "", nil)
	buf = buf[:4]
	if err := b.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	look("the deadline is over", "", os.ErrDeadlineExceeded)
	if err := b.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	look("the end", "", io.EOF)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	look("it is closed here", "", net.ErrClosed)
}

// TestRawSocketsFailAsOthersDo tests that errors are those of package net, because Raft and TLS depend
// on them.
func TestRawSocketsFailAsOthersDo(t *testing.T) {
	a, b := prompts(t)
	if err := b.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var err error
	for err == nil { // until the buffers are full, because the peer does not read
		_, err = b.Write(larger)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write without a reader ended with %v", err)
	}
	if err = a.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = a.Close() // causes a reset
	if _, err = a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read of a locally closed connection ended with %v", err)
	}
	_, err = b.Read(make([]byte, 1))
	op := new(net.OpError)
	if !errors.Is(err, syscall.ECONNRESET) || !errors.As(err, &op) || op.Addr.String() != b.RemoteAddr().String() {
		t.Errorf("a read of a reset connection ended with %v", err)
	}
}

func TestRawReadsReportPresentData(t *testing.T) {
	a, b := prompts(t)
	in, ok := b.socket.(*rawConn)
	if !ok {
		t.Skip("sockets are not read below their net.Conn here")
	}
	if _, err := a.Write([]byte("xy")); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 1)
	for range 2 { // when the first has arrived, both have
		if _, err := in.Read(p); err != nil {
			t.Fatal(err)
		}
	}
	if !in.ReadImmediately() {
		t.Error("data that had arrived did not count as present")
	}
	if err := in.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(p); err == nil || in.ReadImmediately() {
		t.Error("nothing counted as there")
	}
}
