package consensus

import (
	"reflect"
	"sync"

	"github.com/hashicorp/raft"
)

// await returns the result of a request to this instance. If the instance ends, it returns an
// error.
//
// At shutdown the Raft library (v1.7.3) responds to most requests, but not to those in the queue of its
// FSM goroutine. A caller would wait forever, even if another instance has started by then. The
// futures support a shutdown channel (deferError.ShutdownCh), but the Raft library uses it only for
// snapshots and restores. The type is not exported, but the field is.
func (inst *instance) await(f raft.Future) error {
	if v := reflect.Indirect(reflect.ValueOf(f)); v.Kind() == reflect.Struct {
		if end := v.FieldByName("ShutdownCh"); end.IsValid() && end.IsNil() && end.CanSet() {
			end.Set(reflect.ValueOf(inst.ended.ch))
		}
	}
	return f.Error()
}

// onceChan is a channel that can be closed repeatedly.
type onceChan struct {
	ch    chan struct{}
	close func()
}

// newOnceChan returns an open onceChan.
func newOnceChan() onceChan {
	c := make(chan struct{})
	return onceChan{c, sync.OnceFunc(func() { close(c) })}
}
