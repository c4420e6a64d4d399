package consensus

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"shardway/peer"
)

const (
	dialPauseMin = 10 * time.Millisecond
	dialPauseMax = 200 * time.Millisecond
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
	accepts chan net.Conn // unbuffered
	ctx     context.Context
	cancel  context.CancelFunc

	mu       sync.Mutex
	open     map[*streamConn]struct{}
	isolated bool
}

var _ raft.StreamLayer = (*Stream)(nil)

// NewStream returns a Stream for the server local ("node/disk").
func NewStream(local string, dial DialFunc) *Stream {
	ctx, cancel := context.WithCancel(context.Background())
	return &Stream{
		local:   local,
		dial:    dial,
		accepts: make(chan net.Conn),
		ctx:     ctx,
		cancel:  cancel,
		open:    make(map[*streamConn]struct{}),
	}
}

// Handle serves an accepted stream until it ends; it is the peer port's handler
// for Raft.
func (s *Stream) Handle(ctx context.Context, c *peer.Conn) { s.Serve(ctx, c) }

// Serve hands a connection to Raft and returns when it is closed, at the latest
// when ctx ends.
func (s *Stream) Serve(ctx context.Context, c net.Conn) {
	sc, err := s.track(c)
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

// Accept returns the next connection for Raft.
func (s *Stream) Accept() (net.Conn, error) {
	select {
	case c := <-s.accepts:
		return c, nil
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Dial connects to a server. It goes on trying until timeout: a server that is
// just starting must not cost a pause of Raft's.
func (s *Stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if string(address) == s.local {
		return s.self()
	}
	node, disk, err := split(string(address))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	for pause := dialPauseMin; ; pause = min(2*pause, dialPauseMax) {
		c, err := s.try(ctx, node, disk)
		if err == nil {
			return c, nil
		}
		d := &dialError{err: err, final: hopeless(err) || s.ctx.Err() != nil}
		if d.final {
			return nil, d
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, d
		}
	}
}

// dialError is an error of Dial: nothing was sent.
type dialError struct {
	err error
	// final means that trying on is of no use.
	final bool
}

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// hopeless reports a refusal that no patience changes: the node has another disk.
func hopeless(err error) bool {
	var r *peer.RefusedError
	return errors.As(err, &r) && r.Code == peer.RefusedDisk
}

func (s *Stream) try(ctx context.Context, node, disk string) (net.Conn, error) {
	if s.Isolated() {
		return nil, errIsolated
	}
	c, err := s.dial(ctx, node, disk)
	if err != nil {
		return nil, err
	}
	sc, err := s.track(c)
	if err != nil {
		return nil, err
	}
	return sc, nil
}

// probe finds out, by one dial, whether a server can be reached.
func (s *Stream) probe(address raft.ServerAddress, timeout time.Duration) error {
	node, disk, err := split(string(address))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	c, err := s.try(ctx, node, disk)
	if err != nil {
		return err
	}
	return c.Close()
}

// self connects Raft with itself in memory, for TimeoutNow.
func (s *Stream) self() (net.Conn, error) {
	a, b := net.Pipe()
	near, err := s.track(a)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	far, err := s.track(b)
	if err != nil {
		return nil, errors.Join(err, near.Close())
	}
	select {
	case s.accepts <- far:
		return near, nil
	case <-s.ctx.Done():
		return nil, errors.Join(net.ErrClosed, near.Close(), far.Close())
	}
}

// errIsolated reports a dial while a write of the leader hangs.
var errIsolated = errors.New("consensus: cut off while a write hangs")

// Isolate cuts every connection and allows none, or ends that.
func (s *Stream) Isolate(on bool) {
	s.mu.Lock()
	s.isolated = on
	s.mu.Unlock()
	if on {
		s.closeAll()
	}
}

// Isolated reports whether the stream is cut off.
func (s *Stream) Isolated() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isolated
}

// track takes a connection over, or closes it if none may be open.
func (s *Stream) track(c net.Conn) (*streamConn, error) {
	sc := &streamConn{Conn: c, s: s, done: make(chan struct{})}
	s.mu.Lock()
	err := s.ctx.Err()
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

func (s *Stream) forget(c *streamConn) {
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
}

func (s *Stream) closeAll() {
	s.mu.Lock()
	all := make([]*streamConn, 0, len(s.open))
	for c := range s.open {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// Close closes every connection; Accept and Dial fail from now on.
func (s *Stream) Close() error {
	s.cancel()
	s.closeAll()
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

// streamConn is a connection that Stream knows of until it is closed.
type streamConn struct {
	net.Conn
	s    *Stream
	once sync.Once
	done chan struct{} // latch
	err  error
}

// Close closes the connection once.
func (c *streamConn) Close() error {
	c.once.Do(func() {
		c.s.forget(c)
		c.err = c.Conn.Close()
		close(c.done)
	})
	return c.err
}
