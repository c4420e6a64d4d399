package h1_test

import (
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"shardway/proxy/h1"
)

const lastRequest = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

// halves counts CloseWrite calls. CloseLinger makes one and then waits for the peer.
type halves struct {
	wrapped
	n atomic.Int32
}

func (h *halves) CloseWrite() error {
	h.n.Add(1)
	if c, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return errors.ErrUnsupported
}

// answerLast reads a request, sends the response and closes the connection. Before the close,
// meanwhile runs at the client's end. It returns the data that the client read.
func answerLast(t *testing.T, meanwhile func(far io.Writer)) (got string, err error, lingered bool) {
	t.Helper()
	near, far := tcpPair(t)
	counted := &halves{wrapped: wrapped{near}}
	c := h1.NewConn(counted, h1.Options{Direct: true})
	writeString(t, far, lastRequest)
	var r h1.Request
	if err = c.ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	meanwhile(far)
	c.Writer().PutString("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
	if err = c.Writer().CloseLast(nil); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { c.CloseLast(); close(done) }()
	b, err := io.ReadAll(far)
	shut(t, far)
	<-done
	return string(b), err, counted.n.Load() > 0
}

func TestCloseDoesNotLingerAfterConnectionClose(t *testing.T) {
	got, err, lingered := answerLast(t, func(io.Writer) {})
	if !strings.HasPrefix(got, "HTTP/1.1 204 ") || err != nil || lingered {
		t.Errorf("the client got %q, %v; lingered = %v, want the answer and no lingering", got, err, lingered)
	}
}

// A client that has closed its sending side sends nothing more, so the close does not wait for it.
func TestClientThatHasLeftIsNotWaitedFor(t *testing.T) {
	got, err, lingered := answerLast(t, func(far io.Writer) {
		if half, ok := far.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			t.Fatal("the client cannot end its side")
		}
	})
	if !strings.HasPrefix(got, "HTTP/1.1 204 ") || err != nil || lingered {
		t.Errorf("the client got %q, %v; lingered = %v, want the answer and no lingering", got, err, lingered)
	}
}

// Data that a client sends after its last request does not discard the response. Without lingering,
// the kernel would reset the connection.
func TestLastResponseArrivesAlthoughTheClientSendsMore(t *testing.T) {
	got, err, lingered := answerLast(t, func(far io.Writer) { writeString(t, far, strings.Repeat("x", 20<<10)) })
	if !strings.HasPrefix(got, "HTTP/1.1 204 ") || err != nil || !lingered {
		t.Errorf("the client got %q, %v; lingered = %v, want the answer after a lingering close", got, err, lingered)
	}
}

// The same applies to data that arrived together with the headers.
func TestLastAnswerArrivesThoughMoreCameAlong(t *testing.T) {
	near, far := tcpPair(t)
	counted := &halves{wrapped: wrapped{near}}
	c := h1.NewConn(counted, h1.Options{Direct: true})
	writeString(t, far, lastRequest+"GET / HTTP/1.1\r\n")
	var r h1.Request
	if err := c.ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	shut(t, far)
	if c.CloseLast(); counted.n.Load() == 0 {
		t.Error("closed at once with unread bytes")
	}
}
