package mux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// raw is a trunk whose other end the test plays, frame by frame.
type raw struct {
	*Trunk
	t     *testing.T
	far   net.Conn
	given chan *Lane
	ended error // what Run has returned

	mu     sync.Mutex
	frames []frame // that it has sent
}

// withRaw runs f in a bubble. What the trunk sends is read as it comes, from the first
// call of hears on.
func withRaw(t *testing.T, accepted bool, f func(r *raw)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		r := &raw{t: t, far: far, given: make(chan *Lane, 8)}
		var give func(*Lane) bool
		if accepted {
			give = func(l *Lane) bool { r.given <- l; return true }
		}
		r.Trunk = newTrunk(near, NewBudget(MaxLanes, nil), give)
		var runs sync.WaitGroup
		runs.Go(func() { r.ended = r.Run() })
		defer runs.Wait()
		defer func() { _ = far.Close() }()
		defer r.Fail(net.ErrClosed)
		synctest.Wait() // it reads
		f(r)
	})
}

// hears reads what the trunk sends until it ends.
func (r *raw) hears() {
	go func() {
		var have []byte
		buf := make([]byte, 4<<10)
		for {
			n, err := r.far.Read(buf)
			have = append(have, buf[:n]...)
			for {
				f, m, bad := cutFrame(have)
				if bad != nil {
					r.t.Errorf("it sends a bad frame: %v", bad)
				}
				if m == 0 {
					break
				}
				f.data = bytes.Clone(f.data)
				have = have[m:]
				r.mu.Lock()
				r.frames = append(r.frames, f)
				r.mu.Unlock()
			}
			if err != nil {
				return
			}
		}
	}()
}

// sent returns what the trunk has sent of a kind, all data in one.
func (r *raw) sent(k kind) (n int, data []byte) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.frames {
		if f.kind == k {
			n++
			data = append(data, f.data...)
		}
	}
	return n, data
}

func (r *raw) says(k kind, lane uint32, data []byte) {
	r.t.Helper()
	_, err := r.far.Write(appendFrame(nil, k, lane, data))
	synctest.Wait()
	if err != nil && r.ended == nil {
		r.t.Errorf("frame %d: %v", k, err)
	}
}

// Who sends what there is no room for is cut off: it would be kept without a bound.
func TestWhoSendsMoreThanItsCreditLosesTheTrunk(t *testing.T) {
	withRaw(t, true, func(r *raw) {
		r.hears()
		r.says(kindOpen, 1, nil)
		l := <-r.given
		for range Window / maxData {
			r.says(kindData, 1, make([]byte, maxData))
		}
		if r.ended != nil {
			t.Fatalf("it ends within the credit: %v", r.ended)
		}
		if n, err := io.ReadFull(l, make([]byte, Window/2)); err != nil {
			t.Fatalf("read %d, %v", n, err)
		}
		if n, b := r.sent(kindCredit); n != 1 || !bytes.Equal(b, binary.BigEndian.AppendUint32(nil, Window/2)) {
			t.Fatalf("%d credits, %x, want half of the window", n, b)
		}
		for range Window / 2 / maxData {
			r.says(kindData, 1, make([]byte, maxData))
		}
		if r.ended != nil {
			t.Fatalf("it ends within what was given back: %v", r.ended)
		}
		r.says(kindData, 1, []byte("x"))
		if !errors.Is(r.ended, errFrame) {
			t.Fatalf("Run = %v, want %v", r.ended, errFrame)
		}
	})
}

func TestNothingIsSentBeyondTheCredit(t *testing.T) {
	withRaw(t, false, func(r *raw) {
		r.hears()
		l, err := r.Open()
		if err != nil {
			t.Fatal(err)
		}
		text := bytes.Repeat([]byte("0123456789abcdef"), Window/8)
		go func() { _, _ = l.Write(text) }()
		if _, b := r.sent(kindData); !bytes.Equal(b, text[:Window]) {
			t.Fatalf("%d bytes are sent at once, want %d", len(b), Window)
		}
		r.says(kindCredit, 1, []byte{0, 0, 0, 7})
		if _, b := r.sent(kindData); !bytes.Equal(b, text[:Window+7]) {
			t.Fatalf("%d bytes are sent with 7 more", len(b))
		}
		r.says(kindCredit, 1, []byte{0, 0xff, 0, 0})
		r.says(kindCredit, 1, []byte{0, 1, 0, 0})
		if !errors.Is(r.ended, errFrame) {
			t.Fatalf("Run = %v after credit above the window, want %v", r.ended, errFrame)
		}
	})
}

// What is urgent passes what waits, and the end of a lane does not.
func TestWhatIsUrgentPassesWhatWaits(t *testing.T) {
	withRaw(t, false, func(r *raw) {
		a, _ := r.Open()
		b, _ := r.Open()
		_, _ = a.Write([]byte("is being written"))
		synctest.Wait() // nobody reads yet
		_, _ = a.Write(make([]byte, maxData))
		_, _ = a.Write([]byte("end"))
		_ = a.Close()
		_ = b.SetLinger(0)
		_ = b.Close()
		r.Ping()
		r.hears()
		synctest.Wait()
		var order []string
		for _, f := range r.frames {
			order = append(order, map[kind]string{
				kindOpen: "open", kindData: "data", kindClose: "close", kindReset: "reset", kindPing: "ping",
			}[f.kind])
		}
		const want = "open open data reset ping data data close"
		if got := strings.Join(order, " "); got != want {
			t.Errorf("sent %s, want %s", got, want)
		}
	})
}

func TestLateFramesAreNobodys(t *testing.T) {
	withRaw(t, true, func(r *raw) {
		r.hears()
		r.says(kindOpen, 3, nil)
		l := <-r.given
		_ = l.Close()
		r.says(kindClose, 3, nil)
		for _, f := range []frame{
			{kindData, 3, []byte("x")},
			{kindCredit, 3, []byte{0xff, 0, 0, 0}},
			{kindEnd, 3, nil},
			{kindReset, 3, nil},
			{kindData, 2, []byte("x")},
			{kindPing, 0, nil},
			{kindPong, 0, nil},
		} {
			if r.says(f.kind, f.lane, f.data); r.ended != nil {
				t.Fatalf("a late %v ends the trunk: %v", f, r.ended)
			}
		}
		r.says(kindOpen, 4, nil)
		r.says(kindData, 4, []byte("its own"))
		got := make([]byte, 7)
		if _, err := io.ReadFull(<-r.given, got); err != nil || string(got) != "its own" {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

// What was on its way when the last word was said is nobody's.
func TestALaneThatCrossesTheLastWordIsNotGiven(t *testing.T) {
	withRaw(t, true, func(r *raw) {
		r.hears()
		r.says(kindOpen, 3, nil)
		<-r.given
		r.Last(time.Minute)
		r.says(kindOpen, 4, nil)
		r.says(kindData, 4, []byte("x"))
		r.says(kindData, 3, []byte("x"))
		if n := len(r.given); n != 0 || r.ended != nil {
			t.Errorf("%d lanes were given after the last, and the trunk ended with %v", n, r.ended)
		}
		synctest.Wait()
		if f := r.frames[len(r.frames)-1]; f.kind != kindLast || f.lane != 3 {
			t.Errorf("it says %v, want that 3 was the last", f)
		}
	})
}

func TestWhatBreaksTheOrderEndsTheTrunk(t *testing.T) {
	for what, f := range map[string]frame{
		"a lane that was never opened": {kindData, 4, []byte("x")},
		"a number that was used":       {kindOpen, 3, nil},
		"a lower number":               {kindOpen, 2, nil},
		"an open lane with bytes":      {kindOpen, 4, []byte("x")},
		"no bytes":                     {kindData, 3, nil},
		"too many bytes":               {kindData, 3, make([]byte, maxData+1)},
		"lane 0":                       {kindData, 0, []byte("x")},
		"a ping of a lane":             {kindPing, 3, nil},
		"a short credit":               {kindCredit, 3, []byte("x")},
		"an unknown kind":              {kindRefuse + 1, 3, nil},
		"a last with bytes":            {kindLast, 3, []byte("x")},
		"a last word of who opens":     {kindLast, 3, nil},
		"a refusal of who opens":       {kindRefuse, 3, nil},
		"kind 0":                       {0, 3, nil},
	} {
		t.Run(what, func(t *testing.T) {
			withRaw(t, true, func(r *raw) {
				r.says(kindOpen, 3, nil)
				r.says(f.kind, f.lane, f.data)
				if !errors.Is(r.ended, errFrame) {
					t.Errorf("Run = %v, want %v", r.ended, errFrame)
				}
			})
		})
	}
	withRaw(t, false, func(r *raw) {
		if r.says(kindOpen, 1, nil); !errors.Is(r.ended, errFrame) {
			t.Errorf("Run = %v after the end that was dialed opened a lane", r.ended)
		}
	})
	withRaw(t, false, func(r *raw) {
		_, _ = r.Open()
		r.says(kindData, 1, []byte("x"))
		if r.says(kindRefuse, 1, nil); !errors.Is(r.ended, errFrame) {
			t.Errorf("Run = %v after a lane was refused that had been answered", r.ended)
		}
	})
}
