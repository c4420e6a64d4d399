package queue_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/queue"
)

// door is a gate.
type door struct{ open atomic.Bool }

// Ready reports whether it is open.
func (d *door) Ready() bool { return d.open.Load() }

// waitingAt is waiting, at a gate.
func waitingAt(tk *queue.Ticket, d *door) <-chan error {
	result := make(chan error, 1)
	go func() { result <- tk.WaitFor(nil, 0, 0, d) }()
	synctest.Wait()
	return result
}

func TestWhoWaitsAtAGateGoesOnWhenItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Wait: hour})
		var one, two door
		a, b := waitingAt(enter(t, r, 1, 0), &one), waitingAt(enter(t, r, 1, 0), &one)
		c, d := waitingAt(enter(t, r, 1, 0), &two), waitingAt(enter(t, r, 1, 0), &two)
		nowhere := waiting(enter(t, r, 1, 0), nil, 0, 0)
		r.WakeAll(&one)
		returned(t, "first at the gate", a, nil)
		returned(t, "second at the gate", b, nil)
		pending(t, "at another gate", c)
		if !r.WakeOne(&two) {
			t.Error("nobody was there")
		}
		returned(t, "first at the other gate", c, nil)
		pending(t, "second at the other gate", d)
		if !r.WakeOne(&two) || r.WakeOne(&two) {
			t.Error("somebody is there when two have gone, or nobody before")
		}
		returned(t, "second at the other gate", d, nil)
		pending(t, "at no gate", nowhere)
		r.Wake(1)
		returned(t, "at no gate", nowhere, nil)
	})
}

// A gate that is passable tells nobody of it who comes then; and it is no way around the time
// that a request may wait.
func TestAPassableGateIsPassedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{Wait: time.Second})
		tk := enter(t, r, 1, 0)
		var d door
		d.open.Store(true)
		returned(t, "in time", waitingAt(tk, &d), nil)
		time.Sleep(time.Second)
		returned(t, "when the time is over", waitingAt(tk, &d), queue.ErrTimeout)
	})
}

// What sends a ticket on as its timer ends must not send it on once more.
func TestWakeAtTheEndOfABackOffIsTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 { // which of the two comes first is up to the scheduler
			r := queue.New(queue.Options{Wait: hour})
			tk := enter(t, r, 1, 0)
			first := waiting(tk, nil, 0, time.Second)
			time.Sleep(time.Second)
			r.Wake(1)
			returned(t, "awakened", first, nil)
			second := waiting(tk, nil, 1, 0)
			pending(t, "waits for the next table", second)
			r.Wake(2)
			returned(t, "awakened again", second, nil)
			tk.Leave()
		}
	})
}

func TestWhoLeavesAtTheDeadlineDoesNotGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 { // as above
			r := queue.New(queue.Options{Wait: time.Second})
			tk := enter(t, r, 1, 0)
			result := waiting(tk, nil, 0, 0)
			time.Sleep(time.Second)
			tk.Leave()
			synctest.Wait()
			if err := <-result; !errors.Is(err, queue.ErrCanceled) && !errors.Is(err, queue.ErrTimeout) {
				t.Fatalf("Wait = %v, want ErrCanceled or ErrTimeout", err)
			}
		}
	})
}

// Whose client has gone before it waits counts as gone.
func TestWhoWasGoneBeforeItWaitedCountsAsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := queue.New(queue.Options{})
		tk := enter(t, r, 1, 0)
		done := make(chan struct{})
		close(done)
		returned(t, "client gone", waiting(tk, done, 0, 0), queue.ErrCanceled)
		tk.Leave()
		if st := balanced(t, r); st.Canceled != 1 {
			t.Errorf("%+v, want one gone", st)
		}
	})
}
