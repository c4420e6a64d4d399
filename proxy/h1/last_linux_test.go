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

// segments returns how many segments have come by a connection.
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

// lastSegments has a connection answered and closed, and returns how many segments the
// client got for both.
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

// TestLastAnswerLeavesWithTheEnd counts what the client gets: one segment, not two. The kernel
// sends what it keeps by itself after a while, so a machine that stands still may make it two.
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

// late is a connection on which the peer says something right before it is closed, after
// all looks at it.
type late struct {
	wrapped
	say func()
}

func (l late) Close() error {
	l.say()
	return l.Conn.Close()
}

// unread returns how many bytes a connection has that nobody has read.
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

// A client may say more though it promised not to, the line break behind a body for one (RFC 9112
// section 2.2). Closing on that is a reset, and what the kernel still kept went with it: once
// in some thousands the client had no answer at all.
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
	if b, err := io.ReadAll(far); string(b) != answer { // and then a reset: it broke its word
		t.Errorf("the client got %q, %v, want the answer", b, err)
	}
}

// Nothing of a long one stays behind.
func TestLongLastAnswerArrives(t *testing.T) {
	lastSegments(t, 300<<10, true)
}
