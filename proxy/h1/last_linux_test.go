package h1_test

import (
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"shardway/proxy/h1"
)

// segments returns the number of segments that a connection has received.
func segments(t *testing.T, conn net.Conn) (n uint32) {
	t.Helper()
	sc, ok := conn.(syscall.Conn)
	if !ok {
		t.Fatalf("%T has no socket", conn)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	if cerr := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return info.Segs_in
}

// lastSegments sends a response, closes the connection, and returns the number of segments that the
// client has received for both.
func lastSegments(t *testing.T, size int, last bool) uint32 {
	t.Helper()
	near, far := tcpPair(t)
	c := h1.NewConn(near, h1.Options{})
	writeString(t, far, lastRequest)
	var r h1.Request
	if err := c.ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	before := segments(t, far)
	w := c.Writer()
	w.PutString(strings.Repeat("x", size))
	var err error
	if last {
		err = w.CloseLast(nil)
	} else {
		err = w.Close(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.CloseLast()
	if b, err := io.ReadAll(far); err != nil || len(b) != size {
		t.Fatalf("the client got %d bytes, %v, want %d", len(b), err, size)
	}
	return segments(t, far) - before
}

// TestLastAnswerLeavesWithTheEnd expects one segment for the last response and the FIN, not two. The
// kernel sends corked data after a while on its own, so a paused machine may need two.
func TestLastAnswerLeavesWithTheEnd(t *testing.T) {
	if raceEnabled {
		t.Skip("package rawio has other calls under the race detector")
	}
	least := lastSegments(t, 100, true)
	for range 9 {
		least = min(least, lastSegments(t, 100, true))
	}
	if apart := lastSegments(t, 100, false); least != 1 || apart != 2 {
		t.Errorf("%d segments, %d where they leave apart, want 1 and 2", least, apart)
	}
}

// late is a connection whose peer sends data right before the close, after all checks for such data.
type late struct {
	wrapped
	say func()
}

func (l late) Close() error {
	l.say()
	return l.Conn.Close()
}

// unread returns the number of received bytes that have not been read.
func unread(t *testing.T, conn net.Conn) (n int) {
	t.Helper()
	raw, err := wrapped{conn}.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return n
}

// A client may send more after its last request although it announced the close, for example a line
// break after a body (RFC 9112 section 2.2). Closing the connection then causes a reset, which
// discards the data that the kernel still holds. Once in some thousands of cases, the client got no
// response.
func TestLastResponseArrivesAlthoughTheClientSendsMoreAtTheEnd(t *testing.T) {
	near, far := tcpPair(t)
	c := h1.NewConn(late{wrapped{near}, func() {
		writeString(t, far, "\r\n")
		for unread(t, near) == 0 {
			runtime.Gosched()
		}
	}}, h1.Options{Direct: true})
	writeString(t, far, lastRequest)
	var r h1.Request
	if err := c.ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	const answer = "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
	c.Writer().PutString(answer)
	if err := c.Writer().CloseLast(nil); err != nil {
		t.Fatal(err)
	}
	c.CloseLast()
	if b, err := io.ReadAll(far); string(b) != answer { // followed by a reset, because the client broke the protocol
		t.Errorf("the client got %q, %v, want the answer", b, err)
	}
}

// A long last response is sent completely.
func TestLongLastAnswerArrives(t *testing.T) {
	lastSegments(t, 300<<10, true)
}
