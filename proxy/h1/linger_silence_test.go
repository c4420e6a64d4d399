package h1_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/simnet"
	"shardway/proxy/h1"
)

const (
	earlyRequest = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999999999\r\n\r\n"
	earlyHead    = "HTTP/1.1 413 Too Large\r\nConnection: close\r\n\r\n"
	earlyBody    = 30_000 // fits into the buffers of every socket
)

// respondEarly reads the head of an upload, responds and closes with CloseLinger. The
// returned channel is closed when that has ended.
func respondEarly(t *testing.T, near, far net.Conn, o h1.Options) (closed chan struct{}) {
	t.Helper()
	c := h1.NewConn(near, o)
	writeString(t, far, earlyRequest)
	var r h1.Request
	if err := c.ReadRequest(&r); err != nil {
		t.Fatal(err)
	}
	c.Writer().PutString(earlyHead)
	c.Writer().Put(make([]byte, earlyBody))
	closed = make(chan struct{})
	go func() {
		defer close(closed)
		if c.Flush() == nil {
			c.CloseLinger(h1.PartOfRequest)
		}
	}()
	return closed
}

// wantEarlyResponse reads the whole response of respondEarly.
func wantEarlyResponse(t *testing.T, far net.Conn) {
	t.Helper()
	b, err := io.ReadAll(far)
	if want := len(earlyHead) + earlyBody; !bytes.HasPrefix(b, []byte(earlyHead)) || len(b) != want || err != nil {
		t.Errorf("the client got %d bytes, %v, want %d", len(b), err, want)
	}
}

// Many HTTP libraries send the whole request before they read anything.
func TestEarlyResponseArrivesAfterALongUpload(t *testing.T) {
	near, far := tcpPair(t)
	closed := respondEarly(t, near, far, h1.Options{})
	if n, err := far.Write(make([]byte, 50<<20)); err != nil {
		t.Fatalf("the client sent %d bytes: %v", n, err)
	}
	wantEarlyResponse(t, far)
	shut(t, far)
	<-closed
}

// An early response also arrives if the client pauses between parts of its body. The test uses a
// simulated network.
func TestEarlyResponseArrivesAfterPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := simPair(t)
		closed := respondEarly(t, near, far, h1.Options{})
		for range 7 {
			time.Sleep(4 * time.Second)
			writeString(t, far, strings.Repeat("x", 100_000))
		}
		wantEarlyResponse(t, far)
		shut(t, far)
		<-closed
	})
}

// CloseLinger waits for a client that neither sends nor closes until the silence limit, and for a
// client that keeps sending for 30 s.
func TestLingeringCloseIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		every    time.Duration
		from, to time.Duration
	}{
		"silent":         {0, 5 * time.Second, 7 * time.Second},
		"sending":        {time.Second, 30 * time.Second, 32 * time.Second},
		"sending seldom": {4 * time.Second, 30 * time.Second, 32 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := simPair(t)
				began := time.Now()
				closed := respondEarly(t, near, far, h1.Options{})
				go func() { _, _ = io.Copy(io.Discard, far) }() // reads, and does not close
				for c.every > 0 {
					if _, err := far.Write([]byte("x")); err != nil {
						break
					}
					time.Sleep(c.every)
				}
				<-closed
				if d := time.Since(began); c.every == 0 && (d < c.from || d > c.to) {
					t.Errorf("closed after %v, want %v to %v", d, c.from, c.to)
				} else if c.every > 0 && (d < c.from || d > c.to+c.every) {
					t.Errorf("closed after %v, want %v to %v", d, c.from, c.to+c.every)
				}
			})
		})
	}
}

// simPair returns both ends of a connection of a simulated network.
func simPair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	sim := simnet.New(simnet.Config{})
	server := sim.Host("server")
	ln, err := server.Listen(":80")
	if err != nil {
		t.Fatal(err)
	}
	if far, err = sim.Host("client").Dial(t.Context(), server.Addr(80)); err != nil {
		t.Fatal(err)
	}
	if near, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		shut(t, ln)
		_ = near.Close()
		_ = far.Close()
		sim.Close()
	})
	return near, far
}

// When one connection more than allowed lingers, the one that has lingered longest is closed.
func TestLingeringClosesTheOldestBeyondItsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &h1.Lingering{Max: 2}
		var closed [3]chan struct{}
		for i := range closed {
			near, far := simPair(t)
			go func() { _, _ = io.Copy(io.Discard, far) }()
			closed[i] = respondEarly(t, near, far, h1.Options{Lingering: g})
			synctest.Wait()
		}
		select {
		case <-closed[0]:
		default:
			t.Error("the oldest of three connections lingers, though two may")
		}
		if n := g.Len(); n != 2 {
			t.Errorf("%d connections linger, want 2", n)
		}
		<-closed[1]
		<-closed[2]
		if n := g.Len(); n != 0 {
			t.Errorf("%d connections linger in the end, want 0", n)
		}
	})
}
