//go:build unix

package h1_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"shardway/proxy/h1"
)

// localPair returns both ends of a socket without a port, because a fuzz test needs thousands of them.
func localPair(tb testing.TB) (near, far net.Conn) {
	tb.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		tb.Fatal(err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f) // it has its own descriptor
		shut(tb, f)
		if err != nil {
			tb.Fatal(err)
		}
		ends[i] = c
	}
	return ends[0], ends[1]
}

// inTwo lets a Conn parse after the first cut bytes and after the rest, until it has a complete
// message or leaves the rest to a blocking reader. All bytes and the FIN are available by then.
func inTwo(t *testing.T, b []byte, cut uint16, look func(c *h1.Conn) h1.ParseResult) (c *h1.Conn, whole bool) {
	t.Helper()
	near, far := localPair(t)
	c = h1.NewConn(near, h1.Options{})
	at := int(cut) % (len(b) + 1)
	found := h1.ParseNoData
	for _, some := range [][]byte{b[:at], b[at:]} {
		writeString(t, far, string(some))
		if found == h1.ParseNoData || found == h1.ParseIncomplete {
			found = look(c)
		}
	}
	shut(t, far)
	t.Cleanup(func() { _ = c.Close() })
	return c, found == h1.ParseComplete
}

// FuzzRequestNow compares the non-blocking parser with the blocking one: both find the same requests,
// and the first leaves the remaining bytes unchanged.
func FuzzRequestNow(f *testing.F) {
	for _, s := range []string{
		header(""), "\r\n" + header("A: b\r\n"), header("") + header("A: b\r\n"), header("") + "\r\n",
		"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: h\r\n\r\n",
		chunkedHead + "3;a=\"b\"\r\nabc\r\n0\r\nX-A: 1\r\n\r\nrest", header("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\n",
		"OPTIONS http://h HTTP/1.1\r\nHost: h\r\n\r\n", "GET / HTTP/1.0\r\n\r\n", "GET /\r\n\r\n", "",
	} {
		f.Add([]byte(s), uint16(0))
		f.Add([]byte(s), uint16(17))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		if len(b) > 16<<10 {
			return // more than one attempt or the socket buffer takes
		}
		var r h1.Request
		c, whole := inTwo(t, b, cut, func(c *h1.Conn) h1.ParseResult { return c.TryReadRequest(&r) })
		if !whole {
			if got, want := fmt.Sprint(ours(c)), fmt.Sprint(ours(over(string(b)))); got != want {
				t.Fatalf("left to one who waits it is %s, want %s", got, want)
			}
			return
		}
		got, err := oursOf(c, &r)
		want, wantErr := ours(over(string(b)))
		if got != want || (err == nil) != (wantErr == nil) {
			t.Fatalf("found %+v, %v, want %+v, %v", got, err, want, wantErr)
		}
	})
}

// answered returns a description of a response and of the bytes after it.
func answered(c *h1.Conn, r *h1.Response) string {
	body, err := io.ReadAll(&r.Body)
	if err != nil {
		return "cut or refused"
	}
	rest, err := io.ReadAll(c.InitRestBody(new(h1.Body)))
	return fmt.Sprintf("%d %q %q %v, %q behind it, %v", r.Status(), r.Raw(), body, r.KeepAlive(), rest, err)
}

// waited reads a response with the blocking parser.
func waited(c *h1.Conn, method []byte) string {
	var r h1.Response
	if c.ReadResponse(&r, method) != nil {
		return "cut or refused"
	}
	return answered(c, &r)
}

// FuzzResponseNow does the same for responses. A truncated response, or one that is not the final one,
// is never reported as complete.
func FuzzResponseNow(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", "",
	} {
		for _, cut := range []uint16{0, 12, 40} {
			f.Add([]byte(s), cut, false)
			f.Add([]byte(s), cut, true)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint16, head bool) {
		if len(b) > 4<<10 {
			return // more than one attempt or the socket buffer takes
		}
		method := []byte("GET")
		if head {
			method = []byte("HEAD")
		}
		var r h1.Response
		c, whole := inTwo(t, b, cut, func(c *h1.Conn) h1.ParseResult { return c.TryReadResponse(&r, method) })
		var got string
		if whole {
			c.ConsumeResponse(&r)
			if !r.Body.IsBuffered() || !r.KeepAlive() {
				t.Fatal("found whole, and it is not all here, or the last")
			}
			got = answered(c, &r)
		} else {
			got = waited(c, method)
		}
		if want := waited(over(string(b)), method); got != want {
			t.Fatalf("whole: %v: it is %s, want %s", whole, got, want)
		}
	})
}
