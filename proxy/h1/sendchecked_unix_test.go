//go:build unix

package h1_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shardway/proxy/h1"
)

// asking returns a Conn with a buffered request.
func asking(t *testing.T, near net.Conn) *h1.Conn {
	t.Helper()
	c := h1.NewConn(near, h1.Options{Timeouts: h1.Timeouts{Write: time.Minute}})
	c.Writer().PutString(header(""))
	return c
}

// A request is not sent on a connection with unsolicited data, because the data would be read as its
// response, and the request may belong to another client.
func TestAskSendsNothingUnlessItIsQuiet(t *testing.T) {
	for name, disturb := range map[string]func(t *testing.T, far net.Conn){
		"an answer nobody asked for": func(t *testing.T, far net.Conn) {
			t.Helper()
			writeString(t, far, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		},
		"the end": func(t *testing.T, far net.Conn) {
			t.Helper()
			shut(t, far)
		},
		"a reset": func(t *testing.T, far net.Conn) {
			t.Helper()
			if tcp, ok := far.(*net.TCPConn); !ok || tcp.SetLinger(0) != nil {
				t.Fatal("the connection cannot be reset")
			}
			shut(t, far)
		},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := tcpPair(t)
			c := asking(t, near)
			disturb(t, far)
			waitReadable(near)
			c.Writer().SetPrecondition(func() (time.Duration, error) { t.Error("the gate was asked"); return 0, nil })
			if err := c.SendChecked(nil); !errors.Is(err, h1.ErrUnsolicitedData) || c.Sent() != 0 {
				t.Errorf("Ask = %v, Sent() = %d, want ErrNotQuiet and 0", err, c.Sent())
			}
		})
	}
}

func TestSendCheckedObservesPrecondition(t *testing.T) {
	near, _ := tcpPair(t)
	c := asking(t, near)
	refused := errors.New("no lease")
	c.Writer().SetPrecondition(func() (time.Duration, error) { return 0, refused })
	if err := c.SendChecked(nil); !errors.Is(err, refused) || c.Sent() != 0 || c.Writer().Pending() != len(header("")) {
		t.Errorf("Ask = %v, Sent() = %d, Pending() = %d, want the gate's error, 0 and all", err, c.Sent(), c.Writer().Pending())
	}
}

// The response may arrive before the wait for it begins, and a request may be larger than the socket
// buffer. No data is lost, and the Conn holds no buffer while it waits.
func TestAskWaitsForTheAnswer(t *testing.T) {
	near, far := tcpPair(t)
	lent := new(atomic.Int64)
	c := h1.NewConn(near, h1.Options{Buffers: &h1.Buffers{BytesInUse: lent}})
	body := bytes.Repeat([]byte("x"), 16<<20)
	for i := range 50 {
		asks := body[:0]
		if i == 25 {
			asks = body
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			peer := h1.NewConn(far, h1.Options{})
			var r h1.Request
			if err := peer.ReadRequest(&r); err != nil {
				t.Error(err)
				return
			}
			if b, err := io.ReadAll(&r.Body); len(b) != len(asks) || err != nil {
				t.Errorf("%d bytes of body came, %v", len(b), err)
			}
			for len(asks) == 0 && lent.Load() != 0 {
				runtime.Gosched() // until it has sent the request and released its buffer
			}
			writeString(t, far, "HTTP/1.1 204 No Content\r\n\r\n")
		}()
		w := c.Writer()
		w.PutString(strings.Replace(header(""), "\r\n\r\n", "\r\nContent-Length: ", 1))
		w.PutString(map[bool]string{true: "16777216", false: "0"}[len(asks) > 0] + "\r\n\r\n")
		w.Put(asks)
		if err := c.SendChecked(nil); err != nil {
			t.Fatal(err)
		}
		var r h1.Response
		if err := c.ReadResponse(&r, nil); err != nil || r.Status() != 204 {
			t.Fatalf("ReadResponse = %v, status %d", err, r.Status())
		}
		<-answered
		c.ReleaseEmptyBuffers()
	}
}

// The wait for the response ends when another goroutine closes the connection.
func TestAskEndsWithTheConn(t *testing.T) {
	near, far := tcpPair(t)
	c := asking(t, near)
	go func() {
		_, _ = io.ReadFull(far, make([]byte, len(header(""))))
		_ = c.Close()
	}()
	if err := c.SendChecked(nil); err == nil || errors.Is(err, h1.ErrUnsolicitedData) || c.Sent() == 0 {
		t.Errorf("Ask = %v, Sent() = %d, want an error after something was sent", err, c.Sent())
	}
}
