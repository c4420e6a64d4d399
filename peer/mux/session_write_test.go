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

// before returns how many bytes of other lanes were sent before the first of this one.
func (r *rawPeer) bytesBefore(lane uint32) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.sentFrames {
		if f.typ == frameData && f.stream == lane {
			return n
		}
		n += len(f.data)
	}
	r.t.Errorf("lane %d says nothing", lane)
	return n
}

// Who has much to say lets others in between: what is short waits behind what is being
// written and one bulkQueue.
func TestWhatIsShortWaitsBehindLittle(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		long, _ := r.OpenStream()
		short, _ := r.OpenStream()
		var said sync.WaitGroup
		said.Go(func() { _, _ = long.Write(make([]byte, Window)) })
		synctest.Wait() // nobody reads yet
		wrote := false
		said.Go(func() {
			_, _ = short.Write([]byte("short"))
			wrote = true
		})
		synctest.Wait()
		if !wrote {
			t.Error("what is short waits until the long has gone")
		}
		r.startReading()
		said.Wait()
		synctest.Wait()
		if n := r.bytesBefore(2); n > 2*bulkQueueLimit {
			t.Errorf("%d bytes were sent before what is short, want %d at most", n, 2*bulkQueueLimit)
		}
		if _, b := r.sent(frameData); len(b) != Window+len("short") {
			t.Errorf("%d bytes are sent in all", len(b))
		}
	})
}

// However many lanes have something to answer, what waits to be written is bounded, and all of
// it goes once there is room.
func TestWhatWaitsToBeWrittenIsBounded(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		const lanes = 100
		var said sync.WaitGroup
		for i := range uint32(lanes) {
			r.send(frameOpen, i+1, nil)
			st := <-r.accepted
			said.Go(func() {
				if n, err := st.Write(make([]byte, maxFrameData)); n != maxFrameData || err != nil {
					t.Errorf("Write = %d, %v", n, err)
				}
			})
		}
		synctest.Wait() // nobody reads
		r.Session.mu.Lock()
		if n := len(r.queue); n > queueLimit+headerLen {
			t.Errorf("%d bytes wait to be written, want %d at most", n, queueLimit)
		}
		r.Session.mu.Unlock()
		r.startReading()
		said.Wait()
		if _, b := r.sent(frameData); len(b) != lanes*maxFrameData {
			t.Errorf("%d bytes are sent in all, want %d", len(b), lanes*maxFrameData)
		}
	})
}

// Who waits for room in a trunk that breaks does not wait any more.
func TestWhoWaitsForRoomLearnsThatTheTrunkBroke(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		why := errors.New("cut")
		const lanes = 3 * bulkQueueLimit / Window
		done := make(chan error, lanes)
		for range lanes {
			long, _ := r.OpenStream()
			go func() {
				_, err := long.Write(make([]byte, Window))
				done <- err
			}()
		}
		synctest.Wait() // nobody reads
		taken := len(done)
		r.Fail(why)
		synctest.Wait()
		if taken == lanes || len(done) != lanes {
			t.Fatalf("%d of %d did not wait, and %d do still", taken, lanes, lanes-len(done))
		}
		for i := range lanes {
			if err := <-done; i >= taken && !errors.Is(err, why) {
				t.Errorf("Write = %v, want %v", err, why)
			}
		}
	})
}

// Urgent frames come first also where all goes out in one write.
func TestWhatIsUrgentComesFirstInOneWrite(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		st, _ := r.OpenStream()
		_, _ = st.Write([]byte("is being written"))
		synctest.Wait() // nobody reads yet
		_, _ = st.Write([]byte("waits"))
		r.Ping()
		r.startReading()
		synctest.Wait()
		var order []frameType
		for _, f := range r.sentFrames {
			order = append(order, f.typ)
		}
		if want := []frameType{frameOpen, frameData, framePing, frameData}; !bytes.Equal(asBytes(order), asBytes(want)) {
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

// The last word passes what waits: what it saves is what is on its way.
func TestTheLastWordPassesWhatWaits(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.send(frameOpen, 1, nil)
		st := <-r.accepted
		synctest.Wait()
		_, _ = st.Write([]byte("is being written"))
		synctest.Wait() // nobody reads yet
		_, _ = st.Write([]byte("waits"))
		r.GoAway(0)
		_, _ = st.Write([]byte("more"))
		r.GoAway(0)
		r.startReading()
		if n, _ := r.sent(frameGoAway); n != 1 {
			t.Errorf("the last word is said %d times", n)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, f := range r.sentFrames {
			if f.typ == frameGoAway && i > 1 {
				t.Errorf("the last word is frame %d: %v", i, r.sentFrames)
			}
		}
	})
}

// mute is a connection that nothing comes from, and that breaks when written to.
type silentConn struct {
	net.Conn
	closed   chan struct{}
	once     *sync.Once
	writeErr error
}

func (m silentConn) Read([]byte) (int, error)  { <-m.closed; return 0, net.ErrClosed }
func (m silentConn) Write([]byte) (int, error) { return 0, m.writeErr }
func (m silentConn) Close() error              { m.once.Do(func() { close(m.closed) }); return nil }

// wrapped counts what is closed above a connection.
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

// A path that is dead may show by what is written only. The socket is closed first: what
// wraps it would wait to say goodbye.
func TestATrunkThatCannotWriteBreaks(t *testing.T) {
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
			t.Errorf("closed: %v, want the socket and then what wraps it", order)
		}
	})
}

// end is the last read of a connection that brings its last bytes with its end.
type lastReadConn struct {
	scriptedConn
	b []byte
}

func (e *lastReadConn) Read(p []byte) (int, error) {
	n := copy(p, e.b)
	e.b = nil
	return n, io.EOF
}

func TestBytesThatComeWithTheEndAreTaken(t *testing.T) {
	b := appendFrame(appendFrame(nil, frameOpen, 1, nil), frameData, 1, []byte("all"))
	given := make(chan *Stream, 1)
	_ = newSession(&lastReadConn{b: appendFrame(b, frameEndStream, 1, nil)}, NewBudget(MaxStreams, nil), func(st *Stream) bool { given <- st; return true }).Run()
	if len(given) != 1 {
		t.Fatal("no lane is given")
	}
	if got, err := io.ReadAll(<-given); string(got) != "all" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

// A retired trunk without lanes ends at once, whichever end retires it.
func TestATrunkWithoutLanesEndsAsItRetires(t *testing.T) {
	withRawPeer(t, false, func(r *rawPeer) {
		r.Drain()
		synctest.Wait()
		if !errors.Is(r.runErr, ErrDraining) {
			t.Errorf("Run = %v, want %v", r.runErr, ErrDraining)
		}
	})
	withRawPeer(t, false, func(r *rawPeer) {
		if r.send(frameGoAway, 0, nil); !errors.Is(r.runErr, ErrDraining) {
			t.Errorf("Run = %v after the last word, want %v", r.runErr, ErrDraining)
		}
	})
}

// What is being written is not written over by what comes meanwhile, also where the room
// that large writes needed is given up.
func TestWhatIsBeingWrittenIsLeftAlone(t *testing.T) {
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
			put(i + 1) // while the one before is being written
			want := appendFrame(nil, frameData, st.id, binary.BigEndian.AppendUint32(nil, i))
			got := make([]byte, len(want))
			if _, err := io.ReadFull(r.conn, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("little frame %d is %x, %v, want %x", i, got, err, want)
			}
			synctest.Wait()
		}
		r.Session.mu.Lock()
		defer r.Session.mu.Unlock()
		if n := max(cap(r.queue), cap(r.spare)); n > maxKeptQueue {
			t.Errorf("room for %d bytes is kept that nobody needs, want %d", n, maxKeptQueue)
		}
	})
}

// The end that is given lanes cuts them at once: what waits of its answer is not sent.
func TestACutOfAGivenLanePassesWhatWaits(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.Ping()
		synctest.Wait() // that is being written
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

// A lane asks to be looked at again only as often as it is told of room.
func TestRoomIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStream(nil, 1, Window)
		st.signalQueueSpace()
		if err := st.waitQueueSpace(0); err != nil {
			t.Fatal(err)
		}
		for range 2 { // each waits for its own
			waits := make(chan error, 1)
			go func() { waits <- st.waitQueueSpace(0) }()
			synctest.Wait()
			if len(waits) != 0 {
				t.Error("it goes on without room")
			}
			st.signalQueueSpace()
			if err := <-waits; err != nil {
				t.Error(err)
			}
		}
	})
}
