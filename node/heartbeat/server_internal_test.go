package heartbeat

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/peer"
)

const silence = 500 * time.Millisecond

func always() bool { return true }

// slowConn is a connection whose Close blocks until closed is closed.
type slowConn struct {
	net.Conn
	isClosing atomic.Bool
	closed    chan struct{}
}

func (c *slowConn) Close() error {
	c.isClosing.Store(true)
	<-c.closed
	return nil
}

// silentStream returns a stream of s that waits for a heartbeat.
func silentStream(s *Server) (*slowConn, *peer.Conn) {
	slow := &slowConn{closed: make(chan struct{})}
	c := &peer.Conn{Conn: slow}
	s.track(c)
	s.beginWait(c)
	return slow, c
}

// The Close of a TLS connection can block. Other nodes must be served in the meantime.
func TestStreamsAreClosedWithoutLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(Server)
		slow, c := silentStream(s)
		go s.CloseSilentStreams(t.Context(), c.Node(), silence, always)
		time.Sleep(2 * silence)
		if !slow.isClosing.Load() {
			t.Error("a silent stream is still open")
		}
		isUnlocked := s.mu.TryLock()
		if isUnlocked {
			s.mu.Unlock()
		}
		close(slow.closed)
		if !isUnlocked {
			t.Fatal("the lock is held while a stream is closed")
		}
		if s.endWait(c) {
			t.Error("a heartbeat that arrives on a closed stream counts as one on an open stream")
		}
	})
}

// While a heartbeat is delivered to a busy leader loop, the next ones wait in the socket. That is no silence.
func TestStreamWithAHeartbeatInDeliveryStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(Server)
		slow, c := silentStream(s)
		s.endWait(c)
		s.CloseSilentStreams(t.Context(), c.Node(), silence, always)
		if slow.isClosing.Load() {
			t.Error("closed while a heartbeat was delivered")
		}
	})
}

func TestStreamsStayOpenAfterTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(Server)
		slow, c := silentStream(s)
		ctx, cancel := context.WithTimeout(t.Context(), silence/2)
		defer cancel()
		s.CloseSilentStreams(ctx, c.Node(), silence, always)
		if slow.isClosing.Load() {
			t.Error("closed after the context has ended")
		}
	})
}
