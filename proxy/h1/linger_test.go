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

// halves counts how often the sending side was ended by itself: CloseLinger does so, and
// then waits for the peer.
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

// answerLast reads a request, answers it and closes; before that the client has done
// what meanwhile says. It returns what the client then read.
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

func TestClientThatKeepsItsWordIsNotWaitedFor(t *testing.T) {
	got, err, lingered := answerLast(t, func(io.Writer) {})
	if !strings.HasPrefix(got, "HTTP/1.1 204 ") || err != nil || lingered {
		t.Errorf("the client got %q, %v; lingered = %v, want the answer and no lingering", got, err, lingered)
	}
}

// Nothing can come of a client that has ended its side either.
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

// What a client sends behind its last request would have the kernel reset the connection,
// and the answer with it.
func TestLastResponseArrivesAlthoughTheClientSendsMore(t *testing.T) {
	got, err, lingered := answerLast(t, func(far io.Writer) { writeString(t, far, strings.Repeat("x", 20<<10)) })
	if !strings.HasPrefix(got, "HTTP/1.1 204 ") || err != nil || !lingered {
		t.Errorf("the client got %q, %v; lingered = %v, want the answer after a lingering close", got, err, lingered)
	}
}

// As above, with what came along with the head.
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
