package consensus

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/hashicorp/raft"

	"shardway/peer"
)

// DialFunc opens a Raft stream to a node that has this disk.
type DialFunc func(ctx context.Context, node, disk string) (net.Conn, error)

// PeerDialer returns a DialFunc that uses the peer port.
func PeerDialer(port *peer.Port) DialFunc {
	return func(ctx context.Context, node, disk string) (net.Conn, error) {
		conn, err := port.DialServer(ctx, node, disk, peer.Raft)
		if err != nil {
			return nil, err
		}
		return conn, nil
	}
}

// Stream owns all connections of Raft, so that closing it ends the goroutines of the Raft library.
type Stream struct {
	serverID string // ID of this server
	dial     DialFunc
	accepted chan *streamConn // unbuffered; connections of other servers for the Raft library
	ctx      context.Context
	cancel   context.CancelFunc

	// mu protects the following fields.
	mu        sync.Mutex
	openConns map[*streamConn]struct{}
	isolated  bool
	retryNow  chan struct{} // closed and replaced by retryDials
}

// NewStream returns a Stream for the server with this ID ("node/disk").
func NewStream(serverID string, dial DialFunc) *Stream {
	ctx, cancel := context.WithCancel(context.Background())
	return &Stream{
		serverID:  serverID,
		dial:      dial,
		accepted:  make(chan *streamConn),
		ctx:       ctx,
		cancel:    cancel,
		openConns: make(map[*streamConn]struct{}),
		retryNow:  make(chan struct{}),
	}
}

// Handle serves an accepted stream until it ends. It is the handler of the peer port for Raft.
func (s *Stream) Handle(ctx context.Context, conn *peer.Conn) { s.Serve(ctx, conn) }

// Serve passes a connection to the Raft library. It returns when the connection is closed or ctx ends.
func (s *Stream) Serve(ctx context.Context, conn net.Conn) {
	tracked, err := s.track(nil, conn)
	if err != nil {
		return
	}
	defer func() { _ = tracked.Close() }()
	select {
	case s.accepted <- tracked:
	case <-ctx.Done():
		return
	case <-tracked.done:
		return
	}
	select {
	case <-tracked.done:
	case <-ctx.Done():
	}
}

// newLayer returns a stream layer for one instance of the Raft library.
func (s *Stream) newLayer() *streamLayer {
	l := &streamLayer{stream: s}
	l.ctx, l.cancel = context.WithCancel(s.ctx)
	return l
}

// errIsolated is the error of a dial while a write of the leader is stalled.
var errIsolated = errors.New("consensus: isolated while a disk write hangs")

// Isolate isolates the server from all other servers: it closes all connections and rejects new ones. If
// isolate is false, it ends the isolation.
func (s *Stream) Isolate(isolate bool) {
	s.mu.Lock()
	s.isolated = isolate
	s.mu.Unlock()
	if isolate {
		s.closeMatching(func(*streamConn) bool { return true })
	}
}

// Isolated reports whether the stream is isolated.
func (s *Stream) Isolated() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isolated
}

// track registers a connection of l, which may be nil, or closes it if no connection is allowed.
func (s *Stream) track(l *streamLayer, conn net.Conn) (*streamConn, error) {
	tracked := &streamConn{Conn: conn, stream: s, layer: l, done: make(chan struct{})}
	s.mu.Lock()
	err := s.ctx.Err()
	if l != nil {
		err = l.ctx.Err()
	}
	if err == nil && s.isolated {
		err = errIsolated
	}
	if err == nil {
		s.openConns[tracked] = struct{}{}
	}
	s.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return tracked, nil
}

// retryDials ends the pauses between dial attempts.
func (s *Stream) retryDials() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.retryNow)
	s.retryNow = make(chan struct{})
}

// retrySignal returns a channel that the next retryDials closes.
func (s *Stream) retrySignal() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retryNow
}

// untrack ends the tracking of a closed connection.
func (s *Stream) untrack(conn *streamConn) {
	s.mu.Lock()
	delete(s.openConns, conn)
	s.mu.Unlock()
}

// closeMatching closes the open connections for which match returns true.
func (s *Stream) closeMatching(match func(*streamConn) bool) {
	s.mu.Lock()
	matching := make([]*streamConn, 0, len(s.openConns))
	for conn := range s.openConns {
		if match(conn) {
			matching = append(matching, conn)
		}
	}
	s.mu.Unlock()
	for _, conn := range matching {
		_ = conn.Close()
	}
}

// CloseOtherProcesses closes the connections to all processes of a server except the one with this
// nonce. The other processes are older.
func (s *Stream) CloseOtherProcesses(server string, nonce uint64) {
	s.closeMatching(func(conn *streamConn) bool {
		peerConn, ok := conn.Conn.(*peer.Conn)
		if !ok {
			return false
		}
		remote := peerConn.Peer()
		return ServerID(remote.Node, remote.Disk) == server && remote.Nonce != nonce
	})
}

// Close closes all connections and rejects new ones.
func (s *Stream) Close() error {
	s.cancel()
	s.closeMatching(func(*streamConn) bool { return true })
	return nil
}

// Addr returns the server ID, which is also the address of the server.
func (s *Stream) Addr() net.Addr { return serverAddr(s.serverID) }

// serverAddr implements net.Addr with the server ID.
type serverAddr string

// Network returns the name of the network.
func (serverAddr) Network() string { return "shardway" }

// String returns the server ID.
func (a serverAddr) String() string { return string(a) }

var _ raft.StreamLayer = (*streamLayer)(nil)
