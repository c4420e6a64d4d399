//go:build unix

package h1_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"shardway/proxy/h1"
)

// ahead is a connection that reads ahead, as TLS does.
type ahead struct {
	*net.TCPConn
	r     io.Reader
	held  int // bytes that it has read ahead, as far as it says
	reads int
	rests chan struct{} // it was told to
}

func (c *ahead) Read(p []byte) (int, error) {
	c.reads++
	n, err := c.r.Read(p)
	c.held = max(c.held-n, 0)
	return n, err
}

func (c *ahead) Drained() bool { return c.held == 0 }
func (c *ahead) Rest()         { c.rests <- struct{}{} }

// newAhead returns a tunnel's end over a connection that reads ahead, and the other end.
func newAhead(t *testing.T) (c *h1.Conn, a *ahead, far net.Conn) {
	t.Helper()
	near, far := tcpPair(t)
	tcp, ok := near.(*net.TCPConn)
	if !ok {
		t.Fatalf("the connection is a %T", near)
	}
	a = &ahead{TCPConn: tcp, r: tcp, rests: make(chan struct{}, 8)}
	return h1.NewConn(a, h1.Options{Timeouts: h1.Timeouts{Body: 10 * time.Second}}), a, far
}

func wantNext(t *testing.T, c *h1.Conn, want string) {
	t.Helper()
	for got := ""; got != want; {
		p, err := c.Next()
		if got += string(p); err != nil || len(got) > len(want) {
			t.Fatalf("Next = %q in all, %v, want %q", got, err, want)
		}
	}
}

// A tunnel that waits under TLS kept what the largest record and the handshake had needed.
func TestWaitingTunnelRests(t *testing.T) {
	c, a, far := newAhead(t)
	for _, text := range []string{"a", "longer than a few bytes are", "b"} {
		go func() {
			<-a.rests // it waits, and not in Read
			say(t, far, text)
		}()
		wantNext(t, c, text)
	}
	go func() {
		<-a.rests
		c.PauseRead()
	}()
	if _, err := c.Next(); !errors.Is(err, h1.ErrPaused) {
		t.Errorf("Next = %v, want ErrPaused", err)
	}
	c.ResumeRead()
	go func() {
		<-a.rests
		shut(t, far)
	}()
	if _, err := c.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next = %v, want EOF", err)
	}
}

// What is there is read at once, by the memory that is there.
func TestTunnelWithBytesDoesNotRest(t *testing.T) {
	c, a, far := newAhead(t)
	looks := h1.NewConn(a.TCPConn, h1.Options{})
	if !looks.Alive() {
		t.Fatal("there is something to read before anything was said")
	}
	say(t, far, "there")
	for looks.Alive() { // until it has come
	}
	wantNext(t, c, "there")
	if len(a.rests) > 0 {
		t.Error("it rested though there was something to read")
	}
}

// What has been read ahead is in no socket any more: who waited there waited for ever.
func TestWhatWasReadAheadIsNotWaitedFor(t *testing.T) {
	c, a, _ := newAhead(t)
	a.r, a.held = strings.NewReader("ahead"), 5
	wantNext(t, c, "ahead")
}

// So is an end that came with the last bytes: of TLS, which has one of its own, the socket
// may stay open.
func TestEndThatWasReadAheadIsNotWaitedFor(t *testing.T) {
	c, a, _ := newAhead(t)
	a.held, a.r = 3, iotest.DataErrReader(strings.NewReader("end"))
	wantNext(t, c, "end")
	if _, err := c.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next = %v, want EOF", err)
	}
}
