package queue_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"shardway/queue"
)

// condition implements queue.Condition.
type condition struct{ open atomic.Bool }

// Ready reports whether the condition is met.
func (d *condition) Ready() bool { return d.open.Load() }

// startWaitFor is like startWait, but also waits for a condition.
func startWaitFor(tk *queue.Ticket, seen uint64, d *condition) <-chan error {
	result := make(chan error, 1)
	go func() { result <- tk.WaitFor(nil, seen, 0, d) }()
	synctest.Wait()
	return result
}

func TestWakeAllAndWakeOneEndWaitsForTheCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Wait: hour})
		var one, two condition
		a, b := startWaitFor(enter(t, q, 1, 0), 0, &one), startWaitFor(enter(t, q, 1, 0), 0, &one)
		c, d := startWaitFor(enter(t, q, 1, 0), 0, &two), startWaitFor(enter(t, q, 1, 0), 0, &two)
		nowhere := startWait(enter(t, q, 1, 0), nil, 0, 0)
		q.WakeAll(&one)
		checkReturned(t, "first for condition one", a, nil)
		checkReturned(t, "second for condition one", b, nil)
		checkBlocked(t, "first for condition two", c)
		if !q.WakeOne(&two) {
			t.Error("WakeOne(two) = false, want true")
		}
		checkReturned(t, "first for condition two", c, nil)
		checkBlocked(t, "second for condition two", d)
		if !q.WakeOne(&two) || q.WakeOne(&two) {
			t.Error("WakeOne(two) does not match the number of waiters")
		}
		checkReturned(t, "second for condition two", d, nil)
		checkBlocked(t, "without a condition", nowhere)
		q.Wake(1)
		checkReturned(t, "without a condition", nowhere, nil)
	})
}

// No WakeAll or WakeOne follows for a condition that is already ready when the wait starts. A ready
// condition must not extend the deadline of the request.
func TestReadyConditionEndsWaitAtOnceBeforeDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{Wait: time.Second})
		tk := enter(t, q, 1, 0)
		var d condition
		d.open.Store(true)
		checkReturned(t, "before the deadline", startWaitFor(tk, 0, &d), nil)
		time.Sleep(time.Second)
		checkReturned(t, "at the deadline", startWaitFor(tk, 0, &d), queue.ErrTimeout)
	})
}

// A wake-up that coincides with the end of the back-off must not end the next wait, too.
func TestWakeAtEndOfBackOffIsDeliveredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 { // the scheduler decides which of the two events comes first
			q := queue.New(queue.Options{Wait: hour})
			tk := enter(t, q, 1, 0)
			first := startWait(tk, nil, 0, time.Second)
			time.Sleep(time.Second)
			q.Wake(1)
			checkReturned(t, "first wake-up", first, nil)
			second := startWait(tk, nil, 1, 0)
			checkBlocked(t, "wait for the next table", second)
			q.Wake(2)
			checkReturned(t, "second wake-up", second, nil)
			tk.Leave()
		}
	})
}

func TestLeaveAtDeadlineFailsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 200 { // the scheduler decides which of the two events comes first
			q := queue.New(queue.Options{Wait: time.Second})
			tk := enter(t, q, 1, 0)
			result := startWait(tk, nil, 0, 0)
			time.Sleep(time.Second)
			tk.Leave()
			synctest.Wait()
			if err := <-result; !errors.Is(err, queue.ErrCanceled) && !errors.Is(err, queue.ErrTimeout) {
				t.Fatalf("Wait = %v, want ErrCanceled or ErrTimeout", err)
			}
		}
	})
}

func TestWaitWithDisconnectedClientCountsAsCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(queue.Options{})
		tk := enter(t, q, 1, 0)
		done := make(chan struct{})
		close(done)
		checkReturned(t, "client gone", startWait(tk, done, 0, 0), queue.ErrCanceled)
		tk.Leave()
		if st := checkStats(t, q); st.Canceled != 1 {
			t.Errorf("%+v, want Canceled = 1", st)
		}
	})
}
