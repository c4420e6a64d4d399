package mux_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"shardway/peer/mux"
)

// What is on its way as the other end takes no more has not been read: it may go elsewhere.
// What was taken goes on to its end.
func TestWhatComesAfterTheLastIsNotTaken(t *testing.T) {
	withSessionPair(t, func(w *sessionPair) {
		near, far := w.openStream()
		late, err := w.client.OpenStream()
		if err != nil {
			t.Fatal(err)
		}
		w.server.GoAway(time.Minute)
		if n := len(w.accepted); n != 0 {
			t.Fatalf("%d lanes were given", n)
		}
		_, _ = late.Write([]byte("x")) // too late to be refused, or refused
		w.expectError(late, mux.ErrUnprocessed)
		if !late.Unprocessed() || near.Unprocessed() {
			t.Errorf("untaken: %v and %v, want the late one alone", late.Unprocessed(), near.Unprocessed())
		}
		w.write(near, "goes on")
		w.expect(far, "goes on")
		if _, err := w.client.OpenStream(); !errors.Is(err, mux.ErrDraining) {
			t.Errorf("Open = %v, want %v", err, mux.ErrDraining)
		}
		_ = far.Close()
		synctest.Wait()
		w.expectError(near, io.EOF)
		if !errors.Is(w.clientErr, mux.ErrDraining) {
			t.Errorf("the trunk goes on without a lane: %v", w.clientErr)
		}
	})
}
