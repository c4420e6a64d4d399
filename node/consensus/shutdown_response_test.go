package consensus_test

import (
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// At its shutdown, the library drops requests that its FSM goroutine has not reached yet. Callers that wait for them must return all the
// same; otherwise a bubble never ends. (One of several hundred storms did not end, because of one barrier.)
func TestRequestsThatTheLibraryForgetsEnd(t *testing.T) {
	bubble(t, []string{"a"}, nil, func(g *group) {
		a := g.all[0]
		release := a.fsm.hold()
		time.AfterFunc(time.Second, release) // after the shutdown has begun
		go func() { _ = a.Apply([]byte("x")) }()
		for range 50 {
			go func() { _ = a.Barrier() }()
			synctest.Wait() // so that they are queued separately
		}
		a.stop()
	})
}

// The library answers none of the futures that its FSM goroutine has not reached at the shutdown. core.answer works around this.
func TestCanaryFuturesThatTheFSMWasStillToComeTo(t *testing.T) {
	canary(t, "a", nil, func(t cage) {
		a := t.all["a"]
		for a.State() != raft.Leader {
			time.Sleep(10 * time.Millisecond)
		}
		a.held = make(chan struct{})
		a.Raft.Apply([]byte("x"), 0)
		var waiting atomic.Int32
		over := make(chan struct{}) // so that the bubble can end
		for range 50 {
			f := a.Barrier(0)
			reflect.ValueOf(f).Elem().FieldByName("ShutdownCh").Set(reflect.ValueOf(over))
			waiting.Add(1)
			go func() {
				defer waiting.Add(-1)
				_ = f.Error()
			}()
			synctest.Wait()
		}
		ended := a.Shutdown()
		close(a.held)
		if err := ended.Error(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if waiting.Load() == 0 {
			t.Error("the library answers all that it was asked as it ends")
		}
		close(over)
	})
}
