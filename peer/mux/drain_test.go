package mux

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// lastMessage writes a last message on the only stream of a WebSocket session and resets it, as for
// a client that leaves. It returns what the peer has read. busy means that the writer is active.
func lastMessage(t *testing.T, busy bool, before, after func(near *Session)) string {
	t.Helper()
	a, b := tcpPair(t)
	given := make(chan *Stream, 1)
	near := NewClient(a, NewBudget(MaxWebSocketStreams, nil))
	far := NewServer(b, NewBudget(MaxWebSocketStreams, nil), func(st *Stream) bool { given <- st; return true })
	var ends sync.WaitGroup
	ends.Go(func() { _ = near.Run() })
	ends.Go(func() { _ = far.Run() })
	st, err := near.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = st.Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
	f := <-given
	if _, err = io.ReadFull(f, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	before(near)
	if busy {
		near.Ping() // as the sweep of the proxy does: signals the writer
	}
	if _, err = st.Write([]byte("my last word")); err != nil {
		t.Fatal(err)
	}
	_ = st.SetLinger(0) // as the proxy does when the client has left
	_ = st.Close()
	after(near)
	_ = f.SetReadDeadline(time.Now().Add(20 * time.Second))
	heard, _ := io.ReadAll(f)
	near.Fail(net.ErrClosed)
	far.Fail(net.ErrClosed)
	ends.Wait()
	return string(heard)
}

// A draining session ends with its last stream, after the data of that stream.
func TestDrainingSessionDeliversLastMessage(t *testing.T) {
	retire, nothing := (*Session).Drain, func(*Session) {}
	for name, c := range map[string]struct {
		busy          bool
		before, after func(*Session)
	}{
		"not retired":               {true, nothing, nothing},
		"retired":                   {false, retire, nothing},
		"retired, and writing":      {true, retire, nothing},
		"retired after it":          {false, nothing, retire},
		"writing, retired after it": {true, nothing, retire},
	} {
		for range 20 {
			if heard := lastMessage(t, c.busy, c.before, c.after); heard != "my last word" {
				t.Fatalf("%s: the peer read %q, want the last message", name, heard)
			}
		}
	}
}

// A draining session ends even if its peer does not read.
func TestDrainingSessionEndsIfPeerDoesNotRead(t *testing.T) {
	a, _ := tcpPair(t)
	near := NewClient(a, NewBudget(MaxWebSocketStreams, nil))
	ended := make(chan error, 1)
	st, err := near.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = st.Write([]byte("word")); err != nil { // not sent, because Run was not called
		t.Fatal(err)
	}
	_ = st.Close()
	near.Drain()
	<-near.failed
	go func() { ended <- near.Run() }()
	if err := <-ended; !errors.Is(err, ErrDraining) {
		t.Errorf("%v, want %v", err, ErrDraining)
	}
}

// tcpPair returns both ends of a TCP connection.
func tcpPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if a, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}
