package proxy

import (
	"context"

	"github.com/valyala/fasthttp"

	"shardway/internal/problem"
	"shardway/proxy/cause"
	"shardway/proxy/connpool"
	"shardway/proxy/eventrelay"
	"shardway/proxy/h1"
	"shardway/proxy/inflight"
	"shardway/proxy/inproc"
)

// Task is a part of a request that continues after the handler of the app has returned: see
// inproc.Task.
type Task = inproc.Task

// Begin begins a Task. It must be called from the handler of the request, or from a Task of the request that
// has not ended.
func Begin(ctx *fasthttp.RequestCtx) Task { return inproc.Begin(ctx) }

// LeaseExpired reports whether the request should already have been cancelled because the lease
// expired (see Options.LeaseExpired). If so, it cancels the request. It must be called from the
// handler, or from a Task of the request that has not ended.
func LeaseExpired(ctx *fasthttp.RequestCtx) bool { return inproc.LeaseExpired(ctx) }

// handlerConn is a connection to an app in this process, and the attempt that uses it. It implements
// inproc.Pipeline, so that inproc.Conn can execute the steps of the attempt.
type handlerConn struct {
	*inproc.Conn
	runner  *attemptRunner
	attempt attempt // a copy, so that the attempt of the caller stays on the stack
}

// handlerDialer returns the function that makes connections to the app in this process.
func (s *Server) handlerDialer() func(context.Context) (*connpool.Conn, error) {
	app := &inproc.App{
		Handler: s.options.Handler, StreamBodies: s.options.HandlerStreams, Log: s.options.Log,
		LeaseExpired: s.options.LeaseExpired,
		Cancel: func(slot *inflight.Slot, run inflight.Run, cancelCause cause.Cause) {
			cancelRun(slot, run, cancelCause, s.metrics)
		},
		StreamBuffers: &s.bodies.Buffers, StreamBufferSize: s.options.BodyBuffer,
	}
	return func(context.Context) (*connpool.Conn, error) {
		conn := &connpool.Conn{InProcess: true, Checkable: true} // checkable without a socket, because it only ends by Close
		conn.Conn = h1.NewConn(&handlerConn{Conn: inproc.NewConn(app)}, h1.Options{Buffers: &s.buffers})
		return conn, nil
	}
}

// runInHandler runs an attempt in this process's app and sends the response.
func (runner *attemptRunner) runInHandler(attempt *attempt) decision {
	attempt.conn.Pool.MarkProven(attempt.conn)
	writer := runner.requestWriter.writeHeader(attempt)
	if _, err := runner.remainingLease(); err != nil {
		return runner.retrier.decideAfterSendFailure(attempt, err)
	}
	if runner.exchange.ingressNeedsAcceptance {
		if err := runner.reply.sendAccepted(); err != nil {
			return runner.retrier.decideAfterBreak(attempt, err)
		}
	}
	hc, _ := attempt.conn.NetConn().(*handlerConn) // inProcess is set
	hc.runner, hc.attempt = runner, *attempt
	result := hc.Serve(&inproc.Call{
		Request: &runner.req, Client: runner.inbound, IsForwarded: runner.ingress != "", Body: &runner.body, Response: &attempt.conn.Response,
		Slot: attempt.slot, Disconnect: attempt.disconnect,
		MaxBody: runner.settings.MaxBody, MaxBodyTotal: runner.settings.MaxBodyTotal, MaxHeaders: runner.settings.MaxHeaders,
		Pipeline: hc,
	}, writer.Unsent())
	switch result.Outcome {
	case inproc.OutcomeUnread:
		attempt.abort()
		return fail(problem.BadRequest, "the app's server cannot read the request")
	case inproc.OutcomeNotCalled:
		return runner.retrier.decideAfterSendFailure(attempt, errCutFirst)
	case inproc.OutcomeRejected:
		return runner.retrier.decideAfterNamedKey(attempt)
	case inproc.OutcomeNoResponse:
		return runner.retrier.decideAfterBreak(attempt, nil)
	case inproc.OutcomeFailed:
		attempt.abort()
		runner.exchange.runAborted = true // the app may have executed the request
		return fail(problem.AppFailed, result.Failure)
	case inproc.OutcomeTruncated:
		runner.reply.truncateResponse(attempt, result.Err)
	case inproc.OutcomeResponded:
		runner.finishInHandler(attempt, writer, result)
	}
	return done
}

// finishInHandler returns the connection of an attempt to its pool after the app has responded and
// the run has ended.
func (runner *attemptRunner) finishInHandler(attempt *attempt, writer *h1.Writer, result inproc.Result) {
	if result.Err != nil {
		runner.exchange.connAborted = true
	}
	if !result.Reusable {
		attempt.conn.Pool.Discard(attempt.conn)
		return
	}
	writer.Discard()
	attempt.conn.Pool.Put(attempt.conn)
}

// RequestBody implements inproc.Pipeline.
func (hc *handlerConn) RequestBody() error { return hc.runner.reply.requestBody() }

// ResponseReady implements inproc.Pipeline.
func (hc *handlerConn) ResponseReady(res *h1.Response) {
	server := hc.runner.server
	if res.Has(h1.FieldShardwayHold) {
		hc.runner.reportHold(res, hc.attempt.epoch)
	}
	hc.runner.applyResponseRules(hc.attempt.route.Kind, res)
	server.appSilence.RecordResponse(server.clock.Now())
}

// RejectsRequest implements inproc.Pipeline.
func (hc *handlerConn) RejectsRequest(res *h1.Response) bool {
	return hc.runner.namesKey(res)
}

// BeginResponse implements inproc.Pipeline.
func (hc *handlerConn) BeginResponse(res *h1.Response) *h1.Writer {
	hc.runner.exchange.finishQueueing()
	if eventrelay.IsEvents(res) {
		hc.runner.endTotalTimeout()
		hc.runner.admission.releasePermits()
	}
	hc.runner.reply.recordResponse(res)
	return hc.runner.inbound.WriteResponseHeader(res, hc.runner.reply.editHeaders(hc.attempt.route, res))
}

// Release implements inproc.Pipeline.
func (hc *handlerConn) Release() { hc.attempt.release() }

// Abort implements inproc.Pipeline.
func (hc *handlerConn) Abort() { hc.attempt.abort() }
