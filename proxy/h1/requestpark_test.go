package h1_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"shardway/proxy/h1"
)

// TestRequestParkEndsOnlyAWait checks that RequestPark ends the wait for a request, repeatedly, and
// never a request.
func TestRequestParkEndsOnlyAWait(t *testing.T) {
	piped(t, h1.Timeouts{FirstByte: time.Minute, Header: 10 * time.Second}, func(t *testing.T, c *h1.Conn, peer net.Conn) {
		t.Helper()
		var r h1.Request
		c.RequestPark() // no reader is waiting
		for range 2 {
			time.AfterFunc(time.Second, c.RequestPark)
			began := time.Now()
			if err := c.ReadRequest(&r); !errors.Is(err, h1.ErrParkRequested) || time.Since(began) != time.Second {
				t.Errorf("ReadRequest = %v after %v, want %v after 1s", err, time.Since(began), h1.ErrParkRequested)
			}
		}
		time.AfterFunc(30*time.Second, func() { writeString(t, peer, "GET / HTTP/1.1\r\n") })
		time.AfterFunc(33*time.Second, c.RequestPark) // after a part of the headers has arrived
		time.AfterFunc(35*time.Second, func() { writeString(t, peer, "Host: h\r\n\r\n") })
		if err := c.ReadRequest(&r); err != nil {
			t.Errorf("ReadRequest = %v, want a request", err)
		}
		began := time.Now()
		if err := c.ReadRequest(&r); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("ReadRequest = %v after %v, want a timeout after 1m", err, time.Since(began))
		}
		time.AfterFunc(time.Second, func() { c.RequestPark(); c.StopWaiting() })
		err := c.ReadRequest(&r)
		if errors.Is(err, h1.ErrParkRequested) { // the reader has run between the two calls
			synctest.Wait()
			err = c.ReadRequest(&r)
		}
		for range 2 {
			if !errors.Is(err, h1.ErrStopped) || !c.WaitingStopped() {
				t.Errorf("ReadRequest = %v, want %v: that cannot be undone", err, h1.ErrStopped)
			}
			c.RequestPark()
			err = c.ReadRequest(&r)
		}
	})
}

// alarmed is a connection that calls f after bytes were read and before its reader gets them.
type alarmed struct {
	net.Conn
	f func()
}

func (a *alarmed) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	if n > 0 {
		a.f()
	}
	return n, err
}

// Bytes that have arrived when the wait ends are read as an ordinary request with its usual timeout.
func TestRequestParkIsIgnoredAfterData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer shut(t, near)
		defer shut(t, far)
		a := &alarmed{Conn: near}
		c := h1.NewConn(a, h1.Options{Timeouts: h1.Timeouts{FirstByte: time.Minute, Header: 10 * time.Second}})
		a.f = c.RequestPark
		time.AfterFunc(time.Second, func() { writeString(t, far, "GET / HTTP/1.1\r\n") })
		time.AfterFunc(10*time.Second, func() { writeString(t, far, "Host: h\r\n\r\n") })
		var r h1.Request
		if err := c.ReadRequest(&r); err != nil {
			t.Errorf("ReadRequest = %v, want a request", err)
		}
		time.AfterFunc(59*time.Second, func() { writeString(t, far, "GET / HTTP/1.1\r\nHost: h\r\n\r\n") })
		if err := c.ReadRequest(&r); err != nil {
			t.Errorf("ReadRequest = %v, want the next", err)
		}
	})
}
