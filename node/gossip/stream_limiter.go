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

// memberlist reads up to 20 MiB of every stream before it decrypts the first byte, and accepts any
// number of streams. Without these limits, any host that reaches the port could exhaust the memory.
//
// In a state exchange a member takes up to 700 bytes, with the longest name and tags. So a stream has
// room for 2,900 members. An exchange takes milliseconds, and a node starts one every 10 s.
const (
	maxStreams       = 128
	maxSourceStreams = 32
	maxStreamBytes   = 2 << 20
	maxSourceBytes   = 4 << 20
	maxTotalBytes    = 16 << 20
	streamLifetime   = 6 * time.Second
	// evictionGrace is how long a stream is protected against newer streams of its source. So if a
	// hundred exchanges start at once, some complete, and they do not all evict each other.
	evictionGrace = 100 * time.Millisecond
	// socketBuffer limits the receive buffer of the kernel for a stream.
	socketBuffer = 256 << 10
	// floodLogInterval is the minimum interval between two log lines about closed streams.
	floodLogInterval = 10 * time.Second
)

// Reasons for closing a stream early.
const (
	closedForSource = iota // too many streams of one source
	closedForAll           // too many streams
	closedForSize          // too many bytes of one stream
	closedForShare         // too many bytes of one source
	closedForBytes         // too many bytes in total
	closedReasons
)

// reasonText returns the name of a reason for metrics and logs.
func reasonText(reason int) string {
	return [closedReasons]string{"source-streams", "streams", "stream-bytes", "source-bytes", "bytes"}[reason]
}

// StreamReasons returns the keys of StreamStats.Closed.
func StreamReasons() []string {
	var out []string
	for i := range closedReasons {
		out = append(out, reasonText(i))
	}
	return out
}

// StreamStats has statistics of the streams that other hosts have opened.
type StreamStats struct {
	// Open is the current number of streams, and Bytes the number of bytes that memberlist may hold.
	Open, Bytes int
	// Closed is the number of streams that were closed due to a limit since the start, by reason.
	Closed map[string]uint64
}

// streamLimiter is the transport of memberlist. It limits the streams that other hosts open.
//
// A stream beyond a limit closes the oldest stream of the source with the most streams. If that
// stream has started very recently and its source has no more streams than the new one, the new
// stream is closed. Bytes beyond a limit close the longest stream of the source that has sent
// most. So a host that floods the port only closes its own streams. A source is an IPv4 address or
// an IPv6 /64 network.
type streamLimiter struct {
	memberlist.NodeAwareTransport
	log     zerolog.Logger
	streams chan net.Conn
	done    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup

	closed      [closedReasons]atomic.Uint64
	floodLogged atomic.Int64 // time of the last log line about closed streams, UnixNano

	mu struct {
		sync.Mutex
		sources     map[netip.Prefix]*source
		open, bytes int
	}
}

var _ memberlist.NodeAwareTransport = (*streamLimiter)(nil)

// source has the open streams of one source.
type source struct {
	prefix  netip.Prefix
	streams []*stream // oldest first
	bytes   int
}

// stream is an open stream of another host.
type stream struct {
	net.Conn
	limiter  *streamLimiter
	source   *source
	deadline time.Time
	bytes    int  // protected by limiter.mu
	removed  bool // protected by limiter.mu
}

// newStreamLimiter returns a streamLimiter on top of t, and starts to accept streams.
func newStreamLimiter(t memberlist.NodeAwareTransport, log zerolog.Logger) *streamLimiter {
	l := &streamLimiter{NodeAwareTransport: t, log: log, streams: make(chan net.Conn), done: make(chan struct{})}
	l.mu.sources = map[netip.Prefix]*source{}
	l.wg.Go(l.run)
	return l
}

// run accepts streams until Shutdown.
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

// StreamCh returns the channel of streams that other hosts open.
func (l *streamLimiter) StreamCh() <-chan net.Conn { return l.streams }

// Shutdown closes the port. It continues to accept streams until the underlying transport has
// ended, because the transport waits for this.
func (l *streamLimiter) Shutdown() error {
	err := l.NodeAwareTransport.Shutdown()
	l.once.Do(func() { close(l.done) })
	l.wg.Wait()
	return err
}

// DialTimeout opens a stream and limits the bytes that the peer can send.
func (l *streamLimiter) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return l.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream and limits the bytes that the peer can send.
func (l *streamLimiter) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	c, err := l.NodeAwareTransport.DialAddressTimeout(a, timeout)
	if err != nil {
		return nil, err
	}
	return &limitedConn{Conn: c, remaining: maxStreamBytes}, nil
}

// admit counts a new stream and closes the stream that exceeds a limit. It returns nil if this is
// the new stream.
func (l *streamLimiter) admit(c net.Conn) *stream {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetReadBuffer(socketBuffer) // an error leaves the default size
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

// countBytes counts n received bytes of a stream. It returns an error if the stream is closed.
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

// largestSourceLocked returns the source with the largest value of size. mu must be held, and at
// least one source must exist.
func (l *streamLimiter) largestSourceLocked(size func(*source) int) *source {
	var out *source
	for _, x := range l.mu.sources {
		if out == nil || size(x) > size(out) {
			out = x
		}
	}
	return out
}

// largestStream returns the stream with the most received bytes.
func (x *source) largestStream() *stream {
	out := x.streams[0]
	for _, s := range x.streams {
		if s.bytes > out.bytes {
			out = s
		}
	}
	return out
}

// removeLocked stops counting a stream, once. mu must be held.
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

// closeExcess closes a stream that exceeds a limit, counts it, and logs this at a limited rate.
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

// stats returns the current statistics.
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

// Read reads from the stream and counts the bytes.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 {
		if e := s.limiter.countBytes(s, n); e != nil {
			return 0, e
		}
	}
	return n, err
}

// Close closes the stream and stops counting it.
func (s *stream) Close() error {
	s.limiter.mu.Lock()
	s.limiter.removeLocked(s)
	s.limiter.mu.Unlock()
	return s.Conn.Close()
}

// The deadlines that memberlist sets are limited to the deadline of the stream.

// SetDeadline implements net.Conn.
func (s *stream) SetDeadline(t time.Time) error { return s.Conn.SetDeadline(s.limitDeadline(t)) }

// SetReadDeadline implements net.Conn.
func (s *stream) SetReadDeadline(t time.Time) error {
	return s.Conn.SetReadDeadline(s.limitDeadline(t))
}

// SetWriteDeadline implements net.Conn.
func (s *stream) SetWriteDeadline(t time.Time) error {
	return s.Conn.SetWriteDeadline(s.limitDeadline(t))
}

// limitDeadline returns the earlier of t and the deadline of the stream. A zero t means no
// deadline.
func (s *stream) limitDeadline(t time.Time) time.Time {
	if t.IsZero() || t.After(s.deadline) {
		return s.deadline
	}
	return t
}

// limitedConn is a stream that this node has opened, with a limit on received bytes.
type limitedConn struct {
	net.Conn
	remaining int
}

var errTooLong = errors.New("gossip: the other side sends more than any cluster's state")

// Read returns errTooLong if the peer has sent too many bytes.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.remaining -= n; c.remaining < 0 {
		return 0, errTooLong
	}
	return n, err
}

// sourceOf returns the source of an address: an IPv4 address or an IPv6 /64 network.
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
