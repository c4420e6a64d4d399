package proxy

import (
	"errors"
	"os"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/cause"
	"shardway/proxy/eventloop"
	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// A request goes through these steps:
//
//	client         readRequest, handleRequest
//	router         the loop routeUntilAnswered (serveAsOwner for a forwarded request),
//	               attemptByTable, attemptLocal or attemptRemote
//	attemptRunner  runAttempt: sendRequest, awaitResponse, processResponse
//	client         prepareNext
//
// Each attempt returns a decision, and only the two loops act on it. The retrier decides about
// attempts without a response. The attemptRunner does not call the router, and the router does not
// call the client. The helper types keys, wait, requestWriter, reply, relay and handlerConn call
// none of them.
//
// Two kinds of requests do not stay within these functions:
//
//   - A resumable WebSocket leaves this call tree while it has an upstream connection (conn_goroutines.go).
//   - The event loop executes the same steps for small requests of many connections
//     (event_loop_request.go). serveRequests continues where the event loop has stopped.

// serve handles the requests of the connection one after the other. It returns when the connection
// has ended, or when a resumable WebSocket has an upstream connection.
func (c *client) serve() {
	c.server.conns.Add(c)
	c.runStep(func() {
		if c.server.lifecycle.IsAborted() || c.life.ParentCtx.Err() != nil {
			c.terminate(cause.Shutdown) // the shutdown has already closed the older connections, and has not seen this one
		}
		c.serveRequests()
	})
}

// serveRequests handles one request after the other. It starts at the step where an event loop has
// handed the client off.
func (c *client) serveRequests() {
	for {
		if c.loopClient.ResumeAt == eventloop.ResumeNext && !c.readRequest() {
			return
		}
		resumeAt := c.loopClient.ResumeAt
		c.loopClient.ResumeAt = eventloop.ResumeNext
		switch resumeAt {
		case eventloop.ResumeNext, eventloop.ResumeRequest:
			c.handleRequest()
		case eventloop.ResumeResponse, eventloop.ResumeDecision, eventloop.ResumeUnsent:
			c.resumeExchange(resumeAt)
		case eventloop.ResumeFinish:
		}
		if c.hasRelay() {
			c.startRelay()
			return
		}
		if c.reportStopped() || !c.prepareNext() {
			return
		}
	}
}

// readRequest reads the next request header. It returns false if this goroutine has no further
// request to serve: the connection ends, is parked, or is handed to an event loop.
func (c *client) readRequest() bool {
	c.conn.ReleaseEmptyBuffers()
	if c.idle.start.Load() == 0 { // otherwise it has been idle in an event loop
		c.idle.start.Store(int64(c.server.clock.Now()))
	}
	if c.joinLoop() {
		return false
	}
	if c.idle.parkRequested.Swap(false) && c.parkConn() {
		return false
	}
	err := c.conn.ReadRequestAfter(c.idleSince(), &c.req)
	for err == h1.ErrParkRequested { //nolint:errorlint // never wrapped
		if c.parkConn() {
			return false
		}
		err = c.conn.ReadRequest(&c.req)
	}
	c.idle.start.Store(0)
	c.useSettings(c.server.settings.Load())
	if err != nil {
		c.exchange = exchange{}
		c.rejectUnread(err)
		return false
	}
	return true
}

// rejectUnread handles the error of reading a request header. It sends a response if the client or
// the other node has sent a part of a request. A connection that has just ended needs none.
func (c *client) rejectUnread(err error) {
	var malformed *h1.Error
	arrivedInPart := len(c.conn.Buffered()) > 0
	switch {
	case errors.As(err, &malformed):
		c.reply.rejectRequest(malformed)
	case errors.Is(err, os.ErrDeadlineExceeded) && arrivedInPart:
		c.reply.rejectLateHeader()
	case errors.Is(err, h1.ErrStopped) && c.ingress != "":
		c.reply.reportStopped(false) // the other node may already have sent a request
		return
	default:
		return
	}
	accessLine{&c.requestState, &c.keys}.writeInvalid()
	c.conn.CloseLinger(h1.PartOfRequest)
}

// idleSince returns when the last request ended, if the connection has been idle since then. The
// zero time means that the caller must read the clock.
func (c *client) idleSince() time.Time {
	if c.exchange.endedAt == 0 {
		return time.Time{}
	}
	return c.server.clock.SystemTime(c.exchange.endedAt)
}

// beginExchange initializes the state of the request that has been read.
func (c *client) beginExchange() {
	safety := safetyOf(c.req.Method())
	if c.exchange.startedAt != 0 && !c.carriedRequest.Load() {
		c.carriedRequest.Store(true)
	}
	c.keys.FirstMessage = nil
	c.exchange = exchange{
		safety:       safety,
		methodIsSafe: safety == safeMethod,
		keepAlive:    c.req.KeepAlive() && !c.isDraining(),
		startedAt:    c.server.clock.Exact(),
	}
	if c.firstByteTimeout.Load() != 0 {
		c.firstByteTimeout.Store(0)
	}
	c.startTotalTimeout()
	if c.longPollStart.Load() != 0 {
		c.longPollStart.Store(0)
	}
	if c.writesAccessLog() {
		c.exchange.account.Open(c.traffic())
	}
	c.body.Reset()
}

// handleRequest runs the request that has been read and sends the response.
func (c *client) handleRequest() {
	c.beginExchange()
	defer c.finishExchange()
	c.server.budget.Earn()
	if c.limitBody() {
		c.reply.sendProblem(&problem.Problem{Code: problem.TooLarge, Detail: "the request body exceeds the limit (--max-body)"})
		return
	}
	if c.ingress != "" {
		c.handleForwarded()
		return
	}
	if c.reply.respondToProbe() || c.refuseHookPath() {
		return
	}
	if !c.findKey() {
		return
	}
	if c.exchange.service != "" && c.exchange.accepted == nil { // before, the settings of the service were unknown
		c.startTotalTimeout()
	}
	if err := c.body.BufferSmallBody(c.exchange.ingressHoldsBody, c.settings.MaxBodyTotal); err != nil {
		c.reply.rejectBody(err)
		return
	}
	if !c.exchange.Keyless {
		c.exchange.sample = c.server.load.Sample(c.exchange.Key)
		c.createSession()
	}
	c.router.routeUntilAnswered(c.router.attemptByCurrentTable())
	c.exchange.finishQueueing()
	c.resumer.runNextRelays()
	c.finishAccepted()
}

// findKey finds the key of the request. If the request has no valid key, findKey responds and returns
// false.
func (c *client) findKey() bool {
	c.exchange.keys = c.keysBy(c.server.options.Cluster.Table())
	found, invalid, err := c.router.findKey(c.exchange.keys)
	if found.AwaitsMessage {
		return c.findKeyInMessage(found.Protocols)
	}
	c.exchange.Found, c.exchange.service = found, c.keys.Service()
	switch {
	case err != nil:
		c.reply.rejectBody(err)
		return false
	case invalid != nil:
		c.reply.sendProblem(invalid)
		return false
	}
	return true
}

// finishExchange records metrics and writes the access log of a request that has ended.
func (c *client) finishExchange() {
	if c.hasRelay() {
		return // the request continues as a WebSocket
	}
	c.logDroppedTrailers(&c.req.Body, "request")
	if c.exchange.session != nil {
		c.session.Store(nil)
		c.exchange.session.ReleaseReplay()
	}
	if c.writesAccessLog() {
		accessLine{&c.requestState, &c.keys}.write()
	}
	c.exchange.observeEnd(c.server.metrics, c.exchange.elapsed(&c.server.clock.Clock))
}

// handleForwarded serves a request that another node has forwarded, or refuses it. It never
// forwards the request again (guarantee G8). A request waits here for up to ownerWait only, because
// requests wait in the queue of their ingress.
//
// There is one exception: a request whose shard the app is acquiring waits here, so that it can run
// as soon as the shard is acquired. It also stops waiting when the next map is proposed or the
// lease ends.
func (c *client) handleForwarded() {
	committed, proposed, ok := c.readForwarded()
	c.exchange.senderEpoch = committed
	if !ok {
		c.reply.sendProblem(&problem.Problem{Code: problem.Misrouted, Detail: "not a forwarded request"})
		c.exchange.keepAlive = false
		return
	}
	if c.refuseHookPath() {
		return
	}
	if refusal := c.awaitEpochsOfIngress(committed, proposed); refusal != 0 {
		c.reply.refuse(refusal)
		return
	}
	table := c.server.options.Cluster.Table()
	if refusal := c.exchange.resolveForwarded(table); refusal != 0 {
		c.reply.refuse(refusal)
		return
	}
	c.router.serveAsOwner(table)
	c.exchange.finishQueueing()
}

// awaitEpochsOfIngress waits for a short time until this node has applied the epochs of the map that
// the ingress has used. It returns why the request must be refused, or zero if the epochs have been
// applied.
//
// Without a lease, waiting is useless. If the disk of a node hangs, its log may be behind for
// seconds. If another node took the shard over in the meantime, the ingress would regard a waiting
// request as sent to the app.
func (c *client) awaitEpochsOfIngress(committed, proposed uint64) route.Refusal {
	table := c.server.options.Cluster.Table()
	isBehind := committed > table.Committed() || proposed > table.Proposed()
	switch {
	case !isBehind:
		return 0
	case c.server.options.Cluster.LeaseLeft() <= 0:
		return route.RefusedNoLease
	case !c.wait.catchUp(committed, proposed):
		return route.RefusedQueued
	}
	return 0
}

// prepareNext reads the rest of the request body, so that the connection can carry another request.
// If that is not possible, it closes the connection and returns false. The client can still read
// its response then.
func (c *client) prepareNext() bool {
	c.body.ReleaseBuffer()
	bodyWillNotFollow := c.exchange.ingressHoldsBody && !c.exchange.acceptanceSent // the ingress holds it back
	if bodyWillNotFollow {
		return c.exchange.keepAlive
	}
	if c.exchange.connAborted {
		return false
	}
	if !c.req.Body.Done() {
		c.exchange.endedAt = 0 // reading the rest of the body may take time, so this time is outdated
	}
	if c.exchange.keepAlive && c.drainBody() {
		return true
	}
	switch {
	case c.isLastRequest():
		c.conn.CloseLast()
	case c.req.Body.Done():
		c.conn.CloseLinger(h1.WholeRequest)
	default:
		c.conn.CloseLinger(h1.PartOfRequest)
	}
	return false
}

// drainBody reads and discards the rest of the request body, if that is worthwhile. It reports
// whether the connection can be kept.
func (c *client) drainBody() bool {
	body := &c.req.Body
	if body.Done() {
		return true
	}
	if !c.reply.canDrainBody() {
		return false
	}
	timeouts := c.conn.Timeouts()
	shortTimeouts := timeouts // the minimum rate still applies
	shortTimeouts.Body = min(timeouts.Body, time.Second)
	c.conn.SetTimeouts(shortTimeouts)
	err := body.Drain(drainLimit)
	c.conn.SetTimeouts(timeouts)
	return err == nil
}
