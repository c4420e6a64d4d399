package node

import (
	"bufio"
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/peer"
	"shardway/shardmap"
)

// redialEvery is the shortest time between two dials of one leader.
const minRedialInterval = 50 * time.Millisecond

// link carries this node's heartbeats to whoever leads and the answers back. It
// keeps the connection to a former leader open for a while: that it breaks is
// how a new leader learns that the old one's process is gone.
type heartbeatClient struct {
	self             shardmap.NodeID
	port             *peer.Port
	log              zerolog.Logger
	oldConnTimeout   func() time.Duration
	leader           func() string // the node that Raft takes for the leader, or ""
	deliverOwn       func(ack.Heartbeat)
	answers          chan<- ack.Answer
	onConnClosed     func(node string, gone suspect) // a connection ended; must not block
	triggerHeartbeat func()                          // has a heartbeat come now; must not block
	pending          chan ack.Heartbeat              // cap 1: the newest one waits

	wg sync.WaitGroup
}

// linkConn is one connection to a leader, or the attempt to make it.
type leaderConn struct {
	pending  chan ack.Heartbeat // cap 1: the newest one waits
	done     chan struct{}
	lastUsed time.Time
	cancel   context.CancelFunc
}

// send hands over a heartbeat and takes the place of one that still waits.
func (k *heartbeatClient) send(hb ack.Heartbeat) { replaceLatest(k.pending, hb) }

// replace puts v into a channel of capacity one, in the place of what is there.
// Only one goroutine sends.
func replaceLatest[T any](c chan T, v T) {
	for {
		select {
		case c <- v:
			return
		default:
		}
		select {
		case <-c:
		default:
		}
	}
}

// run returns after the last connection's goroutines have.
func (k *heartbeatClient) run(ctx context.Context) {
	defer k.wg.Wait()
	conns := map[string]*leaderConn{}
	for {
		var hb ack.Heartbeat
		select {
		case <-ctx.Done():
			return
		case hb = <-k.pending:
		}
		now := time.Now()
		leader := k.leader()
		for node, c := range conns {
			select {
			case <-c.done:
				delete(conns, node)
				continue
			default:
			}
			if node != leader && now.Sub(c.lastUsed) > k.oldConnTimeout() {
				c.cancel()
			}
		}
		switch {
		case leader == "":
		case leader == string(k.self):
			k.deliverOwn(hb)
		default:
			c := conns[leader]
			if c == nil {
				c = k.open(ctx, leader)
				conns[leader] = c
			}
			c.lastUsed = now
			replaceLatest(c.pending, hb)
		}
	}
}

// open starts a connection's goroutine; it ends with ctx, cancel or the
// connection.
func (k *heartbeatClient) open(ctx context.Context, node string) *leaderConn {
	ctx, cancel := context.WithCancel(ctx)
	c := &leaderConn{pending: make(chan ack.Heartbeat, 1), done: make(chan struct{}), cancel: cancel}
	k.wg.Go(func() {
		defer cancel()
		lost := k.runConn(ctx, node, c)
		// What was on its way is lost, and a leader that owes its voters an answer for 80 ms
		// is missed: the next one opens another connection, now that this one is known to be gone.
		if close(c.done); lost {
			k.triggerHeartbeat()
		}
	})
	return c
}

// converse reports whether the other side, or what is between, has ended a connection
// that had lasted for redialEvery.
func (k *heartbeatClient) runConn(ctx context.Context, node string, c *leaderConn) (lost bool) {
	dialing, stop := context.WithTimeout(ctx, time.Second)
	conn, err := k.port.Dial(dialing, node, peer.Heartbeat)
	stop()
	if err != nil {
		k.log.Debug().Err(err).Str("peer", node).Msg("leader not reachable")
		// A pause, or each heartbeat would dial again.
		select {
		case <-time.After(minRedialInterval):
		case <-ctx.Done():
		}
		return false
	}
	connected := time.Now()
	defer closeStream(conn)
	stopWatch := context.AfterFunc(ctx, func() { closeStream(conn) })
	defer stopWatch()
	var readers sync.WaitGroup
	defer readers.Wait()
	readerDone := make(chan struct{})
	readers.Go(func() {
		defer close(readerDone)
		k.readResponses(ctx, conn)
	})
	for {
		select {
		case <-readerDone:
			return k.reportClosed(ctx, node, conn) && time.Since(connected) >= minRedialInterval
		case hb := <-c.pending:
			b, err := hb.MarshalBinary()
			if err == nil {
				err = peer.WriteFrame(conn, b)
			}
			if err != nil {
				closeStream(conn)
				<-readerDone
				return k.reportClosed(ctx, node, conn) && time.Since(connected) >= minRedialInterval
			}
		}
	}
}

// hangUp ends a stream that says nothing more: whether that fails is all the same.
func closeStream(c *peer.Conn) { _ = c.Close() }

// ended tells of a connection that the other side ended, and reports whether it is that.
func (k *heartbeatClient) reportClosed(ctx context.Context, node string, conn *peer.Conn) bool {
	if ctx.Err() != nil {
		return false
	}
	k.onConnClosed(node, suspect{boot: conn.Boot()})
	return true
}

// listen passes answers on until the connection ends.
func (k *heartbeatClient) readResponses(ctx context.Context, conn *peer.Conn) {
	in := bufio.NewReaderSize(conn, heartbeatBufferSize)
	var buf []byte
	for {
		b, err := peer.ReadFrame(in, buf, ack.MaxMessage)
		if err != nil {
			return
		}
		buf = b
		var a ack.Answer
		if err := a.UnmarshalBinary(b); err != nil {
			k.log.Warn().Err(err).Str("peer", conn.Node()).Msg("invalid response to heartbeat")
			return
		}
		select {
		case k.answers <- a:
		case <-ctx.Done():
			return
		}
	}
}
