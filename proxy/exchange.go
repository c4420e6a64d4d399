package proxy

import (
	"time"

	"shardway/internal/coarsetime"
	"shardway/internal/problem"
	"shardway/proxy/backoff"
	"shardway/proxy/connpool"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/queue"
	"shardway/shardmap"
)

// exchange is the state of one request, including what must happen to the client's connection after
// it.
type exchange struct {
	shardkey.Found
	shard        shardmap.Shard
	hasShard     bool           // shard is set
	keys         *shardkey.Keys // key configuration with which the key was found, or with which it must have been found at the ingress
	senderEpoch  uint64         // epoch of the map that the sender of a forwarded request has used
	safety       safety
	methodIsSafe bool          // the method is safe, even if safety forbids another attempt
	startedAt    time.Duration // when the header had been read, by the exact clock
	endedAt      time.Duration // when the response had been sent, by the exact clock; zero means that it was not sent yet
	generatedID  [2]uint64     // generated X-Request-Id; zero means that none was generated

	lastRoute          route.Kind   // route of the last attempt; zero means no attempt
	hasWaited          bool         // the request has waited for an owner
	firstWaitReason    route.Reason // first reason for waiting
	tries              int          // attempts after which the request may have run, including attempts at other nodes
	triesOnReusedConns int          // attempts of tries on a connection that had carried other requests
	avoidStreams       bool         // a multiplexed stream has failed, so only connections may be used
	responsesBegun     int          // attempts of tries that received a response header
	lastCrash          *crashRecord // the last process that crashed while it had this request; nil means none
	runAborted         bool         // the app may have run the request without a response; see client.reportStopped
	notAcquiredCount   int          // number of responses with which the app reported that it has not acquired the shard

	// idempotentRan means that a PUT or DELETE may have run in the ownership epoch ranEpoch. It is
	// retried only in the same epoch. If ranEpoch is zero, the epoch is unknown, and the request is
	// never sent again.
	idempotentRan bool
	ranEpoch      uint64

	waitTime  time.Duration // total waiting time
	ticket    *queue.Ticket
	dequeued  *queue.Ticket // ticket of a request that has left the queue and has no response yet
	deadline  time.Time     // end of all waiting; zero means that the request has not waited
	lastPause time.Duration // last pause before a retry

	eventStream *resumableStream // the event stream, if it is resumable; nil means none

	account account           // data of the access log line
	session *webSocketSession // the WebSocket that the request opens; nil means that it opens none, or that it cannot be resumable

	// The following fields are set for a request from another node.
	bodyOnDemand          bool   // the sender sends the body only on demand
	clientExpectsContinue bool   // the client itself waits for a 100 Continue
	wantsAcceptance       bool   // the body has been sent, and the sender needs a 100 when the app accepts the request
	bodyRequested         bool   // the 100 for bodyOnDemand or wantsAcceptance was sent
	requiredEpoch         uint64 // the only ownership epoch in which the request may run; zero means any
	senderResumeCount     uint64 // value of headerResumed from the sender; zero means none

	// The following fields determine what happens to the client's connection.
	keepAlive   bool // the connection can carry another request
	connAborted bool // the connection was closed, or must be closed, within a message
	// endUnsent means that the end of the response is still buffered. A goroutine must send it,
	// because the event loop must not block.
	endUnsent bool
}

// resolveShard sets the shard of the key, if the request has a key.
func (exchange *exchange) resolveShard(table *route.Table) {
	if !exchange.hasShard && !exchange.Keyless {
		exchange.shard, exchange.hasShard = shardmap.ShardOfBytes(exchange.Key, table.Shards()), true
	}
}

// isStreamResumption reports whether the request continues an event stream of which the client has
// already received a part.
func (exchange *exchange) isStreamResumption() bool {
	return exchange.eventStream != nil && exchange.eventStream.responses > 0 && exchange.eventStream.requested > 0
}

// mayHaveRun reports whether an attempt has failed after a part of the request was sent.
func (exchange *exchange) mayHaveRun() bool { return exchange.tries > 0 }

// elapsed returns the duration of the request. It sets ended to now if it is not set.
func (exchange *exchange) elapsed(clock *coarsetime.Clock) time.Duration {
	if exchange.endedAt == 0 { // otherwise recordRun has set it
		exchange.endedAt = clock.Exact()
	}
	return exchange.endedAt - exchange.startedAt
}

// isOpen reports whether a request has begun and has not ended.
func (exchange *exchange) isOpen() bool { return exchange.startedAt != 0 && exchange.endedAt == 0 }

// markNotDelivered records that the last attempt has not reached an app.
func (exchange *exchange) markNotDelivered() {
	if exchange.session != nil {
		exchange.session.mayHaveReachedApp = false
	}
}

// addMayHaveRun returns detail, extended by detailMayHaveRun if a previous attempt may have run.
func (exchange *exchange) addMayHaveRun(detail string) string {
	if exchange.mayHaveRun() {
		return detail + "; " + detailMayHaveRun
	}
	return detail
}

// queueShard returns the shard to which the wait queue attributes the request.
func (exchange *exchange) queueShard() uint32 {
	const keyless = queue.NoShard - 1
	switch {
	case exchange.Keyless:
		return keyless
	case exchange.hasShard:
		return uint32(exchange.shard)
	}
	return queue.NoShard
}

// limitShard returns the shard whose connection limit applies to the request, or noShard.
func (exchange *exchange) limitShard() int {
	if exchange.Keyless {
		return connpool.NoShard
	}
	return int(exchange.shard)
}

// routeKind returns the route for metrics. The route of a request that has waited and was never sent
// is Held.
func (exchange *exchange) routeKind() route.Kind {
	if exchange.lastRoute == 0 && exchange.hasWaited {
		return route.Held
	}
	return exchange.lastRoute
}

// leaveQueue gives up the place in the wait queue, so that the queue can release another request.
// It is called when the request has a response or is about to receive one.
func (exchange *exchange) leaveQueue() {
	if exchange.ticket != nil {
		exchange.ticket.Leave()
		exchange.ticket = nil
	}
	if exchange.dequeued != nil {
		exchange.dequeued.Leave()
		exchange.dequeued = nil
	}
}

// dequeue frees the place in the wait queue after the request has found its owner. The queue
// releases the next request only when leaveQueue is called.
func (exchange *exchange) dequeue() {
	if exchange.ticket != nil {
		exchange.ticket.Dequeue()
		exchange.dequeued, exchange.ticket = exchange.ticket, nil
	}
}

// safety is how often a request may run, depending on its method (RFC 9110 section 9.2).
type safety uint8

const (
	unsafeMethod     safety = iota + 1 // POST and others: at most once
	idempotentMethod                   // PUT, DELETE: repeatedly in the same ownership epoch
	safeMethod                         // GET, HEAD, OPTIONS: any number of times
)

func safetyOf(method []byte) safety {
	switch string(method) {
	case "GET", "HEAD", "OPTIONS":
		return safeMethod
	case "PUT", "DELETE":
		return idempotentMethod
	}
	return unsafeMethod
}

// action is the next step after an attempt.
type action uint8

const (
	actionDone       action = iota + 1 // the client has received its response, or its connection has ended
	actionRetry                        // make another attempt immediately
	actionWait                         // wait, then make another attempt
	actionFail                         // send a problem document as the response
	actionNextStream                   // the owner of an event stream is lost; request the rest of the stream from the next owner
	actionRelay                        // a resumable WebSocket has an upstream connection; run its relay (conn_goroutines.go)
)

// decision is the result of an attempt.
type decision struct {
	action action

	// The following fields belong to actionWait. refusal is the response to a node that has
	// forwarded the request; it also selects the problem after a timeout. backoff means that the
	// request is retried after a pause even if the routing table does not change. committed and
	// proposed are the epochs to wait for.
	reason              route.Reason
	refusal             route.Refusal
	backoff             bool
	committed, proposed uint64
	generation          uint64            // generation of the routing table that was used
	condition           backoff.Condition // additional condition for the next attempt
	notAcquired         attemptEpoch      // the app has not acquired the shard of this attempt, so wait until the node has processed that; zero means not applicable

	// code and detail belong to actionFail, and to actionWait after a timeout.
	code   problem.Code
	detail string
}

var done = decision{action: actionDone}

// fail returns the decision to end a request with a problem document.
func fail(code problem.Code, detail string) decision {
	return decision{action: actionFail, code: code, detail: detail}
}

// waitForRoute returns the decision for a request whose route dest is held.
func waitForRoute(dest *route.Route) decision {
	return decision{action: actionWait, reason: dest.Reason, refusal: route.RefusalFor(dest)}
}
