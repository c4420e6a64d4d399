package consensus

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/hashicorp/raft"

	"shardway/peer"
)

// DialFunc opens a Raft stream to a node with one certain disk.
type DialFunc func(ctx context.Context, node, disk string) (net.Conn, error)

// Over returns a DialFunc over the peer port.
func Over(p *peer.Port) DialFunc {
	return func(ctx context.Context, node, disk string) (net.Conn, error) {
		c, err := p.DialServer(ctx, node, disk, peer.Raft)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}

// Stream is where Raft's connections come from and go to. It owns them all, so
// that closing it ends the library's goroutines.
type Stream struct {
	local   string
	dial    DialFunc
	accepts chan *streamConn // unbuffered
	ctx     context.Context
	cancel  context.CancelFunc

	mu       sync.Mutex
	open     map[*streamConn]struct{}
	isolated bool
	hurry    chan struct{} // closed, and another one made, by hasten
}

// NewStream returns a Stream for the server local ("node/disk").
func NewStream(local string, dial DialFunc) *Stream {
	ctx, cancel := context.WithCancel(context.Background())
	return &Stream{
		local:   local,
		dial:    dial,
		accepts: make(chan *streamConn),
		ctx:     ctx,
		cancel:  cancel,
		open:    make(map[*streamConn]struct{}),
		hurry:   make(chan struct{}),
	}
}

// Handle serves an accepted stream until it ends; it is the peer port's handler
// for Raft.
func (s *Stream) Handle(ctx context.Context, c *peer.Conn) { s.Serve(ctx, c) }

// Serve hands a connection to Raft and returns when it is closed, at the latest
// when ctx ends.
func (s *Stream) Serve(ctx context.Context, c net.Conn) {
	sc, err := s.track(nil, c)
	if err != nil {
		return
	}
	defer func() { _ = sc.Close() }()
	select {
	case s.accepts <- sc:
	case <-ctx.Done():
		return
	case <-sc.done:
		return
	}
	select {
	case <-sc.done:
	case <-ctx.Done():
	}
}

// layer returns a stream layer for one life of the library's Raft.
func (s *Stream) layer() *layer {
	l := &layer{s: s}
	l.ctx, l.cancel = context.WithCancel(s.ctx)
	return l
}

// errIsolated reports a dial while a write of the leader hangs.
var errIsolated = errors.New("consensus: cut off while a write hangs")

// Isolate cuts every connection and allows none, or ends that.
func (s *Stream) Isolate(on bool) {
	s.mu.Lock()
	s.isolated = on
	s.mu.Unlock()
	if on {
		s.closeAll(func(*streamConn) bool { return true })
	}
}

// Isolated reports whether the stream is cut off.
func (s *Stream) Isolated() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isolated
}

// track takes a connection over for l, which may be nil yet, or closes it if
// none may be open.
func (s *Stream) track(l *layer, c net.Conn) (*streamConn, error) {
	sc := &streamConn{Conn: c, s: s, of: l, done: make(chan struct{})}
	s.mu.Lock()
	err := s.ctx.Err()
	if l != nil {
		err = l.ctx.Err()
	}
	if err == nil && s.isolated {
		err = errIsolated
	}
	if err == nil {
		s.open[sc] = struct{}{}
	}
	s.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return sc, nil
}

// hasten ends the pauses of those who dial.
func (s *Stream) hasten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.hurry)
	s.hurry = make(chan struct{})
}

// hurried is closed by the next hasten.
func (s *Stream) hurried() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hurry
}

func (s *Stream) forget(c *streamConn) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
}

func (s *Stream) closeAll(which func(*streamConn) bool) {
	s.mu.Lock()
	all := make([]*streamConn, 0, len(s.open))
	for c := range s.open {
		if which(c) {
			all = append(all, c)
		}
	}
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// Outlived closes the connections with other processes of a server than the one
// with this nonce: they are older.
func (s *Stream) Outlived(server string, nonce uint64) {
	s.closeAll(func(c *streamConn) bool {
		p, ok := c.Conn.(*peer.Conn)
		if !ok {
			return false
		}
		far := p.Peer()
		return ServerID(far.Node, far.Disk) == server && far.Nonce != nonce
	})
}

// Close closes every connection; there are no others from now on.
func (s *Stream) Close() error {
	s.cancel()
	s.closeAll(func(*streamConn) bool { return true })
	return nil
}

// Addr returns the server's id, which is its address.
func (s *Stream) Addr() net.Addr { return serverAddr(s.local) }

// serverAddr is a server id as an address.
type serverAddr string

// Network returns the name of the network.
func (serverAddr) Network() string { return "shardway" }

// String returns the server id.
func (a serverAddr) String() string { return string(a) }

var _ raft.StreamLayer = (*layer)(nil)
