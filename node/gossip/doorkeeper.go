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
	maxStreams     = 128
	sourceStreams  = 32
	streamBytes    = 2 << 20
	sourceBytes    = 4 << 20
	allBytes       = 16 << 20
	streamLifetime = 6 * time.Second
	// spared is how long an exchange may take before it gives way to another of
	// its source: of a hundred that begin at once some end, and not each the other.
	spared = 100 * time.Millisecond
	// socketBuffer bounds what the kernel keeps of a stream.
	socketBuffer = 256 << 10
	// floodPause is how long nothing more is logged about closed streams.
	floodPause = 10 * time.Second
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
type doorkeeper struct {
	memberlist.NodeAwareTransport
	log     zerolog.Logger
	streams chan net.Conn
	done    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup

	closed [closedReasons]atomic.Uint64
	warned atomic.Int64 // when a flood was last logged, UnixNano

	mu struct {
		sync.Mutex
		sources     map[netip.Prefix]*source
		open, bytes int
	}
}

var _ memberlist.NodeAwareTransport = (*doorkeeper)(nil)

// source is what one source has open.
type source struct {
	from    netip.Prefix
	streams []*stream // the oldest first
	bytes   int
}

// stream is one that somebody opened, until it is closed.
type stream struct {
	net.Conn
	d     *doorkeeper
	src   *source
	until time.Time
	bytes int  // with d.mu
	gone  bool // with d.mu
}

func newDoorkeeper(t memberlist.NodeAwareTransport, log zerolog.Logger) *doorkeeper {
	d := &doorkeeper{NodeAwareTransport: t, log: log, streams: make(chan net.Conn), done: make(chan struct{})}
	d.mu.sources = map[netip.Prefix]*source{}
	d.wg.Go(d.run)
	return d
}

// run takes streams in until Shutdown.
func (d *doorkeeper) run() {
	for {
		select {
		case c := <-d.NodeAwareTransport.StreamCh():
			s := d.admit(c)
			if s == nil {
				continue
			}
			select {
			case d.streams <- s:
			case <-d.done:
				_ = s.Close()
				return
			}
		case <-d.done:
			return
		}
	}
}

// StreamCh returns where the streams arrive that others open.
func (d *doorkeeper) StreamCh() <-chan net.Conn { return d.streams }

// Shutdown closes the port. Streams go on being taken until nothing comes any
// more: the transport beneath waits for that.
func (d *doorkeeper) Shutdown() error {
	err := d.NodeAwareTransport.Shutdown()
	d.once.Do(func() { close(d.done) })
	d.wg.Wait()
	return err
}

// DialTimeout opens a stream, whose answer is bounded too.
func (d *doorkeeper) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return d.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// DialAddressTimeout opens a stream, whose answer is bounded too.
func (d *doorkeeper) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	c, err := d.NodeAwareTransport.DialAddressTimeout(a, timeout)
	if err != nil {
		return nil, err
	}
	return &dialed{Conn: c, left: streamBytes}, nil
}

// admit takes a stream in and closes the one that it makes too many, which may be
// itself: then it returns nil.
func (d *doorkeeper) admit(c net.Conn) *stream {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetReadBuffer(socketBuffer) // a bound, where it can be set
	}
	now := time.Now()
	s := &stream{Conn: c, d: d, until: now.Add(streamLifetime)}
	_ = c.SetDeadline(s.until)
	from := sourceOf(c.RemoteAddr())
	d.mu.Lock()
	if s.src = d.mu.sources[from]; s.src == nil {
		s.src = &source{from: from}
		d.mu.sources[from] = s.src
	}
	s.src.streams = append(s.src.streams, s)
	d.mu.open++
	var out *stream
	reason := closedForSource
	switch {
	case len(s.src.streams) > sourceStreams:
		out = s.src.streams[0]
	case d.mu.open > maxStreams:
		reason, out = closedForAll, d.most(func(x *source) int { return len(x.streams) }).streams[0]
	}
	if out != nil && len(out.src.streams) <= len(s.src.streams) && now.Before(out.until.Add(spared-streamLifetime)) {
		out = s
	}
	d.remove(out)
	d.mu.Unlock()
	d.end(out, reason)
	if out == s {
		return nil
	}
	return s
}

// took counts n bytes of a stream and returns an error if it is over.
func (d *doorkeeper) took(s *stream, n int) error {
	d.mu.Lock()
	if s.gone {
		d.mu.Unlock()
		return net.ErrClosed
	}
	s.bytes += n
	s.src.bytes += n
	d.mu.bytes += n
	var out *stream
	reason := closedForSize
	switch {
	case s.bytes > streamBytes:
		out = s
	case s.src.bytes > sourceBytes:
		reason, out = closedForShare, s.src.longest()
	case d.mu.bytes > allBytes:
		reason, out = closedForBytes, d.most(func(x *source) int { return x.bytes }).longest()
	}
	d.remove(out)
	d.mu.Unlock()
	d.end(out, reason)
	if out == s {
		return fmt.Errorf("gossip: stream from %s closed: %s", s.src.from, reasonText(reason))
	}
	return nil
}

// most returns the source that has the most of something; d.mu is held, and there
// is a source.
func (d *doorkeeper) most(of func(*source) int) *source {
	var out *source
	for _, x := range d.mu.sources {
		if out == nil || of(x) > of(out) {
			out = x
		}
	}
	return out
}

func (x *source) longest() *stream {
	out := x.streams[0]
	for _, s := range x.streams {
		if s.bytes > out.bytes {
			out = s
		}
	}
	return out
}

// remove takes a stream out of the books, once; d.mu is held.
func (d *doorkeeper) remove(s *stream) {
	if s == nil || s.gone {
		return
	}
	s.gone = true
	for i, x := range s.src.streams {
		if x == s {
			s.src.streams = append(s.src.streams[:i], s.src.streams[i+1:]...)
			break
		}
	}
	d.mu.open--
	d.mu.bytes -= s.bytes
	s.src.bytes -= s.bytes
	if len(s.src.streams) == 0 {
		delete(d.mu.sources, s.src.from)
	}
}

// end closes a stream that had to go, counts it and says so now and then.
func (d *doorkeeper) end(s *stream, reason int) {
	if s == nil {
		return
	}
	_ = s.Conn.Close()
	n := d.closed[reason].Add(1)
	now, last := time.Now().UnixNano(), d.warned.Load()
	if now-last < int64(floodPause) || !d.warned.CompareAndSwap(last, now) {
		return
	}
	d.log.Warn().Stringer("source", s.src.from).Str("reason", reasonText(reason)).Uint64("closed", n).
		Msg("unauthenticated gossip streams closed")
}

// stats returns what is open now.
func (d *doorkeeper) stats() StreamStats {
	st := StreamStats{Closed: map[string]uint64{}}
	for i := range d.closed {
		st.Closed[reasonText(i)] = d.closed[i].Load()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	st.Open, st.Bytes = d.mu.open, d.mu.bytes
	return st
}

// Read reads and counts.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if n > 0 {
		if e := s.d.took(s, n); e != nil {
			return 0, e
		}
	}
	return n, err
}

// Close closes the stream and gives its place back.
func (s *stream) Close() error {
	s.d.mu.Lock()
	s.d.remove(s)
	s.d.mu.Unlock()
	return s.Conn.Close()
}

// The deadlines that memberlist sets end with the stream's lifetime.

// SetDeadline sets both.
func (s *stream) SetDeadline(t time.Time) error { return s.Conn.SetDeadline(s.bound(t)) }

// SetReadDeadline sets that of Read.
func (s *stream) SetReadDeadline(t time.Time) error { return s.Conn.SetReadDeadline(s.bound(t)) }

// SetWriteDeadline sets that of Write.
func (s *stream) SetWriteDeadline(t time.Time) error { return s.Conn.SetWriteDeadline(s.bound(t)) }

func (s *stream) bound(t time.Time) time.Time {
	if t.IsZero() || t.After(s.until) {
		return s.until
	}
	return t
}

// dialed is a stream that this node opened.
type dialed struct {
	net.Conn
	left int
}

var errTooLong = errors.New("gossip: the other side sends more than any cluster's state")

// Read reads as much as there may be.
func (c *dialed) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.left -= n; c.left < 0 {
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
