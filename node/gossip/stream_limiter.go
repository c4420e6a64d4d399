package gossip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"
)

// memberlist reads up to 20 MiB of every stream before it decrypts the first
// byte, and takes any number of streams: whoever reached the port could fill the
// machine's memory. These bounds count what it may keep of strangers.
//
// A member takes at most 700 bytes in an exchange of state, with the longest
// name and tags there are, so a stream has room for 2 900 members; an exchange
// takes milliseconds, and a node begins one in 10 s.
const (
	maxStreams       = 128
	maxSourceStreams = 32
	maxStreamBytes   = 2 << 20
	maxSourceBytes   = 4 << 20
	maxTotalBytes    = 16 << 20
	streamLifetime   = 6 * time.Second
	// spared is how long an exchange may take before it gives way to another of
	// its source: of a hundred that begin at once some end, and not each the other.
	evictionGrace = 100 * time.Millisecond
	// socketBuffer bounds what the kernel keeps of a stream.
	socketBuffer = 256 << 10
	// floodPause is how long nothing more is logged about closed streams.
	floodLogInterval = 10 * time.Second
)

// Why a stream was closed before its time.
const (
	closedForSource = iota // too many from one source
	closedForAll           // too many
	closedForSize          // too long
	closedForShare         // too many bytes from one source
	closedForBytes         // too many bytes
	closedReasons
)

func reasonText(reason int) string {
	return [closedReasons]string{"source-streams", "streams", "stream-bytes", "source-bytes", "bytes"}[reason]
}

// StreamReasons returns all that StreamStats.Closed counts by.
func StreamReasons() []string {
	var out []string
	for i := range closedReasons {
		out = append(out, reasonText(i))
	}
	return out
}

// StreamStats is what the streams that others opened amount to.
type StreamStats struct {
	// Open is how many there are now, Bytes what memberlist may have kept of them.
	Open, Bytes int
	// Closed counts, by reason, those that were closed for being too many or too
	// much since the start.
	Closed map[string]uint64
}

// doorkeeper is the transport that memberlist gets. It stands before the streams
// that others open. One more than may be closes the oldest of the source that has
// the most, itself if that one has hardly begun and is of no greater source; bytes beyond their bound close the longest stream of the source
// that sent the most: who floods pushes himself out, and nobody else. A source is
// an address, with IPv6 a network of 64 bits.
type streamLimiter struct {
	memberlist.NodeAwareTransport
	log     zerolog.Logger
	streams chan net.Conn
	done    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup

	closed      [closedReasons]atomic.Uint64
	floodLogged atomic.Int64 // when a flood was last logged, UnixNano

	mu struct {
		sync.Mutex
		sources     map[netip.Prefix]*source
		open, bytes int
	}
}

var _ memberlist.NodeAwareTransport = (*streamLimiter)(nil)

// source is what one source has open.
type source struct {
	prefix  netip.Prefix
	streams []*stream // the oldest first
	bytes   int
}

// stream is one that somebody opened, until it is closed.
type stream struct {
	net.Conn
	limiter  *streamLimiter
	source   *source
	deadline time.Time
	bytes    int  // with d.mu
	removed  bool // with d.mu
}

func newStreamLimiter(t memberlist.NodeAwareTransport, log zerolog.Logger) *streamLimiter {
	l := &streamLimiter{NodeAwareTransport: t, log: log, streams: make(chan net.Conn), done: make(chan struct{})}
	l.mu.sources = map[netip.Prefix]*source{}
	l.wg.Go(l.run)
	return l
}

// run takes streams in until Shutdown.
func (l *streamLimiter) run() {
	for {
		select {
		case c := <-l.NodeAwareTransport.StreamCh():
			s := l.admit(c)
			if s == nil {
				continue
			}
			select {
			case l.streams <- s:
			case <-l.done:
				_ = s.Close()
				return
			}
		case <-l.done:
			return
		}
	}
}

// StreamCh returns where the streams arrive that others open.
func (l *streamLimiter) StreamCh() <-chan net.Conn { return l.streams }

// Shutdown closes the port. Streams go on being taken until nothing comes any
// more: the transport beneath waits for that.
func (l *streamLimiter) Shutdown() error {
	err := l.NodeAwareTransport.Shutdown()
	l.once.Do(func() { close(l.done) })
	l.wg.Wait()
	return err
}

// DialTimeout opens a stream, whose answer is bounded too.
func (l *streamLimiter) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return l.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream, whose answer is bounded too.
func (l *streamLimiter) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	c, err := l.NodeAwareTransport.DialAddressTimeout(a, timeout)
	if err != nil {
		return nil, err
	}
	return &limitedConn{Conn: c, remaining: maxStreamBytes}, nil
}

// admit takes a stream in and closes the one that it makes too many, which may be
// itself: then it returns nil.
func (l *streamLimiter) admit(c net.Conn) *stream {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetReadBuffer(socketBuffer) // a bound, where it can be set
	}
	now := time.Now()
	s := &stream{Conn: c, limiter: l, deadline: now.Add(streamLifetime)}
	_ = c.SetDeadline(s.deadline)
	from := sourceOf(c.RemoteAddr())
	l.mu.Lock()
	if s.source = l.mu.sources[from]; s.source == nil {
		s.source = &source{prefix: from}
		l.mu.sources[from] = s.source
	}
	s.source.streams = append(s.source.streams, s)
	l.mu.open++
	var evicted *stream
	reason := closedForSource
	switch {
	case len(s.source.streams) > maxSourceStreams:
		evicted = s.source.streams[0]
	case l.mu.open > maxStreams:
		reason, evicted = closedForAll, l.largestSourceLocked(func(x *source) int { return len(x.streams) }).streams[0]
	}
	if evicted != nil && len(evicted.source.streams) <= len(s.source.streams) && now.Before(evicted.deadline.Add(evictionGrace-streamLifetime)) {
		evicted = s
	}
	l.removeLocked(evicted)
	l.mu.Unlock()
	l.closeExcess(evicted, reason)
	if evicted == s {
		return nil
	}
	return s
}

// took counts n bytes of a stream and returns an error if it is over.
func (l *streamLimiter) countBytes(s *stream, n int) error {
	l.mu.Lock()
	if s.removed {
		l.mu.Unlock()
		return net.ErrClosed
	}
	s.bytes += n
	s.source.bytes += n
	l.mu.bytes += n
	var evicted *stream
	reason := closedForSize
	switch {
	case s.bytes > maxStreamBytes:
		evicted = s
	case s.source.bytes > maxSourceBytes:
		reason, evicted = closedForShare, s.source.largestStream()
	case l.mu.bytes > maxTotalBytes:
		reason, evicted = closedForBytes, l.largestSourceLocked(func(x *source) int { return x.bytes }).largestStream()
	}
	l.removeLocked(evicted)
	l.mu.Unlock()
	l.closeExcess(evicted, reason)
	if evicted == s {
		return fmt.Errorf("gossip: stream from %s closed: %s", s.source.prefix, reasonText(reason))
	}
	return nil
}

// most returns the source that has the most of something; d.mu is held, and there
// is a source.
func (l *streamLimiter) largestSourceLocked(of func(*source) int) *source {
	var out *source
	for _, x := range l.mu.sources {
		if out == nil || of(x) > of(out) {
			out = x
		}
	}
	return out
}

func (x *source) largestStream() *stream {
	out := x.streams[0]
	for _, s := range x.streams {
		if s.bytes > out.bytes {
			out = s
		}
	}
	return out
}

// remove takes a stream out of the books, once; d.mu is held.
func (l *streamLimiter) removeLocked(s *stream) {
	if s == nil || s.removed {
		return
	}
	s.removed = true
	for i, x := range s.source.streams {
		if x == s {
			s.source.streams = append(s.source.streams[:i], s.source.streams[i+1:]...)
			break
		}
	}
	l.mu.open--
	l.mu.bytes -= s.bytes
	s.source.bytes -= s.bytes
	if len(s.source.streams) == 0 {
		delete(l.mu.sources, s.source.prefix)
	}
}

// end closes a stream that had to go, counts it and says so now and then.
func (l *streamLimiter) closeExcess(s *stream, reason int) {
	if s == nil {
		return
	}
	_ = s.Conn.Close()
	n := l.closed[reason].Add(1)
	now, last := time.Now().UnixNano(), l.floodLogged.Load()
	if now-last < int64(floodLogInterval) || !l.floodLogged.CompareAndSwap(last, now) {
		return
	}
	l.log.Warn().Stringer("source", s.source.prefix).Str("reason", reasonText(reason)).Uint64("closed", n).
		Msg("unauthenticated gossip streams closed")
}

// stats returns what is open now.
func (l *streamLimiter) stats() StreamStats {
	st := StreamStats{Closed: map[string]uint64{}}
	for i := range l.closed {
		st.Closed[reasonText(i)] = l.closed[i].Load()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	st.Open, st.Bytes = l.mu.open, l.mu.bytes
	return st
}

// Read reads and counts.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 {
		if e := s.limiter.countBytes(s, n); e != nil {
			return 0, e
		}
	}
	return n, err
}

// Close closes the stream and gives its place back.
func (s *stream) Close() error {
	s.limiter.mu.Lock()
	s.limiter.removeLocked(s)
	s.limiter.mu.Unlock()
	return s.Conn.Close()
}

// The deadlines that memberlist sets end with the stream's lifetime.

// SetDeadline sets both.
func (s *stream) SetDeadline(t time.Time) error { return s.Conn.SetDeadline(s.limitDeadline(t)) }

// SetReadDeadline sets that of Read.
func (s *stream) SetReadDeadline(t time.Time) error {
	return s.Conn.SetReadDeadline(s.limitDeadline(t))
}

// SetWriteDeadline sets that of Write.
func (s *stream) SetWriteDeadline(t time.Time) error {
	return s.Conn.SetWriteDeadline(s.limitDeadline(t))
}

func (s *stream) limitDeadline(t time.Time) time.Time {
	if t.IsZero() || t.After(s.deadline) {
		return s.deadline
	}
	return t
}

// dialed is a stream that this node opened.
type limitedConn struct {
	net.Conn
	remaining int
}

var errTooLong = errors.New("gossip: the other side sends more than any cluster's state")

// Read reads as much as there may be.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.remaining -= n; c.remaining < 0 {
		return 0, errTooLong
	}
	return n, err
}

// sourceOf returns what counts as one source.
func sourceOf(a net.Addr) netip.Prefix {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip := ap.Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}
