package node

import (
	"bufio"
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/node/crashdetect"
	"shardway/peer"
	"shardway/shardmap"
)

// minRedialInterval is the shortest time between two dials of the same leader.
const minRedialInterval = 50 * time.Millisecond

// heartbeatClient sends this node's heartbeats to the leader and returns the responses. It keeps the
// connection to the previous leader open for oldConnTimeout: if that connection breaks, the new leader
// learns that the process of the previous leader has ended.
type heartbeatClient struct {
	self             shardmap.NodeID
	port             *peer.Port
	log              zerolog.Logger
	oldConnTimeout   func() time.Duration
	leader           func() string // the leader according to Raft, or ""
	deliverOwn       func(ack.Heartbeat)
	answers          chan<- ack.Answer
	onConnClosed     func(node string, gone crashdetect.Process) // called when a connection has ended; must not block
	triggerHeartbeat func()                                      // makes the agent send a heartbeat now; must not block
	pending          chan ack.Heartbeat                          // cap 1: the newest heartbeat

	wg sync.WaitGroup
}

// leaderConn is a connection to a leader, or an attempt to open one.
type leaderConn struct {
	pending  chan ack.Heartbeat // cap 1: the newest heartbeat
	done     chan struct{}
	lastUsed time.Time
	cancel   context.CancelFunc
}

// send schedules a heartbeat. It replaces a heartbeat that was not sent yet.
func (k *heartbeatClient) send(hb ack.Heartbeat) { replaceLatest(k.pending, hb) }

// replaceLatest puts v into a channel of capacity one, and removes the value that is in it. Only one
// goroutine may send to c.
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

// run sends heartbeats until ctx ends. It returns after all goroutines of its connections.
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

// open starts the goroutine of a connection. The goroutine ends when ctx ends, cancel is called or the
// connection closes.
func (k *heartbeatClient) open(ctx context.Context, node string) *leaderConn {
	ctx, cancel := context.WithCancel(ctx)
	c := &leaderConn{pending: make(chan ack.Heartbeat, 1), done: make(chan struct{}), cancel: cancel}
	k.wg.Go(func() {
		defer cancel()
		lost := k.runConn(ctx, node, c)
		// A heartbeat in flight is lost, and a leader that does not respond to its voters for 80 ms
		// is suspected. So another heartbeat follows at once. It opens a new connection, because
		// done is already closed.
		if close(c.done); lost {
			k.triggerHeartbeat()
		}
	})
	return c
}

// runConn dials node, sends the heartbeats of c and reads the responses until the connection or ctx
// ends. lost reports whether the peer or the network closed a connection that was open for at least
// minRedialInterval.
func (k *heartbeatClient) runConn(ctx context.Context, node string, c *leaderConn) (lost bool) {
	dialing, stop := context.WithTimeout(ctx, time.Second)
	conn, err := k.port.Dial(dialing, node, peer.Heartbeat)
	stop()
	if err != nil {
		k.log.Debug().Err(err).Str("peer", node).Msg("leader not reachable")
		// Without this pause, each heartbeat would dial again.
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

// closeStream closes a stream that is no longer used, and ignores the error.
func closeStream(c *peer.Conn) { _ = c.Close() }

// reportClosed calls onConnClosed, except if ctx has ended: then this node closed the connection. The
// result reports whether it called.
func (k *heartbeatClient) reportClosed(ctx context.Context, node string, conn *peer.Conn) bool {
	if ctx.Err() != nil {
		return false
	}
	k.onConnClosed(node, crashdetect.Process{Boot: conn.Boot()})
	return true
}

// readResponses passes responses to the agent until the connection or ctx ends.
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
