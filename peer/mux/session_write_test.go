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
func (r *raw) before(lane uint32) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.frames {
		if f.kind == kindData && f.lane == lane {
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
	withRaw(t, false, func(r *raw) {
		long, _ := r.Open()
		short, _ := r.Open()
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
		r.hears()
		said.Wait()
		synctest.Wait()
		if n := r.before(2); n > 2*bulkQueue {
			t.Errorf("%d bytes were sent before what is short, want %d at most", n, 2*bulkQueue)
		}
		if _, b := r.sent(kindData); len(b) != Window+len("short") {
			t.Errorf("%d bytes are sent in all", len(b))
		}
	})
}

// However many lanes have something to answer, what waits to be written is bounded, and all of
// it goes once there is room.
func TestWhatWaitsToBeWrittenIsBounded(t *testing.T) {
	withRaw(t, true, func(r *raw) {
		const lanes = 100
		var said sync.WaitGroup
		for i := range uint32(lanes) {
			r.says(kindOpen, i+1, nil)
			l := <-r.given
			said.Go(func() {
				if n, err := l.Write(make([]byte, maxData)); n != maxData || err != nil {
					t.Errorf("Write = %d, %v", n, err)
				}
			})
		}
		synctest.Wait() // nobody reads
		r.Trunk.mu.Lock()
		if n := len(r.out); n > mostQueue+headLen {
			t.Errorf("%d bytes wait to be written, want %d at most", n, mostQueue)
		}
		r.Trunk.mu.Unlock()
		r.hears()
		said.Wait()
		if _, b := r.sent(kindData); len(b) != lanes*maxData {
			t.Errorf("%d bytes are sent in all, want %d", len(b), lanes*maxData)
		}
	})
}

// Who waits for room in a trunk that breaks does not wait any more.
func TestWhoWaitsForRoomLearnsThatTheTrunkBroke(t *testing.T) {
	withRaw(t, false, func(r *raw) {
		why := errors.New("cut")
		const lanes = 3 * bulkQueue / Window
		done := make(chan error, lanes)
		for range lanes {
			long, _ := r.Open()
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
	withRaw(t, false, func(r *raw) {
		l, _ := r.Open()
		_, _ = l.Write([]byte("is being written"))
		synctest.Wait() // nobody reads yet
		_, _ = l.Write([]byte("waits"))
		r.Ping()
		r.hears()
		synctest.Wait()
		var order []kind
		for _, f := range r.frames {
			order = append(order, f.kind)
		}
		if want := []kind{kindOpen, kindData, kindPing, kindData}; !bytes.Equal(asBytes(order), asBytes(want)) {
			t.Errorf("sent %v, want %v", order, want)
		}
	})
}

func asBytes(kinds []kind) (b []byte) {
	for _, k := range kinds {
		b = append(b, byte(k))
	}
	return b
}

// The last word passes what waits: what it saves is what is on its way.
func TestTheLastWordPassesWhatWaits(t *testing.T) {
	withRaw(t, true, func(r *raw) {
		r.says(kindOpen, 1, nil)
		l := <-r.given
		synctest.Wait()
		_, _ = l.Write([]byte("is being written"))
		synctest.Wait() // nobody reads yet
		_, _ = l.Write([]byte("waits"))
		r.Last(0)
		_, _ = l.Write([]byte("more"))
		r.Last(0)
		r.hears()
		if n, _ := r.sent(kindLast); n != 1 {
			t.Errorf("the last word is said %d times", n)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for i, f := range r.frames {
			if f.kind == kindLast && i > 1 {
				t.Errorf("the last word is frame %d: %v", i, r.frames)
			}
		}
	})
}

// mute is a connection that nothing comes from, and that breaks when written to.
type mute struct {
	net.Conn
	closed chan struct{}
	once   *sync.Once
	breaks error
}

func (m mute) Read([]byte) (int, error)  { <-m.closed; return 0, net.ErrClosed }
func (m mute) Write([]byte) (int, error) { return 0, m.breaks }
func (m mute) Close() error              { m.once.Do(func() { close(m.closed) }); return nil }

// wrapped counts what is closed above a connection.
type wrapped struct {
	mute
	order *[]string
}

func (w wrapped) NetConn() net.Conn { return bare(w) }
func (w wrapped) Close() error      { *w.order = append(*w.order, "wrap"); return w.mute.Close() }

type bare struct {
	mute
	order *[]string
}

func (s bare) Close() error { *s.order = append(*s.order, "socket"); return nil }

// A path that is dead may show by what is written only. The socket is closed first: what
// wraps it would wait to say goodbye.
func TestATrunkThatCannotWriteBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		m := mute{closed: make(chan struct{}), once: new(sync.Once), breaks: syscall.ETIMEDOUT}
		tr := Dialed(wrapped{m, &order}, NewBudget(MaxLanes, nil))
		ended := make(chan error, 1)
		go func() { ended <- tr.Run() }()
		l, err := tr.Open()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = l.Write([]byte("x"))
		synctest.Wait()
		if _, err := l.Write([]byte("x")); !errors.Is(err, syscall.ETIMEDOUT) {
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
type end struct {
	script
	b []byte
}

func (e *end) Read(p []byte) (int, error) {
	n := copy(p, e.b)
	e.b = nil
	return n, io.EOF
}

func TestBytesThatComeWithTheEndAreTaken(t *testing.T) {
	b := appendFrame(appendFrame(nil, kindOpen, 1, nil), kindData, 1, []byte("all"))
	given := make(chan *Lane, 1)
	_ = newTrunk(&end{b: appendFrame(b, kindEnd, 1, nil)}, NewBudget(MaxLanes, nil), func(l *Lane) bool { given <- l; return true }).Run()
	if len(given) != 1 {
		t.Fatal("no lane is given")
	}
	if got, err := io.ReadAll(<-given); string(got) != "all" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

// A retired trunk without lanes ends at once, whichever end retires it.
func TestATrunkWithoutLanesEndsAsItRetires(t *testing.T) {
	withRaw(t, false, func(r *raw) {
		r.Retire()
		synctest.Wait()
		if !errors.Is(r.ended, ErrRetired) {
			t.Errorf("Run = %v, want %v", r.ended, ErrRetired)
		}
	})
	withRaw(t, false, func(r *raw) {
		if r.says(kindLast, 0, nil); !errors.Is(r.ended, ErrRetired) {
			t.Errorf("Run = %v after the last word, want %v", r.ended, ErrRetired)
		}
	})
}

// What is being written is not written over by what comes meanwhile, also where the room
// that large writes needed is given up.
func TestWhatIsBeingWrittenIsLeftAlone(t *testing.T) {
	withRaw(t, false, func(r *raw) {
		l, _ := r.Open()
		long, _ := r.Open()
		const large = 2 * maxData
		go func() { _, _ = long.Write(make([]byte, large)) }()
		if _, err := io.ReadFull(r.far, make([]byte, 2*headLen+large+large/maxData*headLen)); err != nil {
			t.Fatal(err)
		}
		put := func(i uint32) { _, _ = l.Write(binary.BigEndian.AppendUint32(nil, i)); synctest.Wait() }
		put(0)
		for i := range uint32(3 * lessOften) {
			put(i + 1) // while the one before is being written
			want := appendFrame(nil, kindData, l.id, binary.BigEndian.AppendUint32(nil, i))
			got := make([]byte, len(want))
			if _, err := io.ReadFull(r.far, got); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("little frame %d is %x, %v, want %x", i, got, err, want)
			}
			synctest.Wait()
		}
		r.Trunk.mu.Lock()
		defer r.Trunk.mu.Unlock()
		if n := max(cap(r.out), cap(r.spare)); n > keptQueue {
			t.Errorf("room for %d bytes is kept that nobody needs, want %d", n, keptQueue)
		}
	})
}

// The end that is given lanes cuts them at once: what waits of its answer is not sent.
func TestACutOfAGivenLanePassesWhatWaits(t *testing.T) {
	withRaw(t, true, func(r *raw) {
		r.Ping()
		synctest.Wait() // that is being written
		r.says(kindOpen, 1, nil)
		l := <-r.given
		_, _ = l.Write([]byte("waits"))
		_ = l.SetLinger(0)
		_ = l.Close()
		r.hears()
		synctest.Wait()
		var order []kind
		for _, f := range r.frames {
			order = append(order, f.kind)
		}
		if want := []kind{kindPing, kindReset, kindData}; !bytes.Equal(asBytes(order), asBytes(want)) {
			t.Errorf("sent %v, want %v", order, want)
		}
	})
}

// A lane asks to be looked at again only as often as it is told of room.
func TestRoomIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLane(nil, 1, Window)
		l.room()
		if err := l.crowded(0); err != nil {
			t.Fatal(err)
		}
		for range 2 { // each waits for its own
			waits := make(chan error, 1)
			go func() { waits <- l.crowded(0) }()
			synctest.Wait()
			if len(waits) != 0 {
				t.Error("it goes on without room")
			}
			l.room()
			if err := <-waits; err != nil {
				t.Error(err)
			}
		}
	})
}
