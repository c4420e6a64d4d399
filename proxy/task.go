package proxy

import "github.com/valyala/fasthttp"

// Task is a part of a request that may continue in its own goroutine after the handler has
// returned. The request counts as running until the Task has ended. The zero Task, of a request
// that this package does not run, does nothing.
type Task struct {
	conn *handlerConn
	slot *slot
	run  uint32 // number of the run
}

// Begin begins a Task. The caller is the handler of the request, or a Task of it that has not
// ended.
func Begin(ctx *fasthttp.RequestCtx) Task {
	w, ok := ctx.Conn().(*wire)
	if !ok {
		return Task{}
	}
	w.runningTasks.Add(1)
	w.tasks.Add(1)
	return w.task()
}

// LeaseExpired reports whether a request still runs that should have been cancelled by now: see
// Options.LeaseExpired. In that case it cancels the request. The caller is the handler or a Task
// that has not ended.
func LeaseExpired(ctx *fasthttp.RequestCtx) bool {
	w, ok := ctx.Conn().(*wire)
	return ok && w.task().LeaseExpired()
}

// LeaseExpired is the function LeaseExpired for a Task. It may be called after the Task has ended,
// and cancels its own request only.
func (k Task) LeaseExpired() bool {
	if k.conn == nil || k.conn.s.options.LeaseExpired == nil || !k.conn.s.options.LeaseExpired() {
		return false
	}
	k.conn.s.cancelIn(k.slot, run{number: k.run}, causeLease)
	return true
}

// task returns a Task of the present run.
func (t *handlerConn) task() Task { return Task{t, t.p.slot, t.runNumber} }

// End ends the Task. It must be called once. Nothing that belongs to the request may be used after
// that.
func (k Task) End() {
	if k.conn == nil {
		return
	}
	k.conn.runningTasks.Add(-1)
	k.conn.tasks.Done()
}

// Fail reports, before End, that the Task could not finish its part of the response. The client
// gets 500, or its connection is aborted.
func (k Task) Fail() {
	if k.conn != nil {
		k.conn.taskFailed.Store(true)
	}
}

// Panicked is Fail for a panic with value v. It logs v and the stack of the caller.
func (k Task) Panicked(v any) {
	if k.conn == nil {
		return
	}
	k.conn.s.appPanicked(v)
	k.Fail()
}
