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

// inbound is an accepted stream. The Raft library decodes the requests of all streams into one
// channel, and each request contains the ID of its sender. To verify the sender, each stream has a
// separate Raft library transport, of which only the decoder is used, so that its requests are
// known to come from the server at the other end of the stream. A server that impersonates another
// one is disconnected.
type inbound struct {
	*raft.NetworkTransport
	transport *transport
	conn      *streamConn
	server    string // server at the other end; "" means this server
}

// acceptLoop accepts streams until the layer is closed.
func (t *transport) acceptLoop() {
	for {
		conn, err := t.layer.Accept()
		if errors.Is(err, net.ErrClosed) && t.layer.ctx.Err() != nil {
			return
		}
		if tracked, ok := conn.(*streamConn); ok && err == nil {
			go t.serveStream(tracked) // ends with the stream
		}
	}
}

// serveStream serves one stream and returns when the stream has ended.
func (t *transport) serveStream(conn *streamConn) {
	in := &inbound{transport: t, conn: conn, server: conn.server()}
	in.NetworkTransport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: newSingleConnLayer(conn), Timeout: t.messageTimeout, Logger: logs.Hclog(t.log, "raft-net"),
	})
	in.SetHeartbeatHandler(in.receiveHeartbeat)
	defer func() { _ = in.Close() }() // never returns an error
	for {
		select {
		case rpc := <-in.Consumer():
			in.forwardVerified(rpc)
		case <-conn.done:
			return
		case <-t.closed:
			return
		}
	}
}

// receiveHeartbeat passes a heartbeat to the handler of the Raft library, which bypasses its main loop. If
// this is not possible, the heartbeat is forwarded like other requests.
func (in *inbound) receiveHeartbeat(rpc raft.RPC) {
	if !in.verifySender(rpc) {
		return
	}
	in.transport.onHeartbeat()
	in.transport.heartbeatHandler.Lock()
	libraryHandler := in.transport.heartbeatHandler.handle
	in.transport.heartbeatHandler.Unlock()
	if libraryHandler == nil || !in.transport.deliverHeartbeat(rpc, libraryHandler) {
		in.forward(rpc)
	}
}

// forwardVerified forwards a request to relayLoop if its sender is the server at the other end.
func (in *inbound) forwardVerified(rpc raft.RPC) {
	if in.verifySender(rpc) {
		in.forward(rpc)
	}
}

// forward sends a request to relayLoop.
func (in *inbound) forward(rpc raft.RPC) {
	select {
	case in.transport.received <- rpc:
	case <-in.conn.done:
	case <-in.transport.closed:
	}
}

// verifySender reports whether a request comes from the server at the other end of the stream. It
// reports the term of the sender, and records the sender of a request that only leaders send. If
// the request comes from another server, it closes the stream.
func (in *inbound) verifySender(rpc raft.RPC) bool {
	if isFromSelf := in.server == ""; isFromSelf {
		return true
	}
	message, hasHeader := rpc.Command.(raft.WithRPCHeader)
	if hasHeader && string(message.GetRPCHeader().ID) != in.server {
		in.rejectSender(rpc, string(message.GetRPCHeader().ID))
		return false
	}
	in.transport.recordLeader(in.server, rpc.Command)
	if term := senderTerm(rpc.Command); term > 0 {
		in.transport.reportTerm(raft.ServerID(in.server), term)
	}
	return true
}

// rejectSender rejects a request that claims to come from a server other than the one at the other
// end of the stream, and closes the stream.
func (in *inbound) rejectSender(rpc raft.RPC, claimed string) {
	err := fmt.Errorf("consensus: server %.128q sent a request in the name of %.128q", in.server, claimed)
	if in.transport.spoofLogLimit.allow(time.Now()) {
		in.transport.log.Warn().Err(err).Msg("raft stream closed")
	}
	rpc.Respond(nil, err)
	_ = in.conn.Close()
}

// server returns the server at the other end, or "" for this server.
func (c *streamConn) server() string {
	peerConn, ok := c.Conn.(*peer.Conn)
	if !ok {
		return ""
	}
	remote := peerConn.Peer()
	return ServerID(remote.Node, remote.Disk)
}

// singleConnLayer is a stream layer with one connection.
type singleConnLayer struct {
	conns  chan net.Conn // capacity 1
	closed chan struct{} // closed by Close
	once   sync.Once
	addr   net.Addr
}

// newSingleConnLayer returns a stream layer whose only connection is conn.
func newSingleConnLayer(conn *streamConn) *singleConnLayer {
	s := &singleConnLayer{conns: make(chan net.Conn, 1), closed: make(chan struct{}), addr: conn.stream.Addr()}
	s.conns <- conn
	return s
}

// Accept returns the connection at the first call, and blocks until Close after that.
func (s *singleConnLayer) Accept() (net.Conn, error) {
	select {
	case conn := <-s.conns:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (s *singleConnLayer) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr returns the server ID.
func (s *singleConnLayer) Addr() net.Addr { return s.addr }

// Dial is not supported.
func (s *singleConnLayer) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

// dialOnlyLayer is a layer that the Raft library uses only to dial.
type dialOnlyLayer struct{ *streamLayer }

// Accept blocks until the layer is closed.
func (d dialOnlyLayer) Accept() (net.Conn, error) {
	<-d.ctx.Done()
	return nil, net.ErrClosed
}

// voteLayer is a layer with a separate limit for dialing, because the timeout for a response to a
// vote is long.
type voteLayer struct {
	dialOnlyLayer
	maxDialTimeout time.Duration
}

// Dial connects to a server within min(timeout, maxDialTimeout).
func (v voteLayer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	return v.dialOnlyLayer.Dial(address, min(timeout, v.maxDialTimeout))
}
