package muxpool

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/peer"
	"shardway/peer/mux"
)

// newSessionPair returns both ends of a mux session for WebSockets, each with the limits of a node, and the streams that the second end
// accepts.
func newSessionPair(t *testing.T, near, far *Pool, name string) (*mux.Session, <-chan *mux.Stream) {
	t.Helper()
	a, b := net.Pipe()
	given := make(chan *mux.Stream, mux.MaxWebSocketStreams)
	g := peerOrigin{node: name, origin: "10.0.0.1"}
	opens, takes := mux.NewClient(a, near.acquireSession(g)), mux.NewServer(b, far.acquireSession(g), func(l *mux.Stream) bool { given <- l; return true })
	var runs sync.WaitGroup
	for _, tr := range []*mux.Session{opens, takes} {
		runs.Go(func() { _ = tr.Run() }) // its streams report why it ends
	}
	t.Cleanup(func() {
		opens.Fail(net.ErrClosed)
		takes.Fail(net.ErrClosed)
		runs.Wait()
	})
	return opens, given
}

func newWebSocketPool(name string) *Pool {
	return NewForWebSockets(peer.New(peer.Options{Node: name, Cluster: func() string { return "c" }}))
}

// The buffers of all WebSockets together are limited beyond a few KiB each, also for clients that have read much before they stop reading.
// A client that reads is not delayed by those that do not. Once, 32 KiB were kept for each WebSocket whose app or client reads nothing: 512
// MiB for the maximum number.
func TestWebSocketBufferBytesAreLimited(t *testing.T) {
	const many, least, most = 4000, 4 << 10, 32 << 20
	synctest.Test(t, func(t *testing.T) {
		opens, given := newSessionPair(t, newWebSocketPool("a"), newWebSocketPool("b"), "a")
		var sent, read atomic.Int64
		var says sync.WaitGroup
		defer says.Wait()
		defer opens.Fail(net.ErrClosed)
		for range many {
			l, err := opens.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			says.Go(func() {
				for b := make([]byte, 1<<10); ; { // until the test is over
					n, err := l.Write(b)
					sent.Add(int64(n))
					if err != nil {
						return
					}
				}
			})
		}
		synctest.Wait()
		if kept := sent.Load(); kept > many*least {
			t.Errorf("%d KiB of %d sockets are kept, want %d at most", kept>>10, many, many*least>>10)
		}
		reads := func(l *mux.Stream, n int) {
			for b := make([]byte, 4<<10); n > 0; {
				m, err := l.Read(b)
				n -= m
				read.Add(int64(m))
				if err != nil {
					t.Errorf("Read: %v", err)
					return
				}
			}
		}
		for range many - 1 {
			reads(<-given, 256<<10)
		}
		synctest.Wait()
		if kept := sent.Load() - read.Load(); kept > many*least+most {
			t.Errorf("%d KiB of %d sockets are kept once they have been read from, want %d at most", kept>>10, many, (many*least+most)>>10)
		}
		began := time.Now()
		if reads(<-given, 1<<20); time.Since(began) != 0 {
			t.Errorf("what is read is held up for %v by what is not", time.Since(began))
		}
	})
}
