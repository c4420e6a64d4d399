package mux

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// keeps returns how many bytes the lane has room for that holds what has come.
func (st *Stream) recvCap() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.recv == nil {
		return 0
	}
	return cap(st.recv.b)
}

// A lane that is closed keeps nothing: neither what came before and nobody has read, nor what
// the other end goes on sending until it knows. It counts until that one has closed it, too.
func TestALaneThatIsClosedKeepsNothing(t *testing.T) {
	for how, end := range map[string]func(st *Stream){
		"closed": func(st *Stream) { _ = st.Close() },
		"cut":    func(st *Stream) { _ = st.SetLinger(0); _ = st.Close() },
	} {
		t.Run(how, func(t *testing.T) {
			withRawPeer(t, true, func(r *rawPeer) {
				r.startReading()
				r.send(frameOpen, 1, nil)
				st := <-r.accepted
				for range Window / 2 / maxFrameData {
					r.send(frameData, 1, make([]byte, maxFrameData))
				}
				if st.recvCap() < Window/2 || r.budget.InUse() != 1 {
					t.Fatalf("%d bytes are kept, and %d lanes count", st.recvCap(), r.budget.InUse())
				}
				if end(st); st.recvCap() != 0 {
					t.Errorf("%d bytes are kept of a lane that is %s", st.recvCap(), how)
				}
				for range Window / 2 / maxFrameData {
					r.send(frameData, 1, make([]byte, maxFrameData))
				}
				if n := st.recvCap(); n != 0 || r.runErr != nil || r.budget.InUse() != 1 {
					t.Errorf("%d bytes are kept that came later, %d lanes count, and the trunk ends with %v", n, r.budget.InUse(), r.runErr)
				}
				r.send(frameClose, 1, nil)
				r.Session.mu.Lock()
				n := len(r.streams)
				r.Session.mu.Unlock()
				if n != 0 || r.budget.InUse() != 0 || r.runErr != nil {
					t.Errorf("%d lanes are remembered and %d count once both ends have closed it, and the trunk ends with %v", n, r.budget.InUse(), r.runErr)
				}
			})
		})
	}
}

// Nor does one whose trunk broke, once it is closed; until then what came is there to be read.
func TestALaneOfABrokenTrunkKeepsWhatCameUntilItIsClosed(t *testing.T) {
	withRawPeer(t, true, func(r *rawPeer) {
		r.send(frameOpen, 1, nil)
		r.send(frameOpen, 2, nil)
		read, closed := <-r.accepted, <-r.accepted
		text := bytes.Repeat([]byte("x"), maxFrameData)
		r.send(frameData, 1, text)
		r.send(frameData, 2, text)
		_ = r.conn.Close()
		synctest.Wait()
		if b, err := io.ReadAll(read); !bytes.Equal(b, text) || err == nil || read.recvCap() != 0 {
			t.Errorf("read %d bytes, %v, and %d are kept", len(b), err, read.recvCap())
		}
		_ = read.Close()
		if _ = closed.Close(); closed.recvCap() != 0 || r.budget.InUse() != 0 {
			t.Errorf("%d bytes are kept, and %d lanes count", closed.recvCap(), r.budget.InUse())
		}
	})
}

// Nor does one count that this end has closed before the other end says that it does not take it.
func TestAClosedLaneThatIsNotTakenIsGivenBack(t *testing.T) {
	for _, f := range []frame{{typ: frameRefuse, stream: 1}, {typ: frameGoAway}} {
		withRawPeer(t, false, func(r *rawPeer) {
			r.startReading()
			st, err := r.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			_ = st.Close()
			if n, _ := r.sent(frameClose); n != 1 || r.budget.InUse() != 1 {
				t.Fatalf("%d closes are said, and %d lanes count", n, r.budget.InUse())
			}
			if r.send(f.typ, f.stream, f.data); r.budget.InUse() != 0 {
				t.Errorf("%d lanes count after frame %d", r.budget.InUse(), f.typ)
			}
		})
	}
}

// room returns what is kept for what is to be written: by the trunk, and by its socket, for TLS.
func (r *rawPeer) bufferSizes() (queues, sealed int) {
	synctest.Wait()
	r.Session.mu.Lock()
	defer r.Session.mu.Unlock()
	r.transport.mu.Lock()
	defer r.transport.mu.Unlock()
	return max(cap(r.urgent), cap(r.queue), cap(r.spare)), max(cap(r.transport.records), cap(r.transport.previous))
}

// A trunk keeps the room that a burst needed while it has lanes that may need it again: not once
// the last has gone, whichever end closed it, nor when nothing comes by it.
func TestAQuietTrunkKeepsLittleRoom(t *testing.T) {
	const lanes = 64
	for how, end := range map[string]func(r *rawPeer, all []*Stream){
		"closed here": func(_ *rawPeer, all []*Stream) {
			for _, st := range all {
				_ = st.Close()
			}
		},
		"closed there": func(r *rawPeer, all []*Stream) {
			for _, st := range all {
				r.send(frameClose, st.id, nil)
			}
		},
		"silent": func(*rawPeer, []*Stream) { time.Sleep(idleTimeout + firstFrameTimeout) },
	} {
		t.Run(how, func(t *testing.T) {
			withRawPeer(t, true, func(r *rawPeer) {
				r.accepted = make(chan *Stream, lanes)
				var all []*Stream
				for i := range uint32(lanes) {
					r.send(frameOpen, i+1, nil)
					all = append(all, <-r.accepted)
				}
				for _, st := range all { // more than both queues take
					go func() {
						_, _ = st.Write(make([]byte, maxFrameData))
						_, _ = st.Write(make([]byte, maxFrameData))
					}()
				}
				synctest.Wait()
				r.startReading()
				synctest.Wait()
				r.transport.mu.Lock()
				r.transport.records, r.transport.previous = append(make([]byte, 0, queueLimit), "beside"...), make([]byte, 0, queueLimit)
				r.transport.mu.Unlock()
				if queues, sealed := r.bufferSizes(); queues <= maxKeptQueue || sealed <= maxKeptQueue {
					t.Fatalf("the burst left room for %d and %d bytes alone", queues, sealed)
				}
				end(r, all)
				if queues, sealed := r.bufferSizes(); queues > maxKeptQueue || sealed > maxKeptQueue {
					t.Errorf("room for %d and %d bytes is kept, want %d at most", queues, sealed, maxKeptQueue)
				}
				if err := r.failure(); err != nil || string(r.transport.records) != "beside" {
					t.Errorf("it ends with %v, and %q is to be sealed", err, r.transport.records)
				}
			})
		})
	}
}
