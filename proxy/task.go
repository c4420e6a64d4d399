package proxy

import "github.com/valyala/fasthttp"

// Task is a part of a request that may go on after its handler has returned, in a
// goroutine of its own. The request counts as running until it has ended. The zero
// Task, of a request that this package does not run, does nothing.
type Task struct {
	conn *handlerConn
	slot *slot
	run  uint32 // its number
}

// Begin counts a part of the request, from its handler or from a Task of it that has
// not ended.
func Begin(ctx *fasthttp.RequestCtx) Task {
	w, ok := ctx.Conn().(*wire)
	if !ok {
		return Task{}
	}
	w.runningTasks.Add(1)
	w.tasks.Add(1)
	return w.task()
}

// Outlived reports whether the request of a handler, or of a Task that has not ended,
// runs on though it should have been cut by now (Options.LeaseExpired). Then it is cut.
func LeaseExpired(ctx *fasthttp.RequestCtx) bool {
	w, ok := ctx.Conn().(*wire)
	return ok && w.task().LeaseExpired()
}

// Outlived is as the function. It may be asked after the Task has ended, and cuts nothing
// but its own request.
func (k Task) LeaseExpired() bool {
	if k.conn == nil || k.conn.s.o.LeaseExpired == nil || !k.conn.s.o.LeaseExpired() {
		return false
	}
	k.conn.s.cancelIn(k.slot, run{number: k.run}, causeLease)
	return true
}

// task is the present run.
func (t *handlerConn) task() Task { return Task{t, t.p.slot, t.runNumber} }

// End ends it, once. Nothing that belongs to the request may be used after that.
func (k Task) End() {
	if k.conn == nil {
		return
	}
	k.conn.runningTasks.Add(-1)
	k.conn.tasks.Done()
}

// Break tells, before End, that it could not finish what it was to write of the
// answer: the client gets 500, or its connection is cut.
func (k Task) Fail() {
	if k.conn != nil {
		k.conn.taskFailed.Store(true)
	}
}

// Panicked is Break for a panic with v, which it logs with the stack of the caller.
func (k Task) Panicked(v any) {
	if k.conn == nil {
		return
	}
	k.conn.s.appPanicked(v)
	k.Fail()
}
