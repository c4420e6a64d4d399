package proxy

import (
	"time"

	"shardway/internal/coarsetime"
	"shardway/internal/problem"
	"shardway/proxy/accesslog"
	"shardway/proxy/backoff"
	"shardway/proxy/connpool"
	"shardway/proxy/eventrelay"
	"shardway/proxy/loadstats"
	"shardway/proxy/poison"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/proxy/wsfirst"
	"shardway/proxy/wsrelay"
	"shardway/queue"
	"shardway/shardmap"
)

// exchange is the state of one request, including what must happen to the client's connection after
// it. Only the goroutine or the event loop that serves the request uses it.
type exchange struct {
	// Key and shard. Found is the result of the key search.

	shardkey.Found
	shard    shardmap.Shard
	hasShard bool // shard is set
	// firstShard is the first shard of the range of the service, which the header Shardway-Shard counts
	// from. A forwarded request contains the number in that header, in serviceShard.
	firstShard, serviceShard shardmap.Shard
	service                  string         // name of the service; empty if the key configuration has no services
	keys                     *shardkey.Keys // key configuration used to find the key, here or at the ingress

	// Method and time.

	safety       safety
	methodIsSafe bool          // the method is safe; safety may still forbid another attempt
	startedAt    time.Duration // when the header had been read, by the exact clock
	endedAt      time.Duration // when the response had been sent, by the exact clock; zero if it has not been
	generatedID  [2]uint64     // generated X-Request-Id; zero means that none was generated

	// Attempts so far. tries counts the attempts after which the request may have run, including
	// attempts at other nodes.

	route              *routeSettings // settings for the path, if this node is the owner; nil until an attempt needs them
	lastRoute          route.Kind     // route of the last attempt; zero means no attempt
	tries              int
	reusedConnAttempts int               // tries on a connection that had carried other requests
	responsesBegun     int               // tries that received a response header
	avoidStreams       bool              // only separate connections may be used, because a multiplexed stream failed
	lastCrash          *poison.Record    // the last process that crashed while running this request; nil means none
	runAborted         bool              // the app may have run the request without a response; see client.reportStopped
	notAcquiredCount   int               // number of responses in which the app reported that it has not acquired the shard
	isRerouted         bool              // the app has named the key, and the request was sent to its owner
	namedKey           []byte            // key that the app has named, for actionReroute
	sample             *loadstats.Sample // sample of the key in the list of busy keys; nil means none
	// idempotentRan is set if a PUT or DELETE may have run in the ownership epoch ranEpoch. It is
	// retried only in the same epoch. If ranEpoch is zero, the epoch is unknown, and the request is
	// never sent again.
	idempotentRan bool
	ranEpoch      uint64

	// Waiting for an owner or for a connection.

	hasWaited       bool          // the request has waited
	firstWaitReason route.Reason  // first reason for waiting
	waitTime        time.Duration // total waiting time
	deadline        time.Time     // end of all waiting; zero if the request has not waited
	lastPause       time.Duration // last pause before a retry; zero means none
	hadTurn         bool          // an attempt at the app of this node was admitted; see connpool.Waiter.HadTurn
	ticket          *queue.Ticket // slot in the wait queue; nil means none
	queueTurn       *queue.Ticket // ticket whose slot is free but whose turn has not ended, because the request has no response yet; nil means none

	keyLimit keyLimitState

	// Streams and the access log.

	eventStream *eventrelay.Stream // the event stream, if it is resumable; nil means none
	session     *wsrelay.Session   // the WebSocket that the request opens; nil if it opens none or a non-resumable one
	accepted    *wsfirst.Accepted  // the WebSocket that this node accepted before the app did; nil means none
	account     accesslog.Entry    // data of the access log line

	// Statements of the node that has forwarded the request. They are zero for a request of a client.

	senderEpoch            uint64 // epoch of the sender's shard map
	requiredEpoch          uint64 // the only ownership epoch in which the request may run; zero means any
	senderResumeCount      uint64 // value of eventrelay.HeaderResumed; zero means none
	ingressHoldsBody       bool   // the ingress holds the body back until the request is accepted
	clientExpectsContinue  bool   // the client itself waits for a 100 Continue
	ingressNeedsAcceptance bool   // the ingress has sent the body, but needs to know when the app accepts the request
	acceptanceSent         bool   // the acceptance (a 100 with headerContinue) was sent

	// What happens to the client's connection.

	keepAlive   bool // the connection can carry another request
	connAborted bool // the connection was closed, or must be closed, in the middle of a message
	// endUnsent is set if the end of the response is still buffered. A goroutine must send it,
	// because the event loop must not block.
	endUnsent bool
}

// resolveShard sets the shard of the key, if the request has a key. ok is false if the table does not
// have the service of the request.
func (exchange *exchange) resolveShard(table *route.Table) (ok bool) {
	if exchange.hasShard {
		return true
	}
	if exchange.service != "" || table.HasServices() {
		return exchange.resolveInService(table)
	}
	if !exchange.Keyless {
		exchange.shard, exchange.hasShard = shardmap.ShardOfBytes(exchange.Key, table.Shards()), true
	}
	return true
}

// isStreamResumption reports whether the request continues an event stream whose client has already
// received part of it.
func (exchange *exchange) isStreamResumption() bool {
	stream := exchange.eventStream
	return stream != nil && stream.IsResumption()
}

// isResumption reports whether the request resumes a WebSocket session whose client has already
// received its response.
func (exchange *exchange) isResumption() bool {
	return exchange.session != nil && exchange.session.Relays > 0
}

// mayHaveRun reports whether an attempt has failed after a part of the request was sent.
func (exchange *exchange) mayHaveRun() bool { return exchange.tries > 0 }

// mayRunInEpoch reports whether the request may be sent to an owner with the given ownership epoch.
// A PUT or DELETE that may already have run can be repeated only in the same epoch.
func (exchange *exchange) mayRunInEpoch(epoch uint64) bool {
	if !exchange.idempotentRan {
		return true
	}
	return exchange.ranEpoch != 0 && exchange.ranEpoch == epoch
}

// elapsed returns the duration of a finished request. It sets endedAt to the current time unless
// recordRun has already set it.
func (exchange *exchange) elapsed(clock *coarsetime.Clock) time.Duration {
	if exchange.endedAt == 0 {
		exchange.endedAt = clock.Exact()
	}
	return exchange.endedAt - exchange.startedAt
}

// isOpen reports whether a request has begun and has not ended.
func (exchange *exchange) isOpen() bool { return exchange.startedAt != 0 && exchange.endedAt == 0 }

// markNotDelivered records that the last attempt has not reached an app.
func (exchange *exchange) markNotDelivered() {
	if exchange.session != nil {
		exchange.session.MayHaveReachedApp = false
	}
}

// addMayHaveRun returns detail, extended by detailMayHaveRun if a previous attempt may have run.
func (exchange *exchange) addMayHaveRun(detail string) string {
	if exchange.mayHaveRun() {
		return detail + "; " + detailMayHaveRun
	}
	return detail
}

// queueShard returns the shard to which the wait queue attributes the request. All keyless requests
// share the slots of one imaginary shard. The shard is unknown before the first attempt.
func (exchange *exchange) queueShard() uint32 {
	const keylessShard = queue.NoShard - 1
	switch {
	case exchange.Keyless:
		return keylessShard
	case exchange.hasShard:
		return uint32(exchange.shard)
	}
	return queue.NoShard
}

// limitShard returns the shard whose connection limit applies to the request, or connpool.NoShard.
func (exchange *exchange) limitShard() int {
	if exchange.Keyless {
		return connpool.NoShard
	}
	return int(exchange.shard)
}

// routeKind returns the route for metrics. It is Queued for a request that has waited and was never sent.
func (exchange *exchange) routeKind() route.Kind {
	wasSent := exchange.lastRoute != 0
	if !wasSent && exchange.hasWaited {
		return route.Queued
	}
	return exchange.lastRoute
}

// finishQueueing gives up both the slot and the turn in the wait queue, so that the queue can release
// another request. It is called when the request has a response or is about to receive one.
func (exchange *exchange) finishQueueing() {
	if exchange.ticket != nil {
		exchange.ticket.Leave()
		exchange.ticket = nil
	}
	if exchange.queueTurn != nil {
		exchange.queueTurn.Leave()
		exchange.queueTurn = nil
	}
}

// dequeue frees the request's slot in the wait queue once its owner is known, but keeps the turn: the queue releases
// the next request only after finishQueueing.
func (exchange *exchange) dequeue() {
	if exchange.ticket != nil {
		exchange.ticket.Dequeue()
		exchange.queueTurn, exchange.ticket = exchange.ticket, nil
	}
}

// safety is how often a request may run, according to its method (RFC 9110 section 9.2).
type safety uint8

const (
	unsafeMethod     safety = iota + 1 // POST and others: at most once
	idempotentMethod                   // PUT, DELETE: repeatedly in the same ownership epoch
	safeMethod                         // GET, HEAD, OPTIONS: any number of times
)

// safetyOf returns the safety of a method.
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
	actionNextStream                   // an event stream lost its owner; request the rest from the next owner
	actionReroute                      // the app named the request's key; send the request to that key's owner (reroute.go)
	actionRelay                        // a resumable WebSocket has an upstream connection; run its relay (conn_goroutines.go)
)

// decision is the result of an attempt: the next step of the request.
type decision struct {
	action action

	// Events for which a request with actionWait waits. If none is set, it waits for a routing table
	// with a newer generation.

	generation          uint64            // generation of the routing table that was used
	committed, proposed uint64            // epochs that the routing table must reach; zero means any
	condition           backoff.Condition // a recovery of the destination; nil means none
	backoff             bool              // retry after a pause, even if the routing table does not change
	// notAcquired is the attempt in which the app reported that it has not acquired the shard. The
	// request waits until the node has processed that report. Zero means none.
	notAcquired attemptEpoch

	// Why a request with actionWait waits. refusal is the response to the node that has forwarded the
	// request; zero means that this node itself may retry it. It also selects the problem after a
	// timeout.

	reason  route.Reason
	refusal route.Refusal

	// The error response for actionFail, and for actionWait after a timeout. If code is empty after
	// a timeout, it is derived from reason and refusal.

	code   problem.Code
	detail string
}

// done is the decision for a request that needs no further step.
var done = decision{action: actionDone}

// fail returns the decision to end a request with a problem document.
func fail(code problem.Code, detail string) decision {
	return decision{action: actionFail, code: code, detail: detail}
}

// waitForRoute returns the decision for a request whose route dest is Queued.
func waitForRoute(dest *route.Route) decision {
	return decision{action: actionWait, reason: dest.Reason, refusal: route.RefusalFor(dest)}
}
