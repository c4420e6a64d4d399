package consensus

import (
	"reflect"
	"sync"

	"github.com/hashicorp/raft"
)

// answer returns the answer to a request of this life, which may be that it ended.
//
// The library (v1.7.3) answers most requests as it is shut down, but none of those that
// its FSM goroutine was still to come to: that one ends with what is in its queue, and
// who waits for it waits for ever, also if there is another life by then. Its futures
// can be told of an end (deferError.ShutdownCh); it does so only for snapshots and restores.
// The type is not exported, the field is.
func (c *core) answer(f raft.Future) error {
	if v := reflect.Indirect(reflect.ValueOf(f)); v.Kind() == reflect.Struct {
		if end := v.FieldByName("ShutdownCh"); end.IsValid() && end.IsNil() && end.CanSet() {
			end.Set(reflect.ValueOf(c.over.ended))
		}
	}
	return f.Error()
}

// latch closes its channel once.
type latch struct {
	ended chan struct{}
	close func()
}

func newLatch() latch {
	c := make(chan struct{})
	return latch{c, sync.OnceFunc(func() { close(c) })}
}
