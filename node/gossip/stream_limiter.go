package gossip

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"
)

// memberlist reads up to 20 MiB of every stream before it decrypts the first byte, and accepts any
// number of streams. Without these limits, any host that reaches the port could exhaust the memory.
//
// In a state exchange a member takes up to 700 bytes, with the longest name and tags, so the limit
// of a stream allows 2,900 members. An exchange takes milliseconds, and a node starts one every 10
// s.
const (
	maxStreams       = 128      // open streams in total
	maxSourceStreams = 32       // open streams of one source
	maxStreamBytes   = 2 << 20  // received bytes of one stream
	maxSourceBytes   = 4 << 20  // received bytes of all streams of one source
	maxTotalBytes    = 16 << 20 // received bytes of all streams
	// streamLifetime is how long a stream may be open.
	streamLifetime = 6 * time.Second
	// evictionGrace is how long a stream is protected against newer streams of its source, so if a
	// hundred exchanges start at once, some complete, and they do not all evict each other.
	evictionGrace = 100 * time.Millisecond
	// socketBuffer limits the receive buffer of the kernel for a stream.
	socketBuffer = 256 << 10
	// floodLogInterval is the minimum interval between two log lines about closed streams.
	floodLogInterval = 10 * time.Second
)

// Reasons for closing a stream early.
const (
	closeSourceStreams = iota // too many streams of one source
	closeTotalStreams         // too many streams
	closeStreamBytes          // too many bytes of one stream
	closeSourceBytes          // too many bytes of one source
	closeTotalBytes           // too many bytes in total
	closeReasonCount
)

// closeReasonText returns the name of a reason for metrics and logs.
func closeReasonText(reason int) string {
	return [closeReasonCount]string{"source-streams", "streams", "stream-bytes", "source-bytes", "bytes"}[reason]
}

// StreamCloseReasons returns the keys of StreamStats.Closed.
func StreamCloseReasons() []string {
	var reasons []string
	for i := range closeReasonCount {
		reasons = append(reasons, closeReasonText(i))
	}
	return reasons
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
// stream is closed. Bytes beyond a limit close the longest stream of the source that has sent most,
// so a host that floods the port only closes its own streams. A source is an IPv4 address or an
// IPv6 /64 network.
type streamLimiter struct {
	memberlist.NodeAwareTransport
	log             zerolog.Logger
	admittedStreams chan net.Conn // unbuffered: streams for memberlist
	shutdownStarted chan struct{} // closed by Shutdown
	shutdownOnce    sync.Once
	accepting       sync.WaitGroup // the goroutine of acceptLoop

	closedCounts [closeReasonCount]atomic.Uint64 // number of closed streams, by reason
	lastFloodLog atomic.Int64                    // time of the last log line about closed streams, UnixNano

	mu struct {
		sync.Mutex
		sources map[netip.Prefix]*streamSource
		open    int // number of open streams
		bytes   int // received bytes of all open streams
	}
}

var _ memberlist.NodeAwareTransport = (*streamLimiter)(nil)

// streamSource has the open streams of one source. limiter.mu protects its fields.
type streamSource struct {
	prefix  netip.Prefix
	streams []*stream // oldest first
	bytes   int       // received bytes of all streams
}

// stream is an open stream of another host.
type stream struct {
	net.Conn
	limiter    *streamLimiter
	source     *streamSource
	admittedAt time.Time

	// limiter.mu protects the following fields.
	bytes     int  // received bytes
	isRemoved bool // the stream does not count any more
}

// deadline returns the end of the lifetime of the stream.
func (s *stream) deadline() time.Time { return s.admittedAt.Add(streamLifetime) }

// newStreamLimiter returns a streamLimiter on top of transport, and starts to accept streams.
func newStreamLimiter(transport memberlist.NodeAwareTransport, log zerolog.Logger) *streamLimiter {
	l := &streamLimiter{NodeAwareTransport: transport, log: log, admittedStreams: make(chan net.Conn), shutdownStarted: make(chan struct{})}
	l.mu.sources = map[netip.Prefix]*streamSource{}
	l.accepting.Go(l.acceptLoop)
	return l
}

// acceptLoop accepts streams until Shutdown.
func (l *streamLimiter) acceptLoop() {
	for {
		select {
		case conn := <-l.NodeAwareTransport.StreamCh():
			admitted := l.admit(conn)
			if admitted == nil {
				continue
			}
			select {
			case l.admittedStreams <- admitted:
			case <-l.shutdownStarted:
				_ = admitted.Close()
				return
			}
		case <-l.shutdownStarted:
			return
		}
	}
}

// StreamCh returns the channel of streams that other hosts open.
func (l *streamLimiter) StreamCh() <-chan net.Conn { return l.admittedStreams }

// Shutdown closes the port. It continues to accept streams until the underlying transport has
// ended, because the transport waits for this.
func (l *streamLimiter) Shutdown() error {
	err := l.NodeAwareTransport.Shutdown()
	l.shutdownOnce.Do(func() { close(l.shutdownStarted) })
	l.accepting.Wait()
	return err
}

// DialTimeout opens a stream and limits the bytes that the peer can send.
func (l *streamLimiter) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return l.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream and limits the bytes that the peer can send.
func (l *streamLimiter) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	conn, err := l.NodeAwareTransport.DialAddressTimeout(addr, timeout)
	if err != nil {
		return nil, err
	}
	return &limitedConn{Conn: conn, remainingBytes: maxStreamBytes}, nil
}

// admit counts a new stream and, if a limit is exceeded, closes one stream. It returns nil if it
// has closed the new stream.
func (l *streamLimiter) admit(conn net.Conn) *stream {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(socketBuffer) // an error leaves the default size
	}
	added := &stream{Conn: conn, limiter: l, admittedAt: time.Now()}
	_ = conn.SetDeadline(added.deadline())
	l.mu.Lock()
	l.addLocked(added)
	evicted, reason := l.excessStreamLocked(added)
	l.removeLocked(evicted)
	l.mu.Unlock()
	l.closeExcess(evicted, reason)
	if evicted == added {
		return nil
	}
	return added
}

// addLocked counts a new stream. mu must be held.
func (l *streamLimiter) addLocked(added *stream) {
	prefix := sourcePrefix(added.RemoteAddr())
	source := l.mu.sources[prefix]
	if source == nil {
		source = &streamSource{prefix: prefix}
		l.mu.sources[prefix] = source
	}
	added.source = source
	source.streams = append(source.streams, added)
	l.mu.open++
}

// excessStreamLocked returns the stream that must be closed because added exceeds a limit of the number of
// streams, and the reason. nil means that no limit is exceeded. mu must be held.
func (l *streamLimiter) excessStreamLocked(added *stream) (excess *stream, reason int) {
	switch {
	case len(added.source.streams) > maxSourceStreams:
		excess, reason = added.source.streams[0], closeSourceStreams
	case l.mu.open > maxStreams:
		source := l.largestSourceLocked(func(src *streamSource) int { return len(src.streams) })
		excess, reason = source.streams[0], closeTotalStreams
	default:
		return nil, 0
	}
	isProtected := added.admittedAt.Before(excess.admittedAt.Add(evictionGrace))
	hasMoreStreams := len(excess.source.streams) > len(added.source.streams)
	if isProtected && !hasMoreStreams {
		return added, reason
	}
	return excess, reason
}

// countBytes counts n received bytes of a stream. It returns an error if the stream is closed.
func (l *streamLimiter) countBytes(counted *stream, n int) error {
	l.mu.Lock()
	if counted.isRemoved {
		l.mu.Unlock()
		return net.ErrClosed
	}
	counted.bytes += n
	counted.source.bytes += n
	l.mu.bytes += n
	evicted, reason := l.excessBytesLocked(counted)
	l.removeLocked(evicted)
	l.mu.Unlock()
	l.closeExcess(evicted, reason)
	if evicted == counted {
		return fmt.Errorf("gossip: stream from %s closed: %s", counted.source.prefix, closeReasonText(reason))
	}
	return nil
}

// excessBytesLocked returns the stream that must be closed because the bytes of counted exceed a limit, and the
// reason. nil means that no limit is exceeded. mu must be held.
func (l *streamLimiter) excessBytesLocked(counted *stream) (excess *stream, reason int) {
	switch {
	case counted.bytes > maxStreamBytes:
		return counted, closeStreamBytes
	case counted.source.bytes > maxSourceBytes:
		return counted.source.largestStream(), closeSourceBytes
	case l.mu.bytes > maxTotalBytes:
		source := l.largestSourceLocked(func(src *streamSource) int { return src.bytes })
		return source.largestStream(), closeTotalBytes
	}
	return nil, 0
}

// largestSourceLocked returns the source with the largest value of size. mu must be held, and at
// least one source must exist.
func (l *streamLimiter) largestSourceLocked(size func(*streamSource) int) *streamSource {
	var largest *streamSource
	for _, src := range l.mu.sources {
		if largest == nil || size(src) > size(largest) {
			largest = src
		}
	}
	return largest
}

// largestStream returns the stream with the most received bytes.
func (s *streamSource) largestStream() *stream {
	largest := s.streams[0]
	for _, candidate := range s.streams {
		if candidate.bytes > largest.bytes {
			largest = candidate
		}
	}
	return largest
}

// removeLocked stops counting a stream. It has no effect for nil and on repeated calls. mu must be
// held.
func (l *streamLimiter) removeLocked(target *stream) {
	if target == nil || target.isRemoved {
		return
	}
	target.isRemoved = true
	l.mu.open--
	l.mu.bytes -= target.bytes
	source := target.source
	source.bytes -= target.bytes
	source.streams = slices.DeleteFunc(source.streams, func(s *stream) bool { return s == target })
	if len(source.streams) == 0 {
		delete(l.mu.sources, source.prefix)
	}
}

// closeExcess closes a stream that exceeds a limit, counts it, and logs this at a limited rate.
func (l *streamLimiter) closeExcess(excess *stream, reason int) {
	if excess == nil {
		return
	}
	_ = excess.Conn.Close()
	count := l.closedCounts[reason].Add(1)
	now, last := time.Now().UnixNano(), l.lastFloodLog.Load()
	if now-last < int64(floodLogInterval) || !l.lastFloodLog.CompareAndSwap(last, now) {
		return
	}
	l.log.Warn().Stringer("source", excess.source.prefix).Str("reason", closeReasonText(reason)).Uint64("closed", count).
		Msg("unauthenticated gossip streams closed")
}

// stats returns the current statistics.
func (l *streamLimiter) stats() StreamStats {
	result := StreamStats{Closed: map[string]uint64{}}
	for i := range l.closedCounts {
		result.Closed[closeReasonText(i)] = l.closedCounts[i].Load()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	result.Open, result.Bytes = l.mu.open, l.mu.bytes
	return result
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
	if deadline := s.deadline(); t.IsZero() || t.After(deadline) {
		return deadline
	}
	return t
}

// limitedConn is a stream that this node has opened, with a limit on received bytes.
type limitedConn struct {
	net.Conn
	remainingBytes int
}

var errTooLong = errors.New("gossip: the other side sends more than any cluster's state")

// Read returns errTooLong if the peer has sent too many bytes.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.remainingBytes -= n; c.remainingBytes < 0 {
		return 0, errTooLong
	}
	return n, err
}

// sourcePrefix returns the source of an address: an IPv4 address or an IPv6 /64 network.
func sourcePrefix(addr net.Addr) netip.Prefix {
	addrPort, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Prefix{}
	}
	ip := addrPort.Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}
