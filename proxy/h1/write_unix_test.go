//go:build unix

package h1_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"shardway/proxy/h1"
)

// stuffed fills the socket buffers of a connection and returns the number of bytes. The far end does
// not read.
func stuffed(t *testing.T, conn syscall.Conn) (n int) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 64<<10)
	err = raw.Write(func(fd uintptr) bool {
		for {
			m, full := syscall.Write(int(fd), part)
			if full != nil {
				return true
			}
			n += m
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A write sets a deadline only if the socket accepts no more. It ends by the write timeout or by the
// limit of the gate, and the next write has no deadline.
func TestWriteToASocketThatTakesNothingIsBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		timeout, gate time.Duration
	}{"by the time-out": {20 * time.Millisecond, 0}, "by the gate": {time.Hour, 20 * time.Millisecond}, "by the gate alone": {0, 20 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			near, far := tcpPair(t)
			c := h1.NewConn(near, h1.Options{Timeouts: h1.Timeouts{Write: tc.timeout}})
			stuffed(t, near.(syscall.Conn)) //nolint:errcheck,forcetypeassert // TCP
			w := c.Writer()
			if tc.gate > 0 {
				w.SetPrecondition(func() (time.Duration, error) { return tc.gate, nil })
			}
			w.PutString("late")
			if err := c.Flush(); !errors.Is(err, os.ErrDeadlineExceeded) || c.Sent() != 0 {
				t.Errorf("Flush = %v, Sent() = %d, want a timeout and 0", err, c.Sent())
			}
			shut(t, far)
		})
	}
}

// noted is a connection that records its write deadlines.
type noted struct {
	wrapped

	until []time.Time
}

func (n *noted) SetWriteDeadline(t time.Time) error {
	n.until = append(n.until, t)
	return n.wrapped.SetWriteDeadline(t)
}

func TestDeadlineOfASlowWriteDoesNotStay(t *testing.T) {
	near, far := tcpPair(t)
	nc := &noted{wrapped: wrapped{near}}
	c := h1.NewConn(nc, h1.Options{Direct: true, Timeouts: h1.Timeouts{Write: time.Hour}})
	w := c.Writer()
	w.PutString("quick")
	if err := c.Flush(); err != nil || len(nc.until) != 0 {
		t.Errorf("Flush = %v with deadlines %v, want none", err, nc.until)
	}
	before := stuffed(t, nc)
	read := make(chan []byte)
	w.SetPrecondition(func() (time.Duration, error) {
		go func() {
			b, err := io.ReadAll(far)
			if err != nil {
				t.Error(err)
			}
			read <- b
		}()
		return time.Minute, nil
	})
	w.PutString("slow")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := len(nc.until); n > 0 && !nc.until[n-1].IsZero() {
		t.Errorf("deadlines %v, want the last to be lifted", nc.until)
	}
	shut(t, c)
	if b := <-read; len(b) != before+9 || !bytes.HasSuffix(b, []byte("slow")) {
		t.Errorf("%d bytes came, want %d and slow at the end", len(b), before+9)
	}
}
