package proxy

import (
	"errors"
	"os"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/h1"
)

// The life of a request, from the first byte of its head to what is left of its body,
// in the order in which it happens: serve, next, exchange, then the loop of a client's
// request or of a forwarded one, attempt, local or remote, run, and settle. What an
// attempt came to is a verdict, and only the two loops act on it. What the flow has done
// for it, by keys, wait, out, reply, relay and a seat, knows nothing of the flow; attempt.go
// says what a trip came to that has no answer. A kept socket leaves the flow for as long as
// it has a leg (carry.go), and a small request is carried in two steps, of the same parts,
// by a loop that stands at many connections (event_loop.go): requests goes on where that has left it.

// serve carries one request after the other until the connection ends, or the leg of a kept
// socket has begun.
func (c *client) serve() {
	c.s.conns.add(c)
	c.within(c.start)
}

// start is requests for a connection that has just come.
func (c *client) start() {
	if c.s.hard.Err() != nil || c.life.within.Err() != nil {
		c.shut(causeShutdown) // as was done with those that there were
	}
	c.serveRequests()
}

// serveRequests carries one request after the other, from where a loop has left them.
func (c *client) serveRequests() {
	for {
		if c.resumeAt == resumeNext && !c.readRequest() {
			return
		}
		at := c.resumeAt
		c.resumeAt = resumeNext
		switch at {
		case resumeNext, resumeRequest:
			c.handleRequest()
		case resumeResponse, resumeDecision, resumeUnsent:
			c.resumeExchange(at)
		case resumeFinish:
		}
		if c.carries() {
			c.relay.leg.begin(c)
			return
		}
		if c.reportStopped() || !c.prepareNext() {
			return
		}
	}
}

// readRequest reads a request head; false means that there is none to run here.
func (c *client) readRequest() bool {
	c.h.Idle()
	if c.idle.Load() == 0 { // else it has been idle in a loop
		c.idle.Store(int64(c.s.clock.now()))
	}
	if c.joinsLoop() || c.parkRequested.Swap(false) && c.park() {
		return false
	}
	err := c.h.ReadRequestAfter(c.idleSince(), &c.req)
	for err == h1.ErrParkRequested { //nolint:errorlint // never wrapped
		if c.park() {
			return false
		}
		err = c.h.ReadRequest(&c.req)
	}
	c.idle.Store(0)
	c.use(c.s.set.Load())
	if err == nil {
		return true
	}
	c.x = exchange{}
	var bad *h1.Error
	switch {
	case errors.As(err, &bad):
		c.reply.bad(bad)
		accessLine{&c.requestState, &c.keys}.writeBad()
		c.h.CloseLinger(h1.PartOfRequest)
	case errors.Is(err, os.ErrDeadlineExceeded) && len(c.h.Buffered()) > 0:
		c.reply.slow()
		accessLine{&c.requestState, &c.keys}.writeBad()
		c.h.CloseLinger(h1.PartOfRequest)
	case errors.Is(err, h1.ErrStopped) && c.ingress != "":
		c.reply.parted(false) // one may be on its way
	}
	return false
}

// idleSince returns when the last request was over, if nothing was waited for since then;
// zero: ask the clock.
func (c *client) idleSince() time.Time {
	if c.x.ended == 0 {
		return time.Time{}
	}
	return c.s.clock.at(c.x.ended)
}

// beginExchange begins the exchange of the request that has been read.
func (c *client) beginExchange() {
	safety := safetyOf(c.req.Method())
	if c.x.began != 0 && !c.reused.Load() {
		c.reused.Store(true)
	}
	c.x = exchange{
		safety: safety,
		safe:   safety == safeMethod,
		keep:   c.req.KeepAlive() && !c.draining(),
		began:  c.s.clock.exact(),
	}
	if c.pollSince.Load() != 0 {
		c.pollSince.Store(0)
	}
	if c.logs() {
		c.x.account.open(c.h)
	}
	c.up.reset()
}

// handleRequest runs the request that has been read and answers it.
func (c *client) handleRequest() {
	c.beginExchange()
	defer c.finishExchange()
	c.s.budget.earn()
	if c.set.MaxBody > 0 {
		if err := c.req.Body.Limit(c.set.MaxBody); err != nil {
			c.reply.problem(&problem.Problem{Code: problem.TooLarge, Detail: "the request body exceeds the limit (--max-body)"})
			return
		}
	}
	if c.ingress != "" {
		c.handleForwarded()
		return
	}
	if c.reply.probe() || c.hides() {
		return
	}
	var bad *problem.Problem
	c.x.by = c.keysBy(c.s.o.Cluster.Table())
	c.keys.keys = c.x.by
	if c.x.found, bad = c.keys.find(c.s.upstream == nil); bad != nil {
		c.reply.problem(bad)
		return
	}
	if err := c.up.gather(c.x.onDemand, c.set.MaxBodyTotal); err != nil {
		c.reply.badBody(err)
		return
	}
	if !c.x.keyless {
		c.s.load.sample(c.x.key)
		c.asksSocket()
	}
	c.routeUntilAnswered(c.attemptNow())
	c.x.leaveQueue()
	c.resume()
}

// finishExchange keeps account of a request that is over.
func (c *client) finishExchange() {
	if c.carries() {
		return // it is not
	}
	c.trailersDropped(&c.req.Body, "request")
	if c.x.sock != nil {
		c.kept.Store(nil)
	}
	if c.logs() {
		accessLine{&c.requestState, &c.keys}.write()
	}
	c.s.metrics.over(&c.x, c.x.elapsed(&c.s.clock))
}

// routeUntilAnswered goes by the table until the request is answered: v is what came of the first
// attempt, by t.
func (c *client) routeUntilAnswered(t *Table, v decision) {
	for ; ; t, v = c.attemptNow() {
		switch v.action {
		case actionDone, actionRelay:
			return
		case actionRetry:
			continue
		case actionWait:
			v.generation = t.generation
			if v = c.waitFor(v); v.action == actionRetry {
				continue
			}
		case actionNextStream:
			c.nextLeg()
			continue
		case actionFail:
		}
		switch {
		case v.action != actionFail || c.down.Load():
		case c.x.resumed != nil:
			c.reply.giveUp(resumeLate, v.detail)
		default:
			c.reply.failure(v)
		}
		return
	}
}

// attemptNow makes an attempt by the table of this moment.
func (c *client) attemptNow() (*Table, decision) {
	t := c.s.o.Cluster.Table()
	return t, c.attemptByTable(t)
}

// waitFor waits as v says, and keeps account of it.
func (c *client) waitFor(v decision) decision {
	a := &c.x.account
	began := a.now()
	v = c.wait.waitFor(v)
	a.held += a.since(began)
	return v
}

// handleForwarded serves a request that another node forwarded, or refuses it. It never
// forwards it (G8), and it waits no longer than ownerWait: requests wait where
// their client is. But what waits for the app to acquire its shard waits here, to go on
// at once, until that or the next proposal, as long as there is a lease.
func (c *client) handleForwarded() {
	committed, proposed, ok := c.readForwarded()
	c.x.sentBy = committed
	if !ok {
		c.reply.problem(&problem.Problem{Code: problem.Misrouted, Detail: "not a forwarded request"})
		c.x.keep = false
		return
	}
	if c.hides() {
		return
	}
	t := c.s.o.Cluster.Table()
	if committed > t.committed || proposed > t.proposed {
		// Without a lease there is nothing to wait for, and what waits here when
		// the shard is taken counts as sent: a node whose disk hangs is behind
		// for seconds.
		if c.s.o.Cluster.LeaseLeft() <= 0 {
			c.reply.refuse(RefusedNoLease)
			return
		}
		if !c.wait.catchUp(committed, proposed) {
			c.reply.refuse(RefusedHeld)
			return
		}
		t = c.s.o.Cluster.Table()
	}
	if int(c.x.shard) >= t.Shards() {
		c.reply.refuse(RefusedHeld)
		return
	}
	c.serveAsOwner(t)
	c.x.leaveQueue()
}

// attemptAsOwner runs the request if this node owns its shard.
func (c *client) attemptAsOwner(t *Table) decision {
	if c.x.keyless {
		return c.attemptLocal(t, &c.s.keyless)
	}
	if c.x.sentBy < t.keysSince {
		return decision{action: actionWait, reason: ReasonMoving, refusal: RefusedHeld} // it was keyed otherwise
	}
	c.x.by = c.keysBy(t)
	r := t.Route(c.x.shard)
	if r.Kind != Local {
		return waitForRoute(r)
	}
	if err := c.up.gather(c.x.onDemand, c.set.MaxBodyTotal); err != nil {
		return c.reply.badBody(err)
	}
	return c.attemptLocal(t, r)
}

// attemptByTable sends the request where the table says, once.
func (c *client) attemptByTable(t *Table) decision {
	if t.Shards() == 0 {
		return decision{action: actionWait, reason: ReasonNoMap, refusal: RefusedHeld}
	}
	if by := c.keysBy(t); by != c.x.by {
		if v := c.rekey(by); v.action != 0 {
			return v
		}
	}
	c.x.resolveShard(t)
	if c.quarantined() {
		if c.x.later() { // the client has its response
			c.x.sock.refused, c.x.sock.why = closeTryLater, whyQuarantined
			return done
		}
		return fail(problem.Quarantined, c.x.notedRun("requests of this key go nowhere until an operator lifts that (shardway quarantine)"))
	}
	switch {
	case c.x.keyless && c.s.upstream == nil:
		var r *Route
		if c.x.shard, r = t.anywhere(); r.Kind == Remote {
			return c.attemptRemote(t, &Route{Kind: Remote, Node: r.Node})
		}
		return waitForRoute(r)
	case c.x.keyless:
		return c.attemptLocal(t, &c.s.keyless)
	}
	r := t.Route(c.x.shard)
	switch r.Kind {
	case Local:
		return c.attemptLocal(t, r)
	case Remote:
		return c.attemptRemote(t, r)
	case Held:
	}
	return waitForRoute(r)
}

// attemptLocal runs the request on the app behind this node.
func (c *client) attemptLocal(t *Table, r *Route) decision {
	if c.s.upstream == nil {
		return fail(problem.Misrouted, "this node is a gateway: it has no app")
	}
	if c.req.Upgrades() && c.s.streams.full() {
		return fail(problem.UpstreamBusy, "the maximum number of streams and upgraded connections is open (--max-streams)")
	}
	l, v := c.wait.acquireConn(c.s.upstream)
	if l == nil {
		return v
	}
	p := &attempt{}
	if v := c.admitAttempt(p, l, t, r); v.action != 0 {
		return v
	}
	return c.runTimed(p)
}

// admitAttempt begins a trip to the app over l, with the node's leave. Else it returns the verdict,
// and l has been given back.
func (c *client) admitAttempt(p *attempt, l *upstreamConn, t *Table, r *Route) decision {
	// The run begins first: a Cut after the node has stopped admitting must find it.
	if !c.begin(Local, l, nil) {
		c.slot.giveBack(l)
		return done
	}
	epoch, release, err := c.admit()
	if err == nil && (c.x.wantEpoch != 0 && c.x.wantEpoch != epoch) {
		release()
		err = RefusedNotOwner
	}
	if err == nil && !c.x.keyless && c.keysBy(c.s.o.Cluster.Table()) != c.x.by {
		release()
		err = RefusedHeld // the key configuration has changed since the key was found
	}
	if err != nil {
		c.slot.giveBack(l)
		refusal, ok := err.(Refusal) //nolint:errorlint // Admit returns it bare, and this allocates nothing
		if !ok {
			refusal = RefusedHeld
		}
		reason := ReasonMoving
		if refusal == RefusedNoLease {
			reason = ReasonNoLease
		}
		// A newer table tells when to look again, also of a lease that came back.
		return decision{action: actionWait, reason: reason, refusal: refusal}
	}
	if c.x.ran && c.x.ranEpoch != epoch {
		release()
		c.slot.giveBack(l)
		return fail(problem.UpstreamBroken, detailMayHaveRun)
	}
	c.x.dequeue()
	c.admitted = release
	*p = attempt{conn: l, t: t, r: r, attemptEpoch: attemptEpoch{epoch: epoch}, release: c.releaseAdmitted}
	if c.s.o.NotAcquired != nil {
		p.generation = c.s.o.Cluster.Table().generation
	}
	return decision{}
}

// attemptRemote has another node run the request.
func (c *client) attemptRemote(t *Table, r *Route) decision {
	if c.x.ran && (c.x.ranEpoch == 0 || c.x.ranEpoch != r.Epoch) {
		return fail(problem.PeerUnreachable, detailMayHaveRun)
	}
	p, lanes := c.s.peers.pool(r.Node), false
	if c.fitsStream() {
		lanes = p.smallRequests.Add(1) > c.s.streamThreshold
		defer p.smallRequests.Add(-1)
	}
	if crowd := c.x.crowd(p); crowd != nil {
		return c.x.behind(crowd)
	}
	l, v := c.acquirePeerConn(p, lanes)
	if l == nil {
		return v
	}
	// As with local: an Abandon after the table was swapped must find the run.
	if !c.begin(Remote, l, &r.Node) || c.s.o.Cluster.Table() != t {
		c.slot.giveBack(l)
		if c.down.Load() {
			return done
		}
		return decision{action: actionRetry}
	}
	c.x.dequeue()
	return c.runTimed(&attempt{conn: l, t: t, r: r, attemptEpoch: attemptEpoch{epoch: r.Epoch}, release: nothing})
}

// runAttempt sends the request, once, and relays the answer.
func (c *client) runAttempt(p *attempt) decision {
	if err := c.up.take(); err != nil {
		c.x.route = p.r.Kind
		p.cancelUnsent()
		return c.reply.badBody(err)
	}
	if p.conn.inproc != nil {
		c.x.route = p.r.Kind
		return c.call(p)
	}
	if v := c.sendRequest(p); v.action != 0 {
		return v
	}
	return c.awaitResponse(p)
}

// sendRequest sends the request. Else it returns the verdict, and the trip is over.
func (c *client) sendRequest(p *attempt) decision {
	c.x.route = p.r.Kind
	p.demand = p.r.Kind == Remote && !c.up.whole()
	before := p.conn.Sent()
	w := c.out.head(p)
	if err := c.writeRequest(p, w); err != nil {
		if p.conn.Sent() == before || p.isUnread() {
			return c.handleUnsent(p, err)
		}
		c.x.resumed.mayHaveAsked() // what asks at once waits for its answer there
		return c.handleBroken(p, err)
	}
	if !c.up.running { // nothing flows until the answer comes
		c.h.Idle()
		w.Idle()
	}
	return decision{}
}

// awaitResponse waits for the answer and passes it on.
func (c *client) awaitResponse(p *attempt) decision {
	if err := c.readResponseHeader(p, p.conn.Writer()); err != nil {
		if p.isUnread() {
			return c.handleUnsent(p, err)
		}
		c.x.resumed.mayHaveAsked()
		return c.handleBroken(p, err)
	}
	return c.relayResponse(p)
}

// relayResponse does with an answer, whose head is here, what is to be done.
func (c *client) relayResponse(p *attempt) decision {
	res := &p.conn.res
	if p.r.Kind == Local && res.Has(h1.FieldShardwayHold) && !c.saysNotAcquired(res) {
		c.noteHold(res, p.epoch)
	}
	switch {
	case p.r.Kind == Remote && res.Status() == 421 && res.Has(h1.FieldShardwayRefused), c.x.shedThere(p):
		return c.handleRefused(p)
	case p.r.Kind == Remote && res.Status() == 502 && string(res.Known(h1.FieldShardwayRefused)) == refusedCut:
		c.x.resumed.mayHaveAsked()
		return c.handlePeerStopped(p)
	case p.r.Kind == Local && res.Status() == 421 && c.saysNotAcquired(res):
		return c.handleNotAcquired(p)
	case c.x.resumed != nil && (brokeThere(p) || drainedThere(p)):
		return c.unanswered(p)
	case c.x.resumed != nil:
		if !c.follows(p) {
			return done
		}
	case res.Switches():
		c.x.leaveQueue()
		if !c.relay.tunnel(p) {
			return c.handleBroken(p, nil)
		}
		if c.carries() {
			return decision{action: actionRelay}
		}
		return done
	}
	if c.x.later() {
		return c.declined(p)
	}
	c.x.leaveQueue()
	if began, err := c.relay.pass(p); !began {
		return c.handleBroken(p, err)
	}
	if k := c.x.resumed; k != nil && k.over && !c.down.Load() {
		return decision{action: actionNextStream}
	}
	return done
}

// prepareNext brings the connection to the next request: what is left of the body is
// read away, or else the connection is closed so that the client can still read
// its answer. False means that it is closed.
func (c *client) prepareNext() bool {
	c.up.free()
	if c.x.onDemand && !c.x.asked {
		return c.x.keep // the ingress has not sent the body and will not
	}
	if c.x.cut {
		return false
	}
	if !c.req.Body.Done() {
		c.x.ended = 0 // what is left of it may be waited for
	}
	if c.x.keep && c.reply.drained() {
		return true
	}
	switch {
	case c.last():
		c.h.CloseLast()
	case c.req.Body.Done():
		c.h.CloseLinger(h1.WholeRequest)
	default:
		c.h.CloseLinger(h1.PartOfRequest)
	}
	return false
}
