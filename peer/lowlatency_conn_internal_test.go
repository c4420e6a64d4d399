package peer

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/clock"
)

// silentReader is a connection whose poller reports nothing. A read returns the data that is available
// when it begins, or ends at its deadline.
type silentReader struct {
	mu    sync.Mutex
	data  []byte
	until time.Time
	moved chan struct{} // latch: closed when the deadline is set again
	reads int
}

func (r *silentReader) come(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data = append(r.data, s...)
}

func (r *silentReader) Read(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads++
	if n := copy(b, r.data); n > 0 {
		r.data = r.data[n:]
		return n, nil
	}
	for r.until.IsZero() || time.Now().Before(r.until) {
		wait, moved := time.Hour, r.moved
		if !r.until.IsZero() {
			wait = time.Until(r.until)
		}
		r.mu.Unlock()
		select {
		case <-time.After(wait):
		case <-moved:
		}
		r.mu.Lock()
	}
	return 0, os.ErrDeadlineExceeded
}

func (r *silentReader) Write(b []byte) (int, error) { return len(b), nil }

func (r *silentReader) SetReadDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = t
	close(r.moved)
	r.moved = make(chan struct{})
	return nil
}

// beating returns a scheduler that ticks until ctx ends.
func beating(ctx context.Context) *clock.Scheduler {
	p := new(clock.Scheduler)
	go p.Run(ctx)
	return p
}

// fallBehind makes the measured scheduling latency high for an hour.
func (sl *schedLatency) fallBehind() {
	ended := time.Now().Add(time.Hour)
	sl.record(ended.Add(-highLatency-1), ended)
}

// looking returns a low-latency connection over in that checks for data until ctx ends.
func looking(ctx context.Context, in readWriter) *lowLatencyConn {
	p := new(readPoller)
	c := &lowLatencyConn{socket: in, poller: p}
	p.add(c)
	go p.run(ctx, beating(ctx))
	return c
}

// TestReadsDoNotWaitForThePoller sends bytes that the poller does not report. Once, with 3,000 clients
// at one node, the response to a heartbeat waited for half a second, and every lease expired.
func TestReadsDoNotWaitForThePoller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &silentReader{moved: make(chan struct{})}
		c := looking(t.Context(), r)
		got := make(chan string)
		go func() {
			b := make([]byte, 16)
			for {
				n, err := c.Read(b)
				if err != nil {
					close(got)
					return
				}
				got <- string(b[:n])
			}
		}()
		for i, want := range []time.Duration{slowPollInterval, fastPollInterval, fastPollInterval} {
			time.Sleep(time.Second)
			came := time.Now()
			r.come("beat")
			if s := <-got; s != "beat" {
				t.Fatalf("read %q", s)
			}
			if late := time.Since(came); late > want+pollerTick {
				t.Errorf("message %d was read after %v, want at most %v", i+1, late, want+pollerTick)
			}
		}
		if err := c.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		if s, more := <-got; more {
			t.Errorf("read %q after the deadline", s)
		}
	})
}

// wakingReader is a connection whose poller wakes its reader at once.
type wakingReader struct {
	silentReader
	atOnce bool
}

func (r *wakingReader) come(s string) {
	r.silentReader.come(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.moved)
	r.moved = make(chan struct{})
}

func (r *wakingReader) Read(b []byte) (int, error) {
	for tries := 1; ; tries++ {
		r.mu.Lock()
		r.reads++
		n := copy(b, r.data)
		r.data = r.data[n:]
		wait, moved := time.Until(r.until), r.moved
		r.mu.Unlock()
		switch {
		case n > 0:
			r.atOnce = tries == 1
			return n, nil
		case wait <= 0:
			return 0, os.ErrDeadlineExceeded
		}
		select {
		case <-time.After(wait):
		case <-moved:
		}
	}
}

func (r *wakingReader) ReadImmediately() bool { return r.atOnce }

// Data that arrives right after a check does not raise the check rate. Once, it was counted as missed
// by the poller. Nodes without any requests then checked each of their connections a hundred times a
// second, forever.
func TestDataRightAfterACheckDoesNotRaiseTheCheckRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &wakingReader{silentReader: silentReader{moved: make(chan struct{})}}
		c := looking(t.Context(), r)
		got := make(chan string)
		go func() {
			defer close(got)
			for b := make([]byte, 16); ; {
				n, err := c.Read(b)
				if err != nil {
					return
				}
				got <- string(b[:n])
			}
		}()
		for range 3 {
			time.Sleep(slowPollInterval + time.Millisecond/2) // the last check was half a millisecond ago
			r.come("beat")
			<-got
			synctest.Wait()
		}
		r.mu.Lock()
		before := r.reads
		r.mu.Unlock()
		time.Sleep(time.Second)
		r.mu.Lock()
		if n := r.reads - before; n > 3*int(time.Second/slowPollInterval) {
			t.Errorf("looked %d times in a second without a word", n)
		}
		r.mu.Unlock()
		if err := c.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
		<-got
	})
}

// TestLowLatencyReadsKeepDeadlines checks a deadline that is later than the next check, and an earlier
// one.
func TestLowLatencyReadsKeepDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := looking(t.Context(), &silentReader{moved: make(chan struct{})})
		for _, d := range []time.Duration{slowPollInterval / 5, slowPollInterval, 7*slowPollInterval + 1} {
			begun := time.Now()
			if err := c.SetReadDeadline(begun.Add(d)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read ended with %v", err)
			}
			if took := time.Since(begun); took != d {
				t.Errorf("a read with a deadline in %v took %v", d, took)
			}
		}
	})
}

// behindReader is a connection whose reader has been woken by the poller and waits for a processor. A
// deadline does not wake it earlier.
type behindReader struct {
	silentReader
}

func (r *behindReader) Read(b []byte) (int, error) {
	time.Sleep(500 * time.Millisecond)
	return r.silentReader.Read(b)
}

func (r *behindReader) TryRead(b []byte) (n int, there bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = copy(b, r.data)
	r.data = r.data[n:]
	return n, n > 0, nil
}

// A read is fast while the process has a high scheduling latency. Once, a goroutine that the poller
// had woken waited behind thousands of runnable goroutines, and no check by a deadline changed that.
func TestReadsAreFastWhileTheProcessIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &behindReader{silentReader{moved: make(chan struct{})}}
		p := new(readPoller)
		c := &lowLatencyConn{socket: r, poller: p}
		come := func(after time.Duration) (took time.Duration) {
			time.AfterFunc(after, func() { r.come("x") })
			begun := time.Now()
			if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Fatalf("read %d, %v", n, err)
			}
			return time.Since(begun) - after
		}
		p.latency.fallBehind()
		if took := come(102 * time.Millisecond); took > directPollInterval {
			t.Errorf("read %v after it came, want %v at most", took, directPollInterval)
		}
		if err := c.SetReadDeadline(time.Now().Add(42 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read ended with %v", err)
		}
		if took := time.Since(begun); took < 42*time.Millisecond || took > 42*time.Millisecond+directPollInterval {
			t.Errorf("a read with a deadline in 42ms took %v", took)
		}
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		p.latency.lastWait.Store(0)
		if took := come(102 * time.Millisecond); took < 100*time.Millisecond {
			t.Errorf("a process that is not behind looks for itself: read after %v", took)
		}
	})
}

// TestBacklogIsKnownWhileItLasts tests that a wait in progress counts as soon as it is long.
func TestBacklogIsKnownWhileItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sl := new(schedLatency)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go sl.run(ctx, beating(ctx))
		sl.lastWait.Store(int64(highLatency + 1)) // it was long before
		time.Sleep(20 * latencyProbeInterval)
		if sl.isHigh(time.Now()) {
			t.Error("a process that has nothing to do is behind")
		}
		sl.waitStart.Store(time.Now().Add(-highLatency - 1).UnixNano())
		if !sl.isHigh(time.Now()) {
			t.Error("a reader that has waited for long does not count as behind")
		}
	})
}

// Measurements expire while the process is idle, because nothing is measured then. Otherwise, a
// process with a high latency before it became idle would check forever.
func TestMeasurementsExpireWhileIdle(t *testing.T) {
	sl, now := new(schedLatency), time.Now()
	sl.record(now.Add(-highLatency-1), now)
	if !sl.isHigh(now) || !sl.isHigh(now.Add(2*latencyProbeInterval)) {
		t.Error("a reader that has waited for long does not count as behind")
	}
	if sl.isHigh(now.Add(latencyMaxAge)) {
		t.Error("it is behind for good")
	}
}

// TestRequestStreamsAreNotPolled counts the reads of a stream that carries requests. It is not checked
// periodically: each of 10 000 waiting streams would otherwise be checked about twenty times a second.
func TestRequestStreamsAreNotPolled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &silentReader{moved: make(chan struct{})}
		c := looking(t.Context(), r)
		applyKind(c, Forward)
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read ended with %v", err)
		}
		if r.reads != 1 {
			t.Errorf("it read %d times, want once", r.reads)
		}
	})
}

// TestUnknownPeersAreNotPolled counts the reads of connections without data. Connections of
// unknown addresses are not checked. Once, 256 unknown peers that reconnected at once caused 5,000
// checks a second, and ten times as many while the process had a high latency, which delayed it
// further. A connection from the address of a node is checked.
func TestUnknownPeersAreNotPolled(t *testing.T) {
	addr := netip.MustParseAddr("127.0.0.1")
	ln, err := net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	tcp := func() *net.TCPConn { // used for its address only: the data is read from in
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		tc, _ := c.(*net.TCPConn)
		return tc
	}
	for name, tt := range map[string]struct {
		near   bool
		behind bool
		most   int
	}{
		"a stranger": {false, false, 1}, "a stranger, and the process is behind": {false, true, 1},
		"a node": {true, false, int(DefaultHandshakeTimeout / slowPollInterval)},
	} {
		t.Run(name, func(t *testing.T) {
			c := tcp()
			synctest.Test(t, func(t *testing.T) {
				p := New(Options{Node: "a", IsNodeAddr: func(netip.Addr) bool { return tt.near }})
				if tt.behind {
					p.poller.latency.fallBehind()
				}
				go p.poller.run(t.Context(), beating(t.Context()))
				in := &countingReader{silentReader: silentReader{moved: make(chan struct{})}}
				far := &lowLatencyConn{TCPConn: c, socket: in, poller: &p.poller}
				p.poller.add(far)
				began := time.Now()
				if s := newServer(p, ln).handshake(t.Context(), far); s != nil {
					t.Error("silence is taken for a preface")
				}
				if took := time.Since(began); took != DefaultHandshakeTimeout {
					t.Errorf("it was let go after %v", took)
				}
				if n := in.reads + in.looks; n > tt.most || tt.near && n < tt.most*9/10 {
					t.Errorf("it was looked at %d times, want %d", n, tt.most)
				}
			})
		})
	}
}

// countingReader counts reads and supports non-blocking checks.
type countingReader struct {
	silentReader
	looks int
}

func (r *countingReader) TryRead([]byte) (n int, there bool, err error) {
	r.looks++
	return 0, false, nil
}

// TestHeartbeatAndRaftStreamsAreReadWithLowLatency opens a stream of each kind over loopback and
// checks both ends: Raft, heartbeat and control streams are read with low latency, request streams are
// not.
func TestHeartbeatAndRaftStreamsAreReadWithLowLatency(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := New(Options{
		Node: "a", Disk: "d", Cluster: func() string { return "c" },
		Lookup: func(string) (string, bool) { return ln.Addr().String(), true },
	})
	accepted := make(chan *Conn)
	for k := Raft; k.known(); k++ {
		p.Handle(k, func(_ context.Context, c *Conn) { accepted <- c })
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	const unmeasured = int64(highLatency)
	p.poller.latency.lastWait.Store(unmeasured)
	go func() { served <- p.Serve(ctx, ln) }()
	for k := Raft; k.known(); k++ {
		dialled, err := p.DialServer(t.Context(), "a", "d", k)
		if err != nil {
			t.Fatal(err)
		}
		for end, c := range map[string]*Conn{"dialled": dialled, "accepted": <-accepted} {
			w, is := c.Conn.(*lowLatencyConn)
			if is = is && !w.pollerOff.Load(); is != (k != Forward && k != RequestSession && k != WebSocketSession) {
				t.Errorf("%s end of a %s stream: read promptly: %v", end, k, is)
			}
			if is && w.poller != &p.poller {
				t.Errorf("%s end of a %s stream does not know whether the process is behind", end, k)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for p.poller.latency.lastWait.Load() == unmeasured { // until a measurement exists
		runtime.Gosched()
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
