package mux_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"shardway/peer/mux"
)

// sessionPair is both ends of a session in a synctest bubble.
type sessionPair struct {
	t                    *testing.T
	client, server       *mux.Session
	clientConn           *heldConn
	accepted             chan *mux.Stream
	clientErr, serverErr error // result of Run
}

// withSessionPair runs f in a synctest bubble, and closes the session after it.
func withSessionPair(t *testing.T, f func(w *sessionPair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		w := &sessionPair{t: t, accepted: make(chan *mux.Stream, 2*mux.MaxStreams)}
		w.clientConn = &heldConn{Conn: a}
		w.client, w.server = mux.NewClient(w.clientConn, mux.NewBudget(mux.MaxStreams, nil)), mux.NewServer(b, mux.NewBudget(mux.MaxStreams, nil), func(st *mux.Stream) bool { w.accepted <- st; return true })
		var runs sync.WaitGroup
		runs.Go(func() { w.clientErr = w.client.Run() })
		runs.Go(func() { w.serverErr = w.server.Run() })
		defer runs.Wait()
		defer w.server.Fail(errTestOver)
		defer w.client.Fail(errTestOver)
		f(w)
	})
}

// heldConn is a connection that sends nothing while held is locked.
type heldConn struct {
	net.Conn
	held sync.Mutex
}

func (c *heldConn) Write(p []byte) (int, error) {
	c.held.Lock()
	defer c.held.Unlock()
	return c.Conn.Write(p)
}

var errTestOver = errors.New("the test is over")

// openStream opens a stream and returns its ends. It transfers one byte.
func (w *sessionPair) openStream() (near, far *mux.Stream) {
	w.t.Helper()
	near, err := w.client.OpenStream()
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(near, "!")
	far = <-w.accepted
	w.expect(far, "!")
	return near, far
}

func (w *sessionPair) write(st *mux.Stream, text string) {
	w.t.Helper()
	if n, err := st.Write([]byte(text)); n != len(text) || err != nil {
		w.t.Fatalf("Write = %d, %v, want %d", n, err, len(text))
	}
}

func (w *sessionPair) expect(st *mux.Stream, want string) {
	w.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(st, got); err != nil || string(got) != want {
		w.t.Fatalf("read %q, %v, want %q", got, err, want)
	}
}

// expectError requires the next read of the stream to fail with want.
func (w *sessionPair) expectError(st *mux.Stream, want error) {
	w.t.Helper()
	if n, err := st.Read(make([]byte, 1)); n != 0 || !errors.Is(err, want) {
		w.t.Fatalf("Read = %d, %v, want %v", n, err, want)
	}
}
