package mux

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// recvCap returns the capacity of the receive buffer.
func (st *Stream) recvCap() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.recv == nil {
		return 0
	}
	return cap(st.recv.data)
}

// A closed stream keeps no data: neither unread data nor data that the peer sends later. It counts
// until the peer has closed it, too.
func TestClosedStreamKeepsNoData(t *testing.T) {
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
					t.Fatalf("%d bytes are buffered, and %d streams are in use", st.recvCap(), r.budget.InUse())
				}
				if end(st); st.recvCap() != 0 {
					t.Errorf("%d bytes are buffered of a stream that is %s", st.recvCap(), how)
				}
				for range Window / 2 / maxFrameData {
					r.send(frameData, 1, make([]byte, maxFrameData))
				}
				if n := st.recvCap(); n != 0 || r.runErr != nil || r.budget.InUse() != 1 {
					t.Errorf("%d bytes are buffered that arrived later, %d streams are in use, and Run = %v", n, r.budget.InUse(), r.runErr)
				}
				r.send(frameClose, 1, nil)
				r.Session.mu.Lock()
				n := len(r.streams)
				r.Session.mu.Unlock()
				if n != 0 || r.budget.InUse() != 0 || r.runErr != nil {
					t.Errorf("%d streams are in the map and %d are in use after both ends have closed it, and Run = %v", n, r.budget.InUse(), r.runErr)
				}
			})
		})
	}
}

// A stream of a failed session keeps received data until it is closed.
func TestStreamOfFailedSessionKeepsDataUntilClosed(t *testing.T) {
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
			t.Errorf("%d bytes are buffered, and %d streams are in use", closed.recvCap(), r.budget.InUse())
		}
	})
}

// A stream that this end has closed is released from the budget when the peer refuses it or
// excludes it with a GOAWAY.
func TestClosedStreamIsReleasedWhenRefused(t *testing.T) {
	for _, f := range []frame{{typ: frameRefuse, stream: 1}, {typ: frameGoAway}} {
		withRawPeer(t, false, func(r *rawPeer) {
			r.startReading()
			st, err := r.OpenStream()
			if err != nil {
				t.Fatal(err)
			}
			_ = st.Close()
			if n, _ := r.sent(frameClose); n != 1 || r.budget.InUse() != 1 {
				t.Fatalf("%d close frames were sent, and %d streams are in use", n, r.budget.InUse())
			}
			if r.send(f.typ, f.stream, f.data); r.budget.InUse() != 0 {
				t.Errorf("%d streams are in use after frame %d", r.budget.InUse(), f.typ)
			}
		})
	}
}

// bufferSizes returns the capacity of the write buffers: of the session, and of its transport for TLS.
func (r *rawPeer) bufferSizes() (queues, sealed int) {
	synctest.Wait()
	r.Session.mu.Lock()
	defer r.Session.mu.Unlock()
	r.transport.mu.Lock()
	defer r.transport.mu.Unlock()
	return max(cap(r.urgentFrames), cap(r.queue), cap(r.spareQueue)), max(cap(r.transport.records), cap(r.transport.lastEncrypted))
}

// A session keeps the buffers of a burst while it has streams that may need them again. It
// releases them when the last stream has closed, at either end, and when the session is idle.
func TestQuietSessionReleasesBuffers(t *testing.T) {
	const streams = 64
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
				r.accepted = make(chan *Stream, streams)
				var all []*Stream
				for i := range uint32(streams) {
					r.send(frameOpen, i+1, nil)
					all = append(all, <-r.accepted)
				}
				for _, st := range all { // more than both queue buffers hold
					go func() {
						_, _ = st.Write(make([]byte, maxFrameData))
						_, _ = st.Write(make([]byte, maxFrameData))
					}()
				}
				synctest.Wait()
				r.startReading()
				synctest.Wait()
				r.transport.mu.Lock()
				r.transport.records, r.transport.lastEncrypted = append(make([]byte, 0, queueLimit), "beside"...), make([]byte, 0, queueLimit)
				r.transport.mu.Unlock()
				if queues, sealed := r.bufferSizes(); queues <= maxRetainedQueue || sealed <= maxRetainedQueue {
					t.Fatalf("the burst left buffers of only %d and %d bytes", queues, sealed)
				}
				end(r, all)
				if queues, sealed := r.bufferSizes(); queues > maxRetainedQueue || sealed > maxRetainedQueue {
					t.Errorf("buffers of %d and %d bytes are kept, want at most %d", queues, sealed, maxRetainedQueue)
				}
				if err := r.failureCause(); err != nil || string(r.transport.records) != "beside" {
					t.Errorf("failure = %v, and the records are %q", err, r.transport.records)
				}
			})
		})
	}
}
