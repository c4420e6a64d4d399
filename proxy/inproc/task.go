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
	// slot and runNumber identify the request. They are copies, because conn and slot serve other
	// requests after this one.
	slot      *inflight.Slot
	runNumber uint32
}

// Begin begins a Task. It must be called from the handler of the request, or from a Task of the
// request that has not ended. Otherwise the request may have ended, and ctx may belong to another
// request.
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
// expired (see App.LeaseExpired). If so, it cancels the request. The node also cancels requests
// itself, but can be late if the machine is busy. After the cancellation, the result remains true for
// this request, even if the node gets a new lease. LeaseExpired must be called from the handler, or
// from a Task of the request that has not ended.
func LeaseExpired(ctx *fasthttp.RequestCtx) bool {
	conn, ok := ctx.Conn().(*fasthttpConn)
	return ok && conn.task().LeaseExpired()
}

// LeaseExpired does the same as the function LeaseExpired for the request of task. It may also be called
// after the Task has ended: it then cancels no later request on the same connection.
func (task Task) LeaseExpired() bool {
	if task.conn == nil {
		return false
	}
	app := task.conn.app
	isExpired := app.LeaseExpired != nil && app.LeaseExpired()
	if isExpired {
		app.Cancel(task.slot, inflight.Run{Number: task.runNumber}, cause.Lease)
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
