package mux_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"shardway/peer/mux"
)

// world is a trunk with both its ends, in a bubble.
type world struct {
	t           *testing.T
	near, far   *mux.Trunk
	given       chan *mux.Lane
	nearE, farE error // what Run has returned
}

// inWorld runs f in a bubble, and ends the trunk after it.
func inWorld(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		w := &world{t: t, given: make(chan *mux.Lane, 2*mux.MaxLanes)}
		w.near, w.far = mux.Dialed(a, mux.NewBudget(mux.MaxLanes, nil)), mux.Accepted(b, mux.NewBudget(mux.MaxLanes, nil), func(l *mux.Lane) bool { w.given <- l; return true })
		var runs sync.WaitGroup
		runs.Go(func() { w.nearE = w.near.Run() })
		runs.Go(func() { w.farE = w.far.Run() })
		defer runs.Wait()
		defer w.far.Fail(errOver)
		defer w.near.Fail(errOver)
		f(w)
	})
}

var errOver = errors.New("the test is over")

// lane opens one and returns its ends. The other end learns of it with the first bytes,
// which are one.
func (w *world) lane() (near, far *mux.Lane) {
	w.t.Helper()
	near, err := w.near.Open()
	if err != nil {
		w.t.Fatal(err)
	}
	w.say(near, "!")
	far = <-w.given
	w.hear(far, "!")
	return near, far
}

func (w *world) say(l *mux.Lane, text string) {
	w.t.Helper()
	if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
		w.t.Fatalf("Write = %d, %v, want %d", n, err, len(text))
	}
}

func (w *world) hear(l *mux.Lane, want string) {
	w.t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(l, got); err != nil || string(got) != want {
		w.t.Fatalf("read %q, %v, want %q", got, err, want)
	}
}

// ends wants the lane's reader to meet err next.
func (w *world) ends(l *mux.Lane, want error) {
	w.t.Helper()
	if n, err := l.Read(make([]byte, 1)); n != 0 || !errors.Is(err, want) {
		w.t.Fatalf("Read = %d, %v, want %v", n, err, want)
	}
}
