package mux_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"shardway/peer/mux"
)

// A stream that was opened while the GOAWAY was on its way is unprocessed: its request is safe to
// send again. Accepted streams continue until they end.
func TestStreamAfterGoAwayIsUnprocessed(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		w.clientConn.held.Lock() // the server reads the late stream after it has sent the GOAWAY
		late, err := w.client.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		w.server.GoAway(time.Minute)
		w.clientConn.held.Unlock()
		_, _ = late.Write([]byte("x")) // fails if the GOAWAY was read before
		w.expectError(late, mux.ErrUnprocessed)
		if n := len(w.accepted); n != 0 {
			t.Errorf("%d streams were accepted after the GOAWAY, want none", n)
		}
		if !late.Unprocessed() || near.Unprocessed() {
			t.Errorf("unprocessed: %v and %v, want only the late one", late.Unprocessed(), near.Unprocessed())
		}
		w.write(near, "goes on")
		w.expect(far, "goes on")
		if _, err := w.client.OpenStream(); !errors.Is(err, mux.ErrDraining) {
			t.Errorf("OpenStream = %v, want %v", err, mux.ErrDraining)
		}
		_ = far.Close()
		synctest.Wait()
		w.expectError(near, io.EOF)
		if !errors.Is(w.clientErr, mux.ErrDraining) {
			t.Errorf("the draining session has not ended: %v", w.clientErr)
		}
	})
}
