package proxy

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/rawio"
	"shardway/proxy/buffer"
	"shardway/proxy/cause"
	"shardway/proxy/connlife"
	"shardway/proxy/eventloop"
	"shardway/proxy/forwarded"
	"shardway/proxy/h1"
	"shardway/proxy/inbound"
	"shardway/proxy/inbound/http1"
	"shardway/proxy/inflight"
	"shardway/proxy/listener"
	"shardway/proxy/reqbody"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/upstream"
	"shardway/proxy/wsrelay"
)

// requestState is the state of a request and of the connection on which it arrived. The steps of a
// request and their helper types share it. A helper holds the requestState rather than the client,
// so that it cannot call the client's steps and can use the connection only through inbound.
type requestState struct {
	server     *Server
	inbound    inbound.Request
	ingress    string           // node at the other end; empty for a client
	clientAddr forwarded.Client // address of the client
	settings   *Settings        // settings in force for this request

	req      h1.Request
	exchange exchange
	body     reqbody.Body

	// headerEdit and extraLines are reused for each header that is written.
	headerEdit h1.Edit
	extraLines []byte
	routePath  []byte // memory of a decoded path; see findRoute
	// slowResponse is the key of a response in Server.largeResponses, while a response of unknown
	// duration from another node is being forwarded. It is zero if there is none, or if the
	// response already counts as slow.
	slowResponse atomic.Uint64
	// totalDeadline is the end of the TotalTimeout of the request, by the clock. Zero means no limit.
	totalDeadline atomic.Int64
	// escaped is set if other goroutines may hold a reference to the client that they did not get
	// from Server.conns. The client's memory is then not reused.
	escaped bool
}

// isDraining reports whether the connection must close after its current response because the node is
// leaving. Connections from other nodes stay open, because those nodes stop sending when the shard
// map changes.
func (state *requestState) isDraining() bool {
	return state.ingress == "" && state.server.lifecycle.IsDraining()
}

// writesAccessLog reports whether a line for the request is written to the access log.
func (state *requestState) writesAccessLog() bool {
	return state.settings.Access != nil && state.ingress == ""
}

// limitBody limits the request body to Settings.MaxBody, so that reading fails beyond this limit. It
// returns true if the declared length of the body already exceeds the limit.
func (state *requestState) limitBody() (isTooLong bool) {
	hasLimit := state.settings.MaxBody > 0
	return hasLimit && state.req.Body.SetMaxBytes(state.settings.MaxBody) != nil
}

// traffic returns the number of bytes that the client has sent and received so far on its connection.
// sent includes bytes that are still buffered. Only the differences matter.
func (state *requestState) traffic() (received, sent int64) {
	return state.inbound.Received(), state.inbound.Sent() + int64(state.inbound.Writer().Pending())
}

// upgradeConn returns the connection of a request that switches to another protocol. The request must
// implement inbound.Upgrader. This is always true for such a request, because the header of any other
// request must not contain Upgrade.
func (state *requestState) upgradeConn() *h1.Conn {
	upgrader, _ := state.inbound.(inbound.Upgrader)
	return upgrader.UpgradeConn()
}

// isLastRequest reports whether the client has declared that this request is its last one, and the body has
// been read completely.
func (state *requestState) isLastRequest() bool {
	return !state.req.KeepAlive() && state.req.Body.Done() && !state.body.Unreadable
}

// connState is the part of a client that starts from zero for each connection. The other fields keep
// allocated memory, or are set for each connection or request.
type connState struct {
	life connlife.Lifetime

	// Event loop.

	loopAttempt loopAttempt // the last attempt that an event loop has started

	listener *clientListener // listener that has accepted the connection; nil means that it belongs to another node
	idle     idleState

	// Long polls.

	// longPollStart is the time of the first attempt of a long poll that was retried because its
	// shard moved, by the clock of the server. Zero means none.
	longPollStart atomic.Int64
	// firstByteTimeout is the timeout of the current request's route. Zero selects the timeout of
	// the settings; negative means no limit.
	firstByteTimeout atomic.Int64
	// carriedRequest is set if the connection has carried a request before the current one. If such
	// a connection is closed without a response, clients retry safe requests.
	carriedRequest atomic.Bool

	// unobserved is set if no visit of Server.conns was in progress when the client was removed.
	unobserved bool
}

// client is a connection on which requests arrive, from a client or, if ingress is set, from
// another node. Its goroutine runs serve. Other goroutines use slot, idle, closing and disconnect.
//
// The methods of client read requests, hand the connection to an event loop or park it, and let
// other goroutines act on it. The helper types have the methods for one request: router finds the
// owner, attemptRunner runs one attempt, and retrier decides what follows a failed attempt.
type client struct {
	requestState
	connState

	// Steps of a request.

	keys          shardkey.Extractor
	wait          requestWait
	requestWriter requestWriter
	reply         reply
	relay         responseRelay
	retrier       retrier
	runner        attemptRunner
	router        router
	resumer       sessionResumer

	// Current run.

	slot       inflight.Slot
	admission  admission
	disconnect connlife.DisconnectWatch
	// session is the resumable WebSocket of the connection; it is set only at the ingress.
	session atomic.Pointer[wsrelay.Session]

	// Connection.

	conn  *h1.Conn    // nil for a client of another front
	front http1.Front // the connection as the pipeline of a request uses it
	// closing is set once another goroutine is closing the connection. No further run may begin
	// then.
	closing      atomic.Bool
	goroutines   *sync.WaitGroup    // counts the goroutines of the connection
	headerMemory buffer.Reservation // memory of a header that has been read partly

	// Event loop.

	loopClient eventloop.Client

	// Bound methods. They are bound once, because each binding allocates memory.

	leaseCheck      func() (time.Duration, error) // attemptRunner.remainingLease
	releaseAdmitted func()                        // admission.release
	onHeaderMemory  func(delta int)               // countHeaderMemory

	// State of the sweep. Only the sweeping goroutine uses it. Times are by the clock of the server.

	lastSweptRun  uint32        // number of the run at the last sweep
	runSeenAt     time.Duration // when the sweep first saw the run, or last saw its body being read
	streamRun     uint32        // number of the run that is treated as a stream
	nextPathCheck time.Duration // when to check the path to the owner again
	cancelledRun  uint32        // number of the cancelled run of a resumable stream
	cancelledAt   time.Duration // when the sweep found it cancelled
	moveSeenAt    time.Duration // when the sweep first saw that the shard has moved; zero means that it has not

	stall inflight.StallDetector // only Stalled uses it
}

// newClient returns a client for a connection. The caller must run serve. newClient may reuse the
// memory of a client whose connection has ended.
func newClient(ctx context.Context, s *Server, conn net.Conn, ingress string) *client {
	isFromClient := ingress == ""
	var c *client
	if isFromClient {
		c = s.clients.take()
	}
	if c == nil {
		c = makeClient(s)
	}
	c.ingress, c.settings = ingress, s.settings.Load()
	c.keys.TrustedProxies = c.settings.TrustedProxies
	options := clientOptions(ingress, c.settings, &s.lingering)
	options.Buffers = &s.buffers
	options.Direct = rawio.IsDirect(conn)
	if isFromClient {
		options.OnHeaderMemory = c.onHeaderMemory
		options.CloseWriteAfterIdle = true // shows another node that none of its pending requests ran
	}
	c.conn.Reset(conn, options)
	c.life = connlife.Lifetime{ParentCtx: ctx}
	if isFromClient {
		c.clientAddr.Set(conn, c.settings.TrustedProxies)
		listener.SetUserTimeout(conn, c.settings.IdleTimeout)
	}
	return c
}

// makeClient allocates a client of the HTTP/1 front without a connection, and connects its parts.
func makeClient(s *Server) *client {
	c := &client{requestState: requestState{server: s}, conn: &h1.Conn{}}
	c.front = http1.Front{Conn: c.conn, Request: &c.req}
	c.headerMemory.SetCancelReading(c.conn.StopHeader)
	c.onHeaderMemory = c.countHeaderMemory
	c.attach(&c.front)
	c.loopClient.Init(c.conn, c, c.leaseCheck)
	return c
}

// attach makes in the source of the client's requests, and connects the parts of the client that do
// not depend on the front. A client of another front has no conn and is never idle.
func (c *client) attach(in inbound.Request) {
	c.inbound, c.slot.Client = in, in
	c.disconnect.Init(in, c.onClientClosed)
	c.body.Init(&c.server.bodies, in, &c.req, c.onBodySent)
	c.releaseAdmitted = c.admission.release
	c.connectSteps()
}

// connectSteps connects the helper types with each other and with the connection's state.
func (c *client) connectSteps() {
	c.keys = shardkey.Extractor{Request: &c.req, Client: &c.clientAddr, Place: c.server.keyPlacer.Place, Codec: c.server.wrapCodec, ReportClaim: c.server.claims.report}
	c.wait = requestWait{requestState: &c.requestState, disconnect: &c.disconnect, closing: &c.closing, life: &c.life}
	c.requestWriter, c.reply = requestWriter{&c.requestState}, reply{&c.requestState}
	c.relay = responseRelay{reply: c.reply, slot: &c.slot, admission: &c.admission}
	c.relay.beforeFirstByte = c.relay.markResponseBegun
	c.retrier = retrier{
		requestState: &c.requestState, reply: c.reply, slot: &c.slot, disconnect: &c.disconnect, closing: &c.closing, longPollStart: &c.longPollStart,
	}
	c.runner = attemptRunner{
		requestState: &c.requestState, reply: c.reply, requestWriter: c.requestWriter, relay: &c.relay, retrier: &c.retrier, wait: &c.wait,
		slot: &c.slot, admission: &c.admission, disconnect: &c.disconnect, closing: &c.closing, loopClient: &c.loopClient,
	}
	c.leaseCheck = c.runner.remainingLease
	c.runner.leaseCheck = c.leaseCheck
	c.router = router{
		requestState: &c.requestState, reply: c.reply, keys: &c.keys, wait: &c.wait, runner: &c.runner, retrier: &c.retrier,
		slot: &c.slot, admission: &c.admission, closing: &c.closing, life: &c.life, releaseAdmitted: c.releaseAdmitted, createSession: c.createSession,
		firstByteTimeout: &c.firstByteTimeout,
	}
	c.resumer = sessionResumer{
		requestState: &c.requestState, router: &c.router, wait: &c.wait, relay: &c.relay, slot: &c.slot, closing: &c.closing, life: &c.life,
	}
}

// bodyRateGrace is how long the proxy waits for a request body before the minimum rate applies.
const bodyRateGrace = 10 * time.Second

// clientOptions returns the limits for a connection of a client, or for a connection from the node
// ingress. lingering limits the closed connections of the server.
func clientOptions(ingress string, settings *Settings, lingering *h1.Lingering) h1.Options {
	options := h1.Options{
		Lingering:      lingering,
		MaxHeaderBytes: settings.MaxHeaderBytes, MaxHeaderLines: settings.MaxHeaders, MaxTargetBytes: settings.MaxURI,
		Timeouts: h1.Timeouts{FirstByte: settings.IdleTimeout, Header: settings.HeaderTimeout, Body: settings.IdleTimeout, Write: settings.IdleTimeout},
	}
	options.Timeouts.MinRate, options.Timeouts.RateGrace = max(settings.MinBodyRate, 0), bodyRateGrace
	if ingress != "" {
		// The ingress enforces the rate for its client. This more generous limit only catches an
		// ingress that fails to do so.
		options.Timeouts.RateGrace += bodyRateGrace / 2
		options.Timeouts.FirstByte = 0 // the ingress decides how long its connection stays idle
		options = upstream.PeerOptions(options, &settings.upstreamLimits)
	}
	return options
}

// onClientClosed is called in another goroutine when the client has closed its sending side.
func (c *client) onClientClosed() {
	if c.closing.Load() {
		return // this node has closed the connection
	}
	c.server.metrics.ClientDisconnects.Add(1)
	c.terminate(cause.ClientGone)
}

// reportTimeout is how long a stream from another node stays open when this node stops, to report
// the result of its request.
const reportTimeout = 100 * time.Millisecond

// terminate closes the connection from another goroutine. It cancels the run and ends all waiting.
// On a connection from another node, reportStopped then reports the request's result.
func (c *client) terminate(cancelCause cause.Cause) {
	c.closing.Store(true) // this also keeps the client's memory from being reused
	toClose, _ := c.slot.Cancel(cancelCause, anyRun, nil)
	inflight.CloseAll(toClose)
	c.life.End()
	mustReport := cancelCause == cause.Shutdown && c.ingress != ""
	if mustReport {
		c.inbound.StopRead()
		time.AfterFunc(reportTimeout, func() { _ = c.inbound.Abort() })
		return
	}
	c.closeConn() // its goroutine receives an error
}

// closeConn closes the connection, or aborts the request of another front.
func (c *client) closeConn() {
	if c.conn == nil {
		_ = c.inbound.Abort()
		return
	}
	_ = c.conn.Close()
}

// anyRun makes inflight.Slot.Cancel cancel the current run.
func anyRun(inflight.Run, string) bool { return true }

// reportStopped reports to the other node whether its request has not run or may have run, when
// this node closes the stream. The report also shows that the request did not crash this process.
// It returns false if another response has been sent, or if the connection is not being closed.
func (c *client) reportStopped() bool {
	hasResponded := c.exchange.account.Status != 0
	if c.ingress == "" || !c.closing.Load() || hasResponded {
		return false
	}
	if !c.exchange.runAborted {
		c.server.metrics.Refused[route.RefusedStopping].Add(1)
	}
	c.reply.reportStopped(c.exchange.runAborted)
	return true
}

// onBodySent is called when the goroutine that sends the body ends.
func (c *client) onBodySent(readErr error) {
	if readErr == nil {
		c.disconnect.Arm() // no goroutine reads from the client now, so watch for a disconnect
		return
	}
	if errors.Is(readErr, h1.ErrStopped) {
		return
	}
	// Cancel the run, because the app must not mistake a truncated request for a complete one. Keep
	// the client's connection, because a response such as the owner's 413 may already be on its
	// way. responseRelay records whether that response was complete.
	toClose, _ := c.slot.Cancel(cause.ClientGone, anyRun, nil)
	if len(toClose) > 0 {
		upstream := toClose[:1]
		inflight.CloseAll(upstream)
	}
}

// countHeaderMemory is called by the connection when the memory of a partly read header changes. It
// also records that the client is no longer idle.
func (c *client) countHeaderMemory(delta int) {
	c.idle.start.Store(0)
	if delta < 0 {
		c.server.headerMemory.Release(&c.headerMemory)
		return
	}
	c.server.metrics.ShedHeaders.Add(c.server.headerMemory.Add(&c.headerMemory, delta, c.server.settings.Load().MaxHeaderBytesTotal))
}
