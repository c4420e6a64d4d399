package proxy

import (
	"time"

	"shardway/internal/problem"
	"shardway/queue"
	"shardway/shardmap"
)

// exchange is one request on its way, and what is to become of its connection.
type exchange struct {
	found
	shard       shardmap.Shard
	sharded     bool   // shard is set
	keys        *Keys  // by which the key was found, or at an owner, by which it must have been
	senderEpoch uint64 // of a forwarded request, the epoch of the map by which it was sent
	safety      safety
	safe        bool          // its method is, whatever safety says of sending it again
	began       time.Duration // when its head had been read, by the exact clock
	ended       time.Duration // when its answer had gone out, likewise; zero: it is not over
	id          [2]uint64     // X-Request-Id of a request that came without; zero: not made yet

	route          Kind   // the way it went last; zero: none
	waited         bool   // it counted as held
	waitedFor      Reason // what it waited for first
	tries          int    // times it was sent and may have run, at other nodes too
	reusedTries    int    // of these, over a connection used before
	noStreams      bool   // a lane has failed it: it goes by none any more
	responsesBegun int    // of these, with the head of an answer
	wreck          *wreck // the last process that took it along; nil: none
	cutRun         bool   // the app may have run it, and there is no answer: see client.part
	notAcquired    int    // times the app said that it does not hold the shard

	// ran is set once a PUT or DELETE may have run, in ranEpoch: it goes again
	// only to the same one, and never if that is zero, unknown.
	ran      bool
	ranEpoch uint64

	waitTime time.Duration // in all
	ticket   *queue.Ticket
	dequeued *queue.Ticket // of a request that has waited and went on, until it is answered
	deadline time.Time     // of all waiting; zero: there was none yet
	pause    time.Duration // the last back-off

	resumed *resumed // an event stream that may go on, or does; nil: there is none

	account account           // of the access log
	session *webSocketSession // that the request asks for; nil: none, or none that could be kept

	// Of a request from another node.
	onDemand      bool   // its body comes when it is asked for
	clientExpects bool   // the client waits for a 100 itself
	wantAccepted  bool   // the body is there, and the ingress asks whether the app takes it
	bodyRequested bool   // it has been asked for, or told
	wantEpoch     uint64 // serve it in this ownership epoch only; zero: any
	wasResumed    uint64 // what the ingress says in headerResumed; zero: nothing

	// What becomes of the connection.
	keep bool // it may carry another request
	cut  bool // it is, or has to be, closed as it stands
	// unsent tells that the end of the answer is still to be sent, by one who can wait.
	unsent bool
}

// resolveShard finds the shard of the request's key, if it has one.
func (x *exchange) resolveShard(t *Table) {
	if !x.sharded && !x.keyless {
		x.shard, x.sharded = shardmap.OfBytes(x.key, t.Shards()), true
	}
}

// isStreamResumption reports whether the request is for a further leg of an event stream.
func (x *exchange) isStreamResumption() bool {
	return x.resumed != nil && x.resumed.legs > 0 && x.resumed.asked > 0
}

// mayHaveRun reports whether an attempt broke off after something was sent.
func (x *exchange) mayHaveRun() bool { return x.tries > 0 }

// elapsed returns how long the request took, which is over.
func (x *exchange) elapsed(clock *coarse) time.Duration {
	if x.ended == 0 { // else its run has just been timed
		x.ended = clock.exact()
	}
	return x.ended - x.began
}

// isOpen reports whether a request has begun that is not over.
func (x *exchange) isOpen() bool { return x.began != 0 && x.ended == 0 }

// noteNotDelivered notes that no app has seen the attempt.
func (x *exchange) noteNotDelivered() {
	if x.session != nil {
		x.session.delivered = false
	}
}

// notedRun adds to a detail that an attempt may have run, if one may.
func (x *exchange) notedRun(detail string) string {
	if x.mayHaveRun() {
		return detail + "; " + detailMayHaveRun
	}
	return detail
}

// queueShard is what the request counts for in the queue.
func (x *exchange) queueShard() uint32 {
	const keyless = queue.NoShard - 1
	switch {
	case x.keyless:
		return keyless
	case x.sharded:
		return uint32(x.shard)
	}
	return queue.NoShard
}

// limitShard is what the request's connections count for.
func (x *exchange) limitShard() int {
	if x.keyless {
		return noShard
	}
	return int(x.shard)
}

// routeOf returns the way the request went as metrics know it: one that waited
// and never left is held.
func (x *exchange) routeOf() Kind {
	if x.route == 0 && x.waited {
		return Held
	}
	return x.route
}

// leaveQueue gives the place in the queue back, and lets another one go in its stead: the
// request is answered, or is to be.
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

// dequeue gives the place in the queue back of a request that has found its owner.
func (x *exchange) dequeue() {
	if x.ticket != nil {
		x.ticket.Dequeue()
		x.dequeued, x.ticket = x.ticket, nil
	}
}

// safety says how often a request may run (RFC 9110 section 9.2).
type safety uint8

const (
	unsafeMethod     safety = iota + 1 // at most once
	idempotentMethod                   // PUT, DELETE: again, in the same ownership epoch
	safeMethod                         // GET, HEAD, OPTIONS: again
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

// action says what is to be done after an attempt.
type action uint8

const (
	actionDone       action = iota + 1 // answered, or given up with its connection
	actionRetry                        // go again at once
	actionWait                         // wait, then go again
	actionFail                         // answer with a problem
	actionNextStream                   // the leg of an event stream is over: go on with the next
	actionRelay                        // the leg of a kept socket has begun: carry it (carry.go)
)

// decision is what an attempt came to.
type decision struct {
	action action

	// Of actionWait. Refusal is what another node is told, and what the problem
	// speaks of when the time is over; backoff: look again after a while even if
	// the table stays; committed and proposed: wait until they are applied.
	reason              Reason
	refusal             Refusal
	backoff             bool
	committed, proposed uint64
	generation          uint64       // the table that was looked at
	condition           waitable     // wait for this besides: it tells when it is worth another look
	notAcquired         attemptEpoch // the app did not hold its shard: wait until the node has heard of that; zero: it did

	// Of actionFail, and of actionWait when nothing else says it better.
	code   problem.Code
	detail string
}

var done = decision{action: actionDone}

// fail returns the verdict that ends a request with a problem.
func fail(code problem.Code, detail string) decision {
	return decision{action: actionFail, code: code, detail: detail}
}

// waitForRoute returns the verdict of a request whose route is not to be taken now.
func waitForRoute(r *Route) decision {
	return decision{action: actionWait, reason: r.Reason, refusal: refusalFor(r)}
}
