package inproc

import (
	"github.com/valyala/fasthttp"

	"shardway/proxy/cause"
	"shardway/proxy/inflight"
)

// Task is a part of a request that may continue in its own goroutine after the handler has
// returned. The request is treated as running until the Task has ended. The zero Task belongs to a
// request that this package does not run, and does nothing.
type Task struct {
	conn *Conn
	slot *inflight.Slot
	run  uint32 // number of the run
}

// Begin begins a Task. The caller is the handler of the request, or a Task of it that has not
// ended.
func Begin(ctx *fasthttp.RequestCtx) Task {
	conn, ok := ctx.Conn().(*fasthttpConn)
	if !ok {
		return Task{}
	}
	conn.runningTasks.Add(1)
	conn.tasks.Add(1)
	return conn.task()
}

// LeaseExpired reports whether the request should already have been cancelled because the lease
// expired (see App.LeaseExpired), and if so cancels it. The caller is the handler or a Task that
// has not ended.
func LeaseExpired(ctx *fasthttp.RequestCtx) bool {
	conn, ok := ctx.Conn().(*fasthttpConn)
	return ok && conn.task().LeaseExpired()
}

// LeaseExpired is like the function LeaseExpired. It may be called after the Task has ended, and
// cancels only the Task's own request.
func (task Task) LeaseExpired() bool {
	if task.conn == nil {
		return false
	}
	app := task.conn.app
	isExpired := app.LeaseExpired != nil && app.LeaseExpired()
	if isExpired {
		app.Cancel(task.slot, inflight.Run{Number: task.run}, cause.Lease)
	}
	return isExpired
}

// task returns a Task of the current run.
func (conn *Conn) task() Task { return Task{conn, conn.call.Slot, conn.runNumber} }

// End ends the Task. It must be called once. Nothing that belongs to the request may be used after
// that.
func (task Task) End() {
	if task.conn == nil {
		return
	}
	task.conn.runningTasks.Add(-1)
	task.conn.tasks.Done()
}

// Fail reports, before End, that the Task could not finish its part of the response. The client
// gets 500, or its connection is aborted.
func (task Task) Fail() {
	if task.conn != nil {
		task.conn.taskFailed.Store(true)
	}
}

// Panicked is Fail for a panic with the given value. It logs the value and the stack of the caller.
func (task Task) Panicked(value any) {
	if task.conn == nil {
		return
	}
	task.conn.app.logPanic(value)
	task.Fail()
}
