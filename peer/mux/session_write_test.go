package mux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
)

// bytesBefore returns how many bytes of other streams were sent before the first of this one.
func (r *rawPeer) bytesBefore(stream uint32) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.sentFrames {
		if f.typ == frameData && f.stream == stream {
			return n
		}
		n += len(f.data)
	}
	r.t.Errorf("no data of stream %d", stream)
	return n
}

// A long write lets others interleave: a short write waits behind the batch that is being written
// and bulkQueueLimit bytes.
func TestShortWriteWaitsBehindLittleData(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		long, _ := r.OpenStream()
		short, _ := r.OpenStream()
		var said sync.WaitGroup
		said.Go(func() { _, _ = long.Write(make([]byte, Window)) })
		synctest.Wait() // the peer does not read yet
		wrote := false
		said.Go(func() {
			_, _ = short.Write([]byte("short"))
			wrote = true
		})
		synctest.Wait()
		if !wrote {
			t.Error("the short write waits until the long one is written")
		}
		r.startReading()
		said.Wait()
		synctest.Wait()
		if n := r.bytesBefore(2); n > 2*bulkQueueLimit {
			t.Errorf("%d bytes were sent before the short write, want at most %d", n, 2*bulkQueueLimit)
		}
		if _, b := r.sent(frameData); len(b) != Window+len("short") {
			t.Errorf("%d bytes were sent in total", len(b))
		}
	})
}

// The queue is limited however many streams respond at the same time. All data is sent once there
// is space.
func TestQueueOfServerIsLimited(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		const streams = 100
		var said sync.WaitGroup
		for i := range uint32(streams) {
			r.send(frameOpen, i+1, nil)
			st := <-r.accepted
			said.Go(func() {
				if n, err := st.Write(make([]byte, maxFrameData)); n != maxFrameData || err != nil {
					t.Errorf("Write = %d, %v", n, err)
				}
			})
		}
		synctest.Wait() // the peer does not read
		r.Session.mu.Lock()
		if n := len(r.queue); n > queueLimit+headerLen {
			t.Errorf("%d bytes are queued, want at most %d", n, queueLimit)
		}
		r.Session.mu.Unlock()
		r.startReading()
		said.Wait()
		if _, b := r.sent(frameData); len(b) != streams*maxFrameData {
			t.Errorf("%d bytes were sent in total, want %d", len(b), streams*maxFrameData)
		}
	})
}

func TestSessionFailureWakesBlockedWriters(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		why := errors.New("cut")
		const streams = 3 * bulkQueueLimit / Window
		done := make(chan error, streams)
		for range streams {
			long, _ := r.OpenStream()
			go func() {
				_, err := long.Write(make([]byte, Window))
				done <- err
			}()
		}
		synctest.Wait() // the peer does not read
		taken := len(done)
		r.Fail(why)
		synctest.Wait()
		if taken == streams || len(done) != streams {
			t.Fatalf("%d of %d writes did not block, and %d still do", taken, streams, streams-len(done))
		}
		for i := range streams {
			if err := <-done; i >= taken && !errors.Is(err, why) {
				t.Errorf("Write = %v, want %v", err, why)
			}
		}
	})
}

// Urgent frames come first also within one batch.
func TestUrgentFramesComeFirstInBatch(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		st, _ := r.OpenStream()
		synctest.Wait() // the open frame is being written, because the peer does not read yet
		_, _ = st.Write([]byte("waits"))
		r.Ping()
		r.startReading()
		synctest.Wait()
		var order []frameType
		for _, f := range r.sentFrames {
			order = append(order, f.typ)
		}
		if want := []frameType{frameOpen, framePing, frameData}; !bytes.Equal(asBytes(order), asBytes(want)) {
			t.Errorf("sent %v, want %v", order, want)
		}
	})
}

func asBytes(kinds []frameType) (b []byte) {
	for _, k := range kinds {
		b = append(b, byte(k))
	}
	return b
}

// A GOAWAY overtakes queued data, because it saves what the peer is about to send.
func TestGoAwayOvertakesData(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.send(frameOpen, 1, nil)
		st := <-r.accepted
		synctest.Wait()
		_, _ = st.Write([]byte("is being written"))
		synctest.Wait() // the peer does not read yet
		_, _ = st.Write([]byte("waits"))
		r.GoAway(0)
		_, _ = st.Write([]byte("more"))
		r.GoAway(0)
		r.startReading()
		if n, _ := r.sent(frameGoAway); n != 1 {
			t.Errorf("%d GOAWAY frames were sent", n)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, f := range r.sentFrames {
			if f.typ == frameGoAway && i > 1 {
				t.Errorf("the GOAWAY is frame %d: %v", i, r.sentFrames)
			}
		}
	})
}

// silentConn is a connection whose reads block until Close and whose writes fail.
type silentConn struct {
	net.Conn
	closed   chan struct{}
	once     *sync.Once
	writeErr error
}

func (m silentConn) Read([]byte) (int, error)  { <-m.closed; return 0, net.ErrClosed }
func (m silentConn) Write([]byte) (int, error) { return 0, m.writeErr }
func (m silentConn) Close() error              { m.once.Do(func() { close(m.closed) }); return nil }

// wrappedConn records the order in which it and its inner connection are closed.
type wrappedConn struct {
	silentConn
	order *[]string
}

func (w wrappedConn) NetConn() net.Conn { return innerConn(w) }
func (w wrappedConn) Close() error      { *w.order = append(*w.order, "wrap"); return w.silentConn.Close() }

type innerConn struct {
	silentConn
	order *[]string
}

func (s innerConn) Close() error { *s.order = append(*s.order, "socket"); return nil }

// A dead path may show only as a write error. The socket is closed before the connections that
// wrap it, because they would block to send their last bytes.
func TestWriteErrorFailsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		m := silentConn{closed: make(chan struct{}), once: new(sync.Once), writeErr: syscall.ETIMEDOUT}
		tr := NewClient(wrappedConn{m, &order}, NewBudget(MaxStreams, nil))
		ended := make(chan error, 1)
		go func() { ended <- tr.Run() }()
		st, err := tr.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = st.Write([]byte("x"))
		synctest.Wait()
		if _, err := st.Write([]byte("x")); !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("Write = %v, want %v", err, syscall.ETIMEDOUT)
		}
		tr.Fail(net.ErrClosed)
		if err := <-ended; !errors.Is(err, syscall.ETIMEDOUT) {
			t.Errorf("Run = %v, want %v", err, syscall.ETIMEDOUT)
		}
		if len(order) != 2 || order[0] != "socket" || order[1] != "wrap" {
			t.Errorf("closed: %v, want the socket first", order)
		}
	})
}

// lastReadConn is a connection whose last bytes are read together with io.EOF.
type lastReadConn struct {
	scriptedConn
	b []byte
}

func (e *lastReadConn) Read(p []byte) (int, error) {
	n := copy(p, e.b)
	e.b = nil
	return n, io.EOF
}

func TestBytesReadTogetherWithEOFAreHandled(t *testing.T) {
	b := appendFrame(appendFrame(nil, frameOpen, 1, nil), frameData, 1, []byte("all"))
	given := make(chan *Stream, 1)
	_ = newSession(&lastReadConn{b: appendFrame(b, frameEndStream, 1, nil)}, NewBudget(MaxStreams, nil), func(st *Stream) bool { given <- st; return true }).Run()
	if len(given) != 1 {
		t.Fatal("no stream was accepted")
	}
	if got, err := io.ReadAll(<-given); string(got) != "all" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

// A session without streams ends at once when either end drains it.
func TestSessionWithoutStreamsDrainsAtOnce(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		r.Drain()
		synctest.Wait()
		if !errors.Is(r.runErr, ErrDraining) {
			t.Errorf("Run = %v, want %v", r.runErr, ErrDraining)
		}
	})
	withRawPeer(t, false, func(r *rawPeer) {
		if r.send(frameGoAway, 0, nil); !errors.Is(r.runErr, ErrDraining) {
			t.Errorf("Run = %v after the GOAWAY, want %v", r.runErr, ErrDraining)
		}
	})
}

// New frames do not overwrite the batch that is being written, also when the large buffers are
// released.
func TestBatchBeingWrittenIsNotOverwritten(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		st, _ := r.OpenStream()
		long, _ := r.OpenStream()
		const large = 2 * maxFrameData
		go func() { _, _ = long.Write(make([]byte, large)) }()
		if _, err := io.ReadFull(r.conn, make([]byte, 2*headerLen+large+large/maxFrameData*headerLen)); err != nil {
			t.Fatal(err)
		}
		put := func(i uint32) { _, _ = st.Write(binary.BigEndian.AppendUint32(nil, i)); synctest.Wait() }
		put(0)
		for i := range uint32(3 * shrinkAfter) {
			put(i + 1) // while the previous frame is being written
			want := appendFrame(nil, frameData, st.id, binary.BigEndian.AppendUint32(nil, i))
			got := make([]byte, len(want))
			if _, err := io.ReadFull(r.conn, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("small frame %d is %x, %v, want %x", i, got, err, want)
			}
			synctest.Wait()
		}
		r.Session.mu.Lock()
		defer r.Session.mu.Unlock()
		if n := max(cap(r.queue), cap(r.spareQueue)); n > maxRetainedQueue {
			t.Errorf("a buffer of %d bytes is kept, want %d", n, maxRetainedQueue)
		}
	})
}

// A reset by the server overtakes the queued data of its stream.
func TestResetByServerOvertakesItsData(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.Ping()
		synctest.Wait() // the ping is being written
		r.send(frameOpen, 1, nil)
		st := <-r.accepted
		_, _ = st.Write([]byte("waits"))
		_ = st.SetLinger(0)
		_ = st.Close()
		r.startReading()
		synctest.Wait()
		var order []frameType
		for _, f := range r.sentFrames {
			order = append(order, f.typ)
		}
		if want := []frameType{framePing, frameReset, frameData}; !bytes.Equal(asBytes(order), asBytes(want)) {
			t.Errorf("sent %v, want %v", order, want)
		}
	})
}

// A blocked writer tries again once for each signal.
func TestQueueSpaceSignalIsConsumedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStream(nil, 1, Window)
		st.signalQueueSpace()
		if err := st.waitQueueSpace(0); err != nil {
			t.Fatal(err)
		}
		for range 2 { // each call waits for its own signal
			waits := make(chan error, 1)
			go func() { waits <- st.waitQueueSpace(0) }()
			synctest.Wait()
			if len(waits) != 0 {
				t.Error("the writer continues without queue space")
			}
			st.signalQueueSpace()
			if err := <-waits; err != nil {
				t.Error(err)
			}
		}
	})
}
