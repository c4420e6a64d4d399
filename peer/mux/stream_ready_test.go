package mux

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// NotifyReadable calls wake once, as soon as Read would not block, for whatever reason.
func TestReadyCallsWakeOnce(t *testing.T) {
	for how, f := range map[string]func(r *rawPeer, st *Stream){
		"bytes": func(r *rawPeer, st *Stream) {
			r.send(frameData, st.id, []byte("x"))
			r.send(frameData, st.id, []byte("y"))
		},
		"the end": func(r *rawPeer, st *Stream) { r.send(frameEndStream, st.id, nil) },
		"a close": func(r *rawPeer, st *Stream) { r.send(frameClose, st.id, nil) },
		"a reset": func(r *rawPeer, st *Stream) { r.send(frameReset, st.id, nil) },
		"failure": func(r *rawPeer, _ *Stream) { r.Fail(errors.New("cut")) },
		"its own": func(_ *rawPeer, st *Stream) { _ = st.Close() },
		"a limit": func(_ *rawPeer, st *Stream) { _ = st.SetReadDeadline(time.Now().Add(-time.Second)) },
		"its time": func(_ *rawPeer, st *Stream) {
			_ = st.SetReadDeadline(time.Now().Add(time.Second))
			time.Sleep(time.Minute)
		},
	} {
		t.Run(how, func(t *testing.T) {
			withRawPeer(t, true, func(r *rawPeer) {
				r.startReading()
				r.send(frameOpen, 1, nil)
				st := <-r.accepted
				told := 0
				if !st.NotifyReadable(func() { told++ }) || told != 0 {
					t.Fatalf("Ready = false without data; called %d times", told)
				}
				f(r, st)
				if synctest.Wait(); told != 1 {
					t.Errorf("called %d times, want once", told)
				}
				if st.NotifyReadable(func() { told++ }) || told != 1 {
					t.Errorf("Ready = true although Read would not block; called %d times", told)
				}
			})
		})
	}
}
