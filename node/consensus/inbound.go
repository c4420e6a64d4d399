package consensus

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"shardway/node/logs"
	"shardway/peer"
)

// inbound is one accepted stream. The library decodes what comes over any stream
// into one channel, and whose words they are stands in the words. So each stream has
// a transport of the library's of its own, of which only the decoder is used, and
// what arrives there is said by the server at its other end: one that speaks in
// another's name is cut off before anything it says is believed.
type inbound struct {
	*raft.NetworkTransport
	t      *transport
	conn   *streamConn
	server string // "" for this server itself
}

// accept takes streams in until the layer is closed.
func (t *transport) accept() {
	for {
		c, err := t.layer.Accept()
		if errors.Is(err, net.ErrClosed) && t.layer.ctx.Err() != nil {
			return
		}
		if sc, ok := c.(*streamConn); ok && err == nil {
			go t.take(sc) // ends with the stream
		}
	}
}

// take serves one stream and returns when it has ended.
func (t *transport) take(c *streamConn) {
	in := &inbound{t: t, conn: c, server: c.server()}
	in.NetworkTransport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: newSingle(c), Timeout: t.timeout, Logger: logs.Hclog(t.log, "raft-net"),
	})
	in.SetHeartbeatHandler(in.heartbeat)
	defer func() { _ = in.Close() }() // It has no error.
	for {
		select {
		case rpc := <-in.Consumer():
			in.pass(rpc)
		case <-c.done:
			return
		case <-t.closed:
			return
		}
	}
}

// heartbeat takes one beside Raft's loop, as the library does, if it may.
func (in *inbound) heartbeat(rpc raft.RPC) {
	if !in.speaks(rpc) {
		return
	}
	in.t.heard()
	in.t.beat.Lock()
	beat := in.t.beat.take
	in.t.beat.Unlock()
	if beat == nil || !in.t.beside(in.t, rpc, beat) {
		in.hand(rpc)
	}
}

// pass hands a request to the relay if it comes from who it says.
func (in *inbound) pass(rpc raft.RPC) {
	if in.speaks(rpc) {
		in.hand(rpc)
	}
}

func (in *inbound) hand(rpc raft.RPC) {
	select {
	case in.t.arrived <- rpc:
	case <-in.conn.done:
	case <-in.t.closed:
	}
}

// speaks reports whether a request comes from the server whose stream it is, and
// takes the term that it states. The stream of one that says it is another ends.
func (in *inbound) speaks(rpc raft.RPC) bool {
	if in.server == "" {
		return true
	}
	if h, ok := rpc.Command.(raft.WithRPCHeader); ok {
		if id := string(h.GetRPCHeader().ID); id != in.server {
			err := fmt.Errorf("consensus: server %.128q speaks as %.128q", in.server, id)
			if in.t.spoofs.allows(time.Now()) {
				in.t.log.Warn().Err(err).Msg("raft stream closed")
			}
			rpc.Respond(nil, err)
			_ = in.conn.Close()
			return false
		}
	}
	if term := statedIn(rpc.Command); term > 0 {
		in.t.stated(raft.ServerID(in.server), term)
	}
	return true
}

// server returns who is at the other end, "" for this server itself.
func (c *streamConn) server() string {
	p, ok := c.Conn.(*peer.Conn)
	if !ok {
		return ""
	}
	far := p.Peer()
	return ServerID(far.Node, far.Disk)
}

// single is a stream layer with one connection.
type single struct {
	conns  chan net.Conn // cap 1
	closed chan struct{} // latch
	once   sync.Once
	addr   net.Addr
}

func newSingle(c *streamConn) *single {
	s := &single{conns: make(chan net.Conn, 1), closed: make(chan struct{}), addr: c.s.Addr()}
	s.conns <- c
	return s
}

// Accept returns the connection, then none.
func (s *single) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (s *single) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr returns the server's id.
func (s *single) Addr() net.Addr { return s.addr }

// Dial is not for this one.
func (s *single) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

// dialing is a layer of which the library only dials.
type dialing struct{ *layer }

// Accept returns when the layer is closed.
func (d dialing) Accept() (net.Conn, error) {
	<-d.ctx.Done()
	return nil, net.ErrClosed
}

// voting is a layer that dials no longer than so long, however long an answer may take.
type voting struct {
	dialing
	most time.Duration
}

// Dial connects to a server.
func (v voting) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return v.dialing.Dial(address, min(timeout, v.most))
}
