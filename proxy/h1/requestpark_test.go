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

// TestRequestParkEndsOnlyAWait has it end one wait after another, and no request.
func TestRequestParkEndsOnlyAWait(t *testing.T) {
	piped(t, h1.Timeouts{First: time.Minute, Header: 10 * time.Second}, func(t *testing.T, c *h1.Conn, peer net.Conn) {
		t.Helper()
		var r h1.Request
		c.RequestPark() // nobody waits
		for range 2 {
			time.AfterFunc(time.Second, c.RequestPark)
			began := time.Now()
			if err := c.ReadRequest(&r); !errors.Is(err, h1.ErrParkRequested) || time.Since(began) != time.Second {
				t.Errorf("ReadRequest = %v after %v, want %v after 1s", err, time.Since(began), h1.ErrParkRequested)
			}
		}
		time.AfterFunc(30*time.Second, func() { writeString(t, peer, "GET / HTTP/1.1\r\n") })
		time.AfterFunc(33*time.Second, c.RequestPark) // a head has begun
		time.AfterFunc(35*time.Second, func() { writeString(t, peer, "Host: h\r\n\r\n") })
		if err := c.ReadRequest(&r); err != nil {
			t.Errorf("ReadRequest = %v, want a request", err)
		}
		began := time.Now()
		if err := c.ReadRequest(&r); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("ReadRequest = %v after %v, want a timeout after 1m", err, time.Since(began))
		}
		time.AfterFunc(time.Second, func() { c.RequestPark(); c.StopWaiting() })
		if err := c.ReadRequest(&r); !errors.Is(err, h1.ErrStopped) || !c.WaitingStopped() {
			t.Errorf("ReadRequest = %v, want %v: that cannot be undone", err, h1.ErrStopped)
		}
	})
}

// alarmed calls f when bytes have been read, before their reader has them.
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

// What has come when the wait is ended is a request as any other, and has the time of one.
func TestRequestParkIsIgnoredAfterData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer shut(t, near)
		defer shut(t, far)
		a := &alarmed{Conn: near}
		c := h1.NewConn(a, h1.Options{Timeouts: h1.Timeouts{First: time.Minute, Header: 10 * time.Second}})
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
