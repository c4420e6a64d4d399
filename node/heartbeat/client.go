package heartbeat

import (
	"bufio"
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/chanutil"
	"shardway/peer"
	"shardway/shardmap"
)

// minRedialInterval is the minimum time between two dials of the same leader.
const minRedialInterval = 50 * time.Millisecond

// bufferSize is the size of the read buffer of a heartbeat stream, in bytes. Most heartbeats fit in it, including
// their length.
const bufferSize = 512

// ClientOptions configures a Client. The functions must not block.
type ClientOptions struct {
	Self shardmap.NodeID
	Port *peer.Port
	Log  zerolog.Logger
	// OldConnTimeout returns how long the connection to the previous leader stays open.
	OldConnTimeout func() time.Duration
	// Leader returns the node that leads according to Raft, or "".
	Leader func() string
	// DeliverOwn is called with a heartbeat if this node leads.
	DeliverOwn func(ack.Heartbeat)
	// Answers receives the responses of leaders, until the context of Run ends.
	Answers chan<- ack.Answer
	// OnConnClosed is called when the peer or the network has closed a connection to a process of node.
	OnConnClosed func(node string, boot uint64)
	// Trigger is called if another heartbeat should follow immediately.
	Trigger func()
}

// Client sends this node's heartbeats to the leader and returns the responses. It keeps the connection to the
// previous leader open for OldConnTimeout: if that connection breaks, the new leader learns that the process of the
// previous leader has exited.
type Client struct {
	options ClientOptions
	pending chan ack.Heartbeat // cap 1: the newest heartbeat

	conns sync.WaitGroup // the goroutines of connections
}

// NewClient returns a Client.
func NewClient(options ClientOptions) *Client {
	return &Client{options: options, pending: make(chan ack.Heartbeat, 1)}
}

// leaderConn is a connection to a leader, or an attempt to open one.
type leaderConn struct {
	pending  chan ack.Heartbeat // cap 1: the newest heartbeat
	closed   chan struct{}      // closed when the connection is closed, or could not be opened
	lastUsed time.Time          // when the last heartbeat was scheduled; only Run uses it
	cancel   context.CancelFunc // closes the connection
}

// isClosed reports whether the connection is closed, or could not be opened.
func (c *leaderConn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Send schedules a heartbeat, which replaces one that was not sent yet. It does not block. Only one goroutine may
// call it.
func (k *Client) Send(hb ack.Heartbeat) { chanutil.Replace(k.pending, hb) }

// Run sends heartbeats until ctx ends. It returns after all goroutines of its connections.
func (k *Client) Run(ctx context.Context) {
	defer k.conns.Wait()
	conns := map[string]*leaderConn{} // by node
	for {
		select {
		case <-ctx.Done():
			return
		case hb := <-k.pending:
			leader := k.options.Leader()
			k.removeOldConns(conns, leader)
			k.sendTo(ctx, leader, hb, conns)
		}
	}
}

// removeOldConns removes closed connections from conns. It closes connections to previous leaders that were not
// used for OldConnTimeout.
func (k *Client) removeOldConns(conns map[string]*leaderConn, leader string) {
	for node, c := range conns {
		if c.isClosed() {
			delete(conns, node)
			continue
		}
		if node != leader && time.Since(c.lastUsed) > k.options.OldConnTimeout() {
			c.cancel()
		}
	}
}

// sendTo schedules a heartbeat to the leader, whose name is empty if there is none. It opens a connection if conns
// contains none.
func (k *Client) sendTo(ctx context.Context, leader string, hb ack.Heartbeat, conns map[string]*leaderConn) {
	switch leader {
	case "":
	case string(k.options.Self):
		k.options.DeliverOwn(hb)
	default:
		c := conns[leader]
		if c == nil {
			c = k.open(ctx, leader)
			conns[leader] = c
		}
		c.lastUsed = time.Now()
		chanutil.Replace(c.pending, hb)
	}
}

// open starts the goroutine of a connection. The goroutine ends when ctx ends, cancel is called or the
// connection closes.
func (k *Client) open(ctx context.Context, node string) *leaderConn {
	ctx, cancel := context.WithCancel(ctx)
	c := &leaderConn{pending: make(chan ack.Heartbeat, 1), closed: make(chan struct{}), cancel: cancel}
	k.conns.Go(func() {
		defer cancel()
		wasLost := k.runConn(ctx, node, c)
		close(c.closed)
		// A heartbeat in flight is lost, and a leader that does not respond to its voters for 80 ms is suspected,
		// so another heartbeat follows immediately. It opens a new connection, because closed is already closed.
		if wasLost {
			k.options.Trigger()
		}
	})
	return c
}

// runConn dials node, sends the heartbeats of c and reads the responses until the connection or ctx
// ends. wasLost reports whether the peer or the network closed a connection that was open for at least
// minRedialInterval.
func (k *Client) runConn(ctx context.Context, node string, c *leaderConn) (wasLost bool) {
	dialCtx, cancelDial := context.WithTimeout(ctx, time.Second)
	conn, err := k.options.Port.Dial(dialCtx, node, peer.Heartbeat)
	cancelDial()
	if err != nil {
		k.options.Log.Debug().Err(err).Str("peer", node).Msg("leader not reachable")
		// Without this pause, each heartbeat would dial again.
		select {
		case <-time.After(minRedialInterval):
		case <-ctx.Done():
		}
		return false
	}
	connectedAt := time.Now()
	k.exchange(ctx, conn, c.pending)
	return k.reportClosed(ctx, node, conn) && time.Since(connectedAt) >= minRedialInterval
}

// exchange sends the heartbeats in pending over conn, and reads the responses in a separate goroutine. It closes
// conn, and returns after both have ended: when the peer or the network has closed conn, or ctx has ended.
func (k *Client) exchange(ctx context.Context, conn *peer.Conn, pending <-chan ack.Heartbeat) {
	defer closeStream(conn)
	stopWatching := context.AfterFunc(ctx, func() { closeStream(conn) })
	defer stopWatching()
	readerReturned := make(chan struct{})
	go func() { // ends when conn is closed
		defer close(readerReturned)
		k.readResponses(ctx, conn)
	}()
	for {
		select {
		case <-readerReturned:
			return
		case hb := <-pending:
			encoded, err := hb.MarshalBinary()
			if err == nil {
				err = peer.WriteFrame(conn, encoded)
			}
			if err != nil {
				closeStream(conn)
				<-readerReturned
				return
			}
		}
	}
}

// closeStream closes a stream that is no longer used, and ignores the error.
func closeStream(c *peer.Conn) { _ = c.Close() }

// reportClosed calls OnConnClosed, unless ctx has ended, because then this node closed the connection. It reports
// whether it called OnConnClosed.
func (k *Client) reportClosed(ctx context.Context, node string, conn *peer.Conn) bool {
	if ctx.Err() != nil {
		return false
	}
	k.options.OnConnClosed(node, conn.Boot())
	return true
}

// readResponses passes responses to the agent until the connection or ctx ends.
func (k *Client) readResponses(ctx context.Context, conn *peer.Conn) {
	in := bufio.NewReaderSize(conn, bufferSize)
	var buf []byte
	for {
		b, err := peer.ReadFrame(in, buf, ack.MaxMessage)
		if err != nil {
			return
		}
		buf = b
		var a ack.Answer
		if err := a.UnmarshalBinary(b); err != nil {
			k.options.Log.Warn().Err(err).Str("peer", conn.Node()).Msg("invalid response to heartbeat")
			return
		}
		select {
		case k.options.Answers <- a:
		case <-ctx.Done():
			return
		}
	}
}
