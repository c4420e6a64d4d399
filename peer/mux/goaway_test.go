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
	inWorld(t, func(w *world) {
		near, far := w.lane()
		late, err := w.near.Open()
		if err != nil {
			t.Fatal(err)
		}
		w.far.Last(time.Minute)
		if n := len(w.given); n != 0 {
			t.Fatalf("%d lanes were given", n)
		}
		_, _ = late.Write([]byte("x")) // too late to be refused, or refused
		w.ends(late, mux.ErrNotTaken)
		if !late.Untaken() || near.Untaken() {
			t.Errorf("untaken: %v and %v, want the late one alone", late.Untaken(), near.Untaken())
		}
		w.say(near, "goes on")
		w.hear(far, "goes on")
		if _, err := w.near.Open(); !errors.Is(err, mux.ErrRetired) {
			t.Errorf("Open = %v, want %v", err, mux.ErrRetired)
		}
		_ = far.Close()
		synctest.Wait()
		w.ends(near, io.EOF)
		if !errors.Is(w.nearE, mux.ErrRetired) {
			t.Errorf("the trunk goes on without a lane: %v", w.nearE)
		}
	})
}
