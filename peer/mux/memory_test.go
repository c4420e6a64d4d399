package mux

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// keeps returns how many bytes the lane has room for that holds what has come.
func (l *Lane) keeps() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.in == nil {
		return 0
	}
	return cap(l.in.b)
}

// A lane that is closed keeps nothing: neither what came before and nobody has read, nor what
// the other end goes on sending until it knows. It counts until that one has closed it, too.
func TestALaneThatIsClosedKeepsNothing(t *testing.T) {
	for how, end := range map[string]func(l *Lane){
		"closed": func(l *Lane) { _ = l.Close() },
		"cut":    func(l *Lane) { _ = l.SetLinger(0); _ = l.Close() },
	} {
		t.Run(how, func(t *testing.T) {
			withRaw(t, true, func(r *raw) {
				r.hears()
				r.says(kindOpen, 1, nil)
				l := <-r.given
				for range Window / 2 / maxData {
					r.says(kindData, 1, make([]byte, maxData))
				}
				if l.keeps() < Window/2 || r.budget.Lent() != 1 {
					t.Fatalf("%d bytes are kept, and %d lanes count", l.keeps(), r.budget.Lent())
				}
				if end(l); l.keeps() != 0 {
					t.Errorf("%d bytes are kept of a lane that is %s", l.keeps(), how)
				}
				for range Window / 2 / maxData {
					r.says(kindData, 1, make([]byte, maxData))
				}
				if n := l.keeps(); n != 0 || r.ended != nil || r.budget.Lent() != 1 {
					t.Errorf("%d bytes are kept that came later, %d lanes count, and the trunk ends with %v", n, r.budget.Lent(), r.ended)
				}
				r.says(kindClose, 1, nil)
				r.Trunk.mu.Lock()
				n := len(r.lanes)
				r.Trunk.mu.Unlock()
				if n != 0 || r.budget.Lent() != 0 || r.ended != nil {
					t.Errorf("%d lanes are remembered and %d count once both ends have closed it, and the trunk ends with %v", n, r.budget.Lent(), r.ended)
				}
			})
		})
	}
}

// Nor does one whose trunk broke, once it is closed; until then what came is there to be read.
func TestALaneOfABrokenTrunkKeepsWhatCameUntilItIsClosed(t *testing.T) {
	withRaw(t, true, func(r *raw) {
		r.says(kindOpen, 1, nil)
		r.says(kindOpen, 2, nil)
		read, closed := <-r.given, <-r.given
		text := bytes.Repeat([]byte("x"), maxData)
		r.says(kindData, 1, text)
		r.says(kindData, 2, text)
		_ = r.far.Close()
		synctest.Wait()
		if b, err := io.ReadAll(read); !bytes.Equal(b, text) || err == nil || read.keeps() != 0 {
			t.Errorf("read %d bytes, %v, and %d are kept", len(b), err, read.keeps())
		}
		_ = read.Close()
		if _ = closed.Close(); closed.keeps() != 0 || r.budget.Lent() != 0 {
			t.Errorf("%d bytes are kept, and %d lanes count", closed.keeps(), r.budget.Lent())
		}
	})
}

// Nor does one count that this end has closed before the other end says that it does not take it.
func TestAClosedLaneThatIsNotTakenIsGivenBack(t *testing.T) {
	for _, f := range []frame{{kind: kindRefuse, lane: 1}, {kind: kindLast}} {
		withRaw(t, false, func(r *raw) {
			r.hears()
			l, err := r.Open()
			if err != nil {
				t.Fatal(err)
			}
			_ = l.Close()
			if n, _ := r.sent(kindClose); n != 1 || r.budget.Lent() != 1 {
				t.Fatalf("%d closes are said, and %d lanes count", n, r.budget.Lent())
			}
			if r.says(f.kind, f.lane, f.data); r.budget.Lent() != 0 {
				t.Errorf("%d lanes count after frame %d", r.budget.Lent(), f.kind)
			}
		})
	}
}

// room returns what is kept for what is to be written: by the trunk, and by its socket, for TLS.
func (r *raw) room() (queues, sealed int) {
	synctest.Wait()
	r.Trunk.mu.Lock()
	defer r.Trunk.mu.Unlock()
	r.sock.mu.Lock()
	defer r.sock.mu.Unlock()
	return max(cap(r.urgent), cap(r.out), cap(r.spare)), max(cap(r.sock.sealed), cap(r.sock.sent))
}

// A trunk keeps the room that a burst needed while it has lanes that may need it again: not once
// the last has gone, whichever end closed it, nor when nothing comes by it.
func TestAQuietTrunkKeepsLittleRoom(t *testing.T) {
	const lanes = 64
	for how, end := range map[string]func(r *raw, all []*Lane){
		"closed here": func(_ *raw, all []*Lane) {
			for _, l := range all {
				_ = l.Close()
			}
		},
		"closed there": func(r *raw, all []*Lane) {
			for _, l := range all {
				r.says(kindClose, l.id, nil)
			}
		},
		"silent": func(*raw, []*Lane) { time.Sleep(idleFor + firstWithin) },
	} {
		t.Run(how, func(t *testing.T) {
			withRaw(t, true, func(r *raw) {
				r.given = make(chan *Lane, lanes)
				var all []*Lane
				for i := range uint32(lanes) {
					r.says(kindOpen, i+1, nil)
					all = append(all, <-r.given)
				}
				for _, l := range all { // more than both queues take
					go func() {
						_, _ = l.Write(make([]byte, maxData))
						_, _ = l.Write(make([]byte, maxData))
					}()
				}
				synctest.Wait()
				r.hears()
				synctest.Wait()
				r.sock.mu.Lock()
				r.sock.sealed, r.sock.sent = append(make([]byte, 0, mostQueue), "beside"...), make([]byte, 0, mostQueue)
				r.sock.mu.Unlock()
				if queues, sealed := r.room(); queues <= keptQueue || sealed <= keptQueue {
					t.Fatalf("the burst left room for %d and %d bytes alone", queues, sealed)
				}
				end(r, all)
				if queues, sealed := r.room(); queues > keptQueue || sealed > keptQueue {
					t.Errorf("room for %d and %d bytes is kept, want %d at most", queues, sealed, keptQueue)
				}
				if err := r.failed(); err != nil || string(r.sock.sealed) != "beside" {
					t.Errorf("it ends with %v, and %q is to be sealed", err, r.sock.sealed)
				}
			})
		})
	}
}
