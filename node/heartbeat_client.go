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
const redialEvery = 50 * time.Millisecond

// link carries this node's heartbeats to whoever leads and the answers back. It
// keeps the connection to a former leader open for a while: that it breaks is
// how a new leader learns that the old one's process is gone.
type link struct {
	self    shardmap.NodeID
	port    *peer.Port
	log     zerolog.Logger
	linger  func() time.Duration
	leader  func() string // the node that Raft takes for the leader, or ""
	local   func(ack.Heartbeat)
	answers chan<- ack.Answer
	broke   func(node string, gone suspect) // a connection ended; must not block
	beat    func()                          // has a heartbeat come now; must not block
	out     chan ack.Heartbeat              // cap 1: the newest one waits

	wg sync.WaitGroup
}

// linkConn is one connection to a leader, or the attempt to make it.
type linkConn struct {
	beats  chan ack.Heartbeat // cap 1: the newest one waits
	done   chan struct{}
	used   time.Time
	cancel context.CancelFunc
}

// send hands over a heartbeat and takes the place of one that still waits.
func (k *link) send(hb ack.Heartbeat) { replace(k.out, hb) }

// replace puts v into a channel of capacity one, in the place of what is there.
// Only one goroutine sends.
func replace[T any](c chan T, v T) {
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
func (k *link) run(ctx context.Context) {
	defer k.wg.Wait()
	conns := map[string]*linkConn{}
	for {
		var hb ack.Heartbeat
		select {
		case <-ctx.Done():
			return
		case hb = <-k.out:
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
			if node != leader && now.Sub(c.used) > k.linger() {
				c.cancel()
			}
		}
		switch {
		case leader == "":
		case leader == string(k.self):
			k.local(hb)
		default:
			c := conns[leader]
			if c == nil {
				c = k.open(ctx, leader)
				conns[leader] = c
			}
			c.used = now
			replace(c.beats, hb)
		}
	}
}

// open starts a connection's goroutine; it ends with ctx, cancel or the
// connection.
func (k *link) open(ctx context.Context, node string) *linkConn {
	ctx, cancel := context.WithCancel(ctx)
	c := &linkConn{beats: make(chan ack.Heartbeat, 1), done: make(chan struct{}), cancel: cancel}
	k.wg.Go(func() {
		defer cancel()
		broke := k.converse(ctx, node, c)
		// What was on its way is lost, and a leader that owes its voters an answer for 80 ms
		// is missed: the next one opens another connection, now that this one is known to be gone.
		if close(c.done); broke {
			k.beat()
		}
	})
	return c
}

// converse reports whether the other side, or what is between, has ended a connection
// that had lasted for redialEvery.
func (k *link) converse(ctx context.Context, node string, c *linkConn) (broke bool) {
	dialing, stop := context.WithTimeout(ctx, time.Second)
	conn, err := k.port.Dial(dialing, node, peer.Heartbeat)
	stop()
	if err != nil {
		k.log.Debug().Err(err).Str("peer", node).Msg("leader not reachable")
		// A pause, or each heartbeat would dial again.
		select {
		case <-time.After(redialEvery):
		case <-ctx.Done():
		}
		return false
	}
	began := time.Now()
	defer hangUp(conn)
	unhook := context.AfterFunc(ctx, func() { hangUp(conn) })
	defer unhook()
	var readers sync.WaitGroup
	defer readers.Wait()
	ended := make(chan struct{})
	readers.Go(func() {
		defer close(ended)
		k.listen(ctx, conn)
	})
	for {
		select {
		case <-ended:
			return k.ended(ctx, node, conn) && time.Since(began) >= redialEvery
		case hb := <-c.beats:
			b, err := hb.MarshalBinary()
			if err == nil {
				err = peer.WriteFrame(conn, b)
			}
			if err != nil {
				hangUp(conn)
				<-ended
				return k.ended(ctx, node, conn) && time.Since(began) >= redialEvery
			}
		}
	}
}

// hangUp ends a stream that says nothing more: whether that fails is all the same.
func hangUp(c *peer.Conn) { _ = c.Close() }

// ended tells of a connection that the other side ended, and reports whether it is that.
func (k *link) ended(ctx context.Context, node string, conn *peer.Conn) bool {
	if ctx.Err() != nil {
		return false
	}
	k.broke(node, suspect{boot: conn.Boot()})
	return true
}

// listen passes answers on until the connection ends.
func (k *link) listen(ctx context.Context, conn *peer.Conn) {
	in := bufio.NewReaderSize(conn, beatSize)
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
