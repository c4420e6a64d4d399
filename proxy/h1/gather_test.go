package h1_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy/h1"
)

// counted counts the operations on a connection.
type counted struct {
	net.Conn
	calls int
}

func (c *counted) Read(p []byte) (int, error) {
	c.calls++
	return c.Conn.Read(p)
}

func (c *counted) SetReadDeadline(t time.Time) error {
	c.calls++
	return c.Conn.SetReadDeadline(t)
}

// gathering reads a response and then gathers its body. rest arrives after late. If cut is set, the
// connection then ends.
func gathering(t *testing.T, answer, rest string, late time.Duration, cut bool, f func(r *h1.Response, c *counted)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer shut(t, near)
		defer shut(t, far)
		conn := &counted{Conn: near}
		c := h1.NewConn(conn, h1.Options{Buffers: new(h1.Buffers), ReadBuffer: 32 << 10})
		go func() {
			_, _ = io.WriteString(far, answer)
			time.Sleep(late)
			_, _ = io.WriteString(far, rest)
			if cut {
				_ = far.Close()
			}
		}()
		var r h1.Response
		if err := c.ReadResponse(&r, []byte("GET")); err != nil {
			t.Fatal(err)
		}
		f(&r, conn)
		_ = near.Close()
	})
}

const gatherFor = 25 * time.Millisecond

func gatherHead(n int) string { return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", n) }

// Gathering a body that has arrived with its headers needs no read and sets no deadline.
func TestGatherOfBufferedBodyReadsNothing(t *testing.T) {
	for name, answer := range map[string]string{
		"whole": gatherHead(4) + "body", "empty": gatherHead(0),
		"long": gatherHead(40000) + "part", "chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n",
		"until close": "HTTP/1.1 200 OK\r\n\r\npart",
	} {
		gathering(t, answer, "", 0, false, func(r *h1.Response, c *counted) {
			before, began := c.calls, time.Now()
			if err := r.Body.WaitBuffered(32<<10, gatherFor); err != nil || c.calls != before || time.Since(began) != 0 {
				t.Errorf("%s: Gather = %v with %d calls after %v", name, err, c.calls-before, time.Since(began))
			}
		})
	}
}

func TestGatherWaitsForTheRestAndNoLonger(t *testing.T) {
	big := strings.Repeat("x", 32<<10)
	for _, tc := range []struct {
		name       string
		late, took time.Duration
		cut        bool
		err        error
	}{
		{"in time", gatherFor / 2, gatherFor / 2, false, nil},
		{"late", time.Second, gatherFor, false, nil},
		{"cut", gatherFor / 2, gatherFor / 2, true, io.ErrUnexpectedEOF},
	} {
		body := big
		if tc.cut {
			body = big[1:]
		}
		gathering(t, gatherHead(len(big))+body[:1000], body[1000:], tc.late, tc.cut, func(r *h1.Response, _ *counted) {
			began := time.Now()
			err := r.Body.WaitBuffered(32<<10, gatherFor)
			if took := time.Since(began); !errors.Is(err, tc.err) || took < tc.took || took > tc.took*17/16 {
				t.Errorf("%s: Gather = %v after %v, want %v after %v", tc.name, err, took, tc.err, tc.took)
			}
			if tc.err != nil {
				return
			}
			if got, err := io.ReadAll(&r.Body); err != nil || string(got) != big {
				t.Errorf("%s: %d bytes, %v", tc.name, len(got), err)
			}
		})
	}
}
