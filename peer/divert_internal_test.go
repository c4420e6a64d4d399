package peer

import (
	"io"
	"net"
	"sync"
	"testing"
)

// prompted returns a connection that a port has wrapped, and its other end.
func prompted(t *testing.T) (c *lowLatencyConn, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err = ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	c, is := newLowLatencyConn(near, nil).(*lowLatencyConn)
	if !is {
		t.Fatalf("%T", near)
	}
	return c, far
}

// A write to a wrapped connection does not wait for the socket once the connection is diverted. The
// data is sent by the code that takes it.
func TestWritesAreDiverted(t *testing.T) {
	c, far := prompted(t)
	applyKind(c, RequestSession)
	var kept []byte
	under := c.Divert(func(b []byte) { kept = append(kept, b...) })
	for _, b := range []string{"more than ", "a socket"} {
		if n, err := c.Write([]byte(b)); n != len(b) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if _, err := under.Write(kept); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if got, err := io.ReadAll(far); string(got) != "more than a socket" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

// A port closes writes to its streams while a handler diverts the writes of a new stream. The race
// detector checks that this is safe.
func TestAPortMayCloseAsAStreamIsDiverted(t *testing.T) {
	c, _ := prompted(t)
	var kept []byte
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := c.Write([]byte("goodbye")); err != nil {
			t.Error(err)
		}
	})
	both.Go(func() { c.Divert(func(b []byte) { kept = append(kept, b...) }) })
	both.Wait()
	_, _ = c.Write([]byte("more"))
	_ = c.Close()
	if s := string(kept); s != "more" && s != "goodbyemore" {
		t.Errorf("diverted %q", s)
	}
}
