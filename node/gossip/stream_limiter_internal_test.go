package gossip

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"

	"shardway/internal/raceflag"
)

// wire is a stream from an address that delivers as many bytes as are read.
type wire struct {
	net.Conn
	from   string
	until  time.Time
	closed bool
}

func (w *wire) RemoteAddr() net.Addr               { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(w.from)) }
func (w *wire) Read(p []byte) (int, error)         { return len(p), nil }
func (w *wire) SetDeadline(t time.Time) error      { w.until = t; return nil }
func (w *wire) SetReadDeadline(t time.Time) error  { return w.SetDeadline(t) }
func (w *wire) SetWriteDeadline(t time.Time) error { return w.SetDeadline(t) }
func (w *wire) Close() error                       { w.closed = true; return nil }

// none is a transport that receives nothing.
type none struct{ memberlist.NodeAwareTransport }

func (none) StreamCh() <-chan net.Conn { return nil }
func (none) Shutdown() error           { return nil }

type guarded struct {
	t *testing.T
	d *streamLimiter
}

func newGuarded(t *testing.T) guarded {
	t.Helper()
	l := newStreamLimiter(none{}, zerolog.Nop())
	t.Cleanup(func() {
		if err := l.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return guarded{t, l}
}

func (g guarded) open(from string) (*wire, *stream) {
	w := &wire{from: from}
	return w, g.d.admit(w)
}

// within fails if the limits are exceeded, or if the counters are inconsistent.
func (g guarded) within() {
	g.t.Helper()
	s := g.d.stats()
	if s.Open > maxStreams || s.Bytes > maxTotalBytes {
		g.t.Fatalf("%d streams with %d bytes are kept", s.Open, s.Bytes)
	}
	open, sum := 0, 0
	for _, x := range g.d.mu.sources {
		if len(x.streams) == 0 || len(x.streams) > maxSourceStreams || x.bytes > maxSourceBytes {
			g.t.Fatalf("%d streams of %v with %d bytes are kept", len(x.streams), x.prefix, x.bytes)
		}
		open += len(x.streams)
		sum += x.bytes
	}
	if open != s.Open || sum != s.Bytes {
		g.t.Fatalf("sources have %d streams with %d bytes, want %d with %d", open, sum, s.Open, s.Bytes)
	}
}

// The stream of a member survives while strangers from many addresses open and send as much as they can.
func TestFloodPushesItselfOut(t *testing.T) {
	defer raceflag.OneProcessor()()
	synctest.Test(t, pushOut)
}

func pushOut(t *testing.T) {
	t.Helper()
	g := newGuarded(t)
	member, s := g.open("10.0.0.1:1000")
	if _, err := s.Read(make([]byte, maxStreamBytes/8)); err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 512<<10)
	var flood []*stream
	for i := range 2000 {
		from := fmt.Sprintf("10.0.1.%d:%d", i%9, 1000+i)
		if i%2 == 1 { // and one source with a whole network
			from = fmt.Sprintf("[2001:db8::%x]:1", i)
		}
		time.Sleep(time.Millisecond)
		_, x := g.open(from)
		if x == nil {
			continue
		}
		if flood = append(flood, x); len(flood) > 200 {
			flood = flood[1:]
		}
		for _, x := range flood[max(0, len(flood)-4):] {
			if i > 1000 { // at first they only occupy streams
				_, _ = x.Read(chunk)
			}
			g.within()
		}
		if member.closed {
			t.Fatalf("the member's stream was closed at stream %d: %v", i, g.d.stats())
		}
	}
	if _, err := s.Read(make([]byte, maxStreamBytes/8)); err != nil || member.closed {
		t.Errorf("the member's stream: %v", err)
	}
	for i, n := range g.d.stats().Closed {
		if n == 0 && i != "stream-bytes" && i != "source-bytes" {
			t.Errorf("nothing was closed for %s: the test shows nothing", i)
		}
	}
	for _, x := range flood {
		_, _ = x.Close(), x.Close()
	}
	_ = s.Close()
	g.within()
}

// A hundred nodes behind one address that join at once do not end each other's exchanges forever: the first ones finish.
func TestBurstOfOneSourceEndsInPart(t *testing.T) {
	defer raceflag.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		var first []*wire
		for i := range 100 {
			w, s := g.open(fmt.Sprintf("10.0.0.1:%d", 1000+i))
			if taken := i < maxSourceStreams; taken != (s != nil) || taken == w.closed {
				t.Fatalf("stream %d: taken %v, closed %v", i, s != nil, w.closed)
			}
			if i < maxSourceStreams {
				first = append(first, w)
			}
		}
		for i, w := range first {
			if w.closed {
				t.Errorf("stream %d was closed for a later one", i)
			}
		}
		for i := range 3 * maxSourceStreams { // until all streams are in use
			g.open(fmt.Sprintf("10.0.1.%d:1000", i/maxSourceStreams))
		}
		other, s := g.open("10.0.0.2:1000")
		if s == nil || other.closed {
			t.Error("another source does not come in beside a burst")
		}
		time.Sleep(evictionGrace)
		g.open("10.0.0.1:2000") // it replaces the stream that had to end, or the first one
		if w, s := g.open("10.0.0.1:2001"); s == nil || w.closed || !first[0].closed {
			t.Error("a slow stream keeps its place for ever")
		}
		g.within()
	})
}

func TestBytesOfOneSourceAreBounded(t *testing.T) {
	g := newGuarded(t)
	member, _ := g.open("10.0.0.1:1000")
	var sent [5]*wire
	for i := range sent {
		var s *stream
		sent[i], s = g.open(fmt.Sprintf("10.0.0.2:%d", 1000+i))
		_, _ = s.Read(make([]byte, maxSourceBytes/4-i))
		g.within()
	}
	if st := g.d.stats(); st.Closed["source-bytes"] != 1 || !sent[0].closed || sent[4].closed || member.closed {
		t.Errorf("closed %v, the longest %v, want it alone", st.Closed, sent[0].closed)
	}
}

func TestStreamIsBoundedByItself(t *testing.T) {
	g := newGuarded(t)
	w, s := g.open("10.0.0.1:1000")
	if _, err := s.Read(make([]byte, maxStreamBytes)); err != nil {
		t.Errorf("as much as may be: %v", err)
	}
	if _, err := s.Read(make([]byte, 1)); err == nil || !w.closed {
		t.Errorf("a byte more: %v, closed %v", err, w.closed)
	}
	if st := g.d.stats(); st.Open != 0 || st.Bytes != 0 || st.Closed["stream-bytes"] != 1 {
		t.Errorf("left: %+v", st)
	}
	if _, err := s.Read(make([]byte, 1)); err == nil {
		t.Error("a closed stream was read")
	}
	w, s = g.open("10.0.0.1:1000")
	end := w.until
	if d := time.Until(end); d <= 0 || d > streamLifetime {
		t.Errorf("a stream that says nothing ends in %v", d)
	}
	for _, set := range []func(time.Time) error{s.SetDeadline, s.SetReadDeadline, s.SetWriteDeadline} {
		if err := set(time.Now().Add(time.Hour)); err != nil || !w.until.Equal(end) {
			t.Errorf("the deadline became %v, %v, want %v", w.until, err, end)
		}
		if err := set(time.Time{}); err != nil || !w.until.Equal(end) {
			t.Errorf("the deadline became %v, %v, want %v", w.until, err, end)
		}
	}
	soon := time.Now()
	if err := s.SetDeadline(soon); err != nil || !w.until.Equal(soon) {
		t.Errorf("the deadline is %v, %v, want %v", w.until, err, soon)
	}
	c := &limitedConn{Conn: &wire{}, remainingBytes: maxStreamBytes}
	if _, err := c.Read(make([]byte, maxStreamBytes)); err != nil {
		t.Errorf("an answer as long as may be: %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("an answer without end was read")
	}
}

func TestSourceIsAnAddressOrANetwork(t *testing.T) {
	for a, want := range map[string]string{
		"10.1.2.3:7": "10.1.2.3/32", "[::ffff:10.1.2.3]:7": "10.1.2.3/32",
		"[2001:db8:1:2:3::4]:7": "2001:db8:1:2::/64", "[fe80::1%eth0]:7": "fe80::/64",
	} {
		if got := sourcePrefix(textAddr(a)).String(); got != want {
			t.Errorf("sourceOf(%s) = %s, want %s", a, got, want)
		}
	}
	if sourcePrefix(textAddr("pipe")).IsValid() {
		t.Error("what has no address has a source")
	}
}

type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (a textAddr) String() string { return string(a) }
