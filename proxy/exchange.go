package proxy

import (
	"time"

	"shardway/internal/problem"
	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/queue"
	"shardway/shardmap"
)

// exchange is the state of one request, and what follows for the connection of its client.
type exchange struct {
	shardkey.Found
	shard       shardmap.Shard
	sharded     bool           // shard is set
	keys        *shardkey.Keys // key configuration by which the key was found, or at an owner by which it must have been found
	senderEpoch uint64         // of a forwarded request: epoch of the map that the sender used
	safety      safety
	safe        bool          // the method is safe, even if safety forbids sending the request again
	began       time.Duration // when the header had been read, by the exact clock
	ended       time.Duration // when the response had been sent, by the exact clock; zero means not yet
	id          [2]uint64     // generated X-Request-Id; zero means not generated

	route          route.Kind   // route of the last attempt; zero means no attempt
	waited         bool         // the request has waited for an owner
	waitedFor      route.Reason // first reason for waiting
	tries          int          // attempts after which the request may have run, at other nodes too
	reusedTries    int          // of tries, attempts over a connection that had been used before
	noStreams      bool         // a multiplexed stream has failed; use connections only
	responsesBegun int          // of tries, attempts that received a response header
	wreck          *wreck       // the last process that died with this request; nil means none
	runAborted     bool         // the app may have run the request, and there is no response: see client.reportStopped
	notAcquired    int          // responses of the app that it has not acquired the shard

	// ran is set when a PUT or DELETE may have run in the ownership epoch ranEpoch. It is sent
	// again only in the same epoch, and never if ranEpoch is zero, which means unknown.
	ran      bool
	ranEpoch uint64

	waitTime time.Duration // total time of waiting
	ticket   *queue.Ticket
	dequeued *queue.Ticket // ticket of a request that has left the queue and has no response yet
	deadline time.Time     // end of all waiting; zero means that the request has not waited
	pause    time.Duration // last back-off

	resumed *resumableStream // the event stream, if it is resumable; nil means none

	account account           // record of the access log
	session *webSocketSession // the WebSocket that the request asks for; nil means that there is none, or that it cannot be resumable

	// The following fields belong to a request from another node.
	onDemand      bool   // the sender sends the body when this node requests it
	clientExpects bool   // the client itself waits for 100 Continue
	wantAccepted  bool   // the body has arrived, and the sender asks for a 100 when the app accepts the request
	bodyRequested bool   // the 100 for onDemand or wantAccepted was sent
	wantEpoch     uint64 // serve the request in this ownership epoch only; zero means in any
	wasResumed    uint64 // value of headerResumed from the sender; zero means none

	// The following fields decide about the connection of the client.
	keep    bool // it can carry another request
	aborted bool // it was closed, or must be closed, within a message
	// unsent means that the end of the response is still buffered, and must be sent by a goroutine
	// that can block.
	unsent bool
}

// resolveShard sets the shard of the key, if the request has a key.
func (x *exchange) resolveShard(t *route.Table) {
	if !x.sharded && !x.Keyless {
		x.shard, x.sharded = shardmap.OfBytes(x.Key, t.Shards()), true
	}
}

// isStreamResumption reports whether the request continues an event stream of which the client
// already has a part.
func (x *exchange) isStreamResumption() bool {
	return x.resumed != nil && x.resumed.responses > 0 && x.resumed.requested > 0
}

// mayHaveRun reports whether an attempt failed after something was sent.
func (x *exchange) mayHaveRun() bool { return x.tries > 0 }

// elapsed returns how long the request took, and sets its end if that is not set.
func (x *exchange) elapsed(clock *coarse) time.Duration {
	if x.ended == 0 { // otherwise recordRun has set it
		x.ended = clock.exact()
	}
	return x.ended - x.began
}

// isOpen reports whether a request has begun and not ended.
func (x *exchange) isOpen() bool { return x.began != 0 && x.ended == 0 }

// noteNotDelivered records that the attempt has not reached an app.
func (x *exchange) noteNotDelivered() {
	if x.session != nil {
		x.session.delivered = false
	}
}

// notedRun appends to detail that an earlier attempt may have run, if that is so.
func (x *exchange) notedRun(detail string) string {
	if x.mayHaveRun() {
		return detail + "; " + detailMayHaveRun
	}
	return detail
}

// queueShard returns the shard to which the wait queue attributes the request.
func (x *exchange) queueShard() uint32 {
	const keyless = queue.NoShard - 1
	switch {
	case x.Keyless:
		return keyless
	case x.sharded:
		return uint32(x.shard)
	}
	return queue.NoShard
}

// limitShard returns the shard whose connection limit applies, or noShard.
func (x *exchange) limitShard() int {
	if x.Keyless {
		return noShard
	}
	return int(x.shard)
}

// routeOf returns the route for metrics. A request that waited and was never sent counts as Held.
func (x *exchange) routeOf() route.Kind {
	if x.route == 0 && x.waited {
		return route.Held
	}
	return x.route
}

// leaveQueue gives up the place in the wait queue, so that another request can follow. Call it
// when the request has a response, or gets one now.
func (x *exchange) leaveQueue() {
	if x.ticket != nil {
		x.ticket.Leave()
		x.ticket = nil
	}
	if x.dequeued != nil {
		x.dequeued.Leave()
		x.dequeued = nil
	}
}

// dequeue leaves the wait queue, because the request has found its owner. The queue releases the
// next request when leaveQueue is called.
func (x *exchange) dequeue() {
	if x.ticket != nil {
		x.ticket.Dequeue()
		x.dequeued, x.ticket = x.ticket, nil
	}
}

// safety says how often a request may run (RFC 9110 section 9.2).
type safety uint8

const (
	unsafeMethod     safety = iota + 1 // POST and others: at most once
	idempotentMethod                   // PUT, DELETE: repeatedly in the same ownership epoch
	safeMethod                         // GET, HEAD, OPTIONS: repeatedly
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

// action is what follows after an attempt.
type action uint8

const (
	actionDone       action = iota + 1 // the client has its response, or its connection has ended
	actionRetry                        // make another attempt at once
	actionWait                         // wait, then make another attempt
	actionFail                         // respond with a problem
	actionNextStream                   // the owner of an event stream is lost: request the rest from the next owner
	actionRelay                        // a resumable WebSocket has an upstream connection: relay it (conn_goroutines.go)
)

// decision is the result of an attempt.
type decision struct {
	action action

	// The following fields belong to actionWait. refusal is the answer to a node that forwarded
	// the request, and selects the problem if the wait times out. backoff means to try again
	// after a while even if the routing table does not change. committed and proposed are the
	// epochs to wait for.
	reason              route.Reason
	refusal             route.Refusal
	backoff             bool
	committed, proposed uint64
	generation          uint64       // generation of the routing table that was used
	condition           waitable     // additional condition for the next attempt
	notAcquired         attemptEpoch // the app has not acquired the shard of this attempt: wait until the node knows that; zero means not applicable

	// code and detail belong to actionFail, and to actionWait if the wait times out.
	code   problem.Code
	detail string
}

var done = decision{action: actionDone}

// fail returns the decision that ends a request with a problem.
func fail(code problem.Code, detail string) decision {
	return decision{action: actionFail, code: code, detail: detail}
}

// waitForRoute returns the decision for a request whose route r is held.
func waitForRoute(r *route.Route) decision {
	return decision{action: actionWait, reason: r.Reason, refusal: route.RefusalFor(r)}
}
