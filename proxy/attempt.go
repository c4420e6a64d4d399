package proxy

import (
	"errors"
	"os"
	"strconv"

	"shardway/internal/problem"
	"shardway/proxy/h1"
)

// detailMayHaveRun is what every answer says that cannot exclude it.
const detailMayHaveRun = "the connection broke after the request was sent: it may have run"

// maxTries bounds how often one request is sent that may have run, over all nodes
// that it meets, and maxReusedTries how many of these go over connections that have
// carried others before: of a node that dies they all break, one after the other.
// So the last try goes over a new one.
const (
	maxTries       = 3
	maxReusedTries = 2
)

// errNotSwitched reports an answer 101 to a request that did not ask for it.
var errNotSwitched = errors.New("proxy: 101 without being asked")

// attempt is one run of a request over one link. Its run has begun in the slot; who
// ends it calls release, once, as soon as the app is done with the request or its
// connection is closed, and gives the link back or drops it.
type attempt struct {
	conn *upstreamConn
	t    *Table
	r    *Route
	attemptEpoch
	release func()
	heads   int  // heads of answers that the request had before
	demand  bool // the owner asks for the body when it has admitted the request

	// Of the connection that the request came by.
	slot *slot
	up   *upload
	gone *watch
}

// attemptEpoch is under what a request was sent.
type attemptEpoch struct {
	epoch      uint64 // ownership epoch; zero: unknown
	generation uint64 // the table when it was sent, of a local one; zero: not known
}

// abort ends a trip by closing its link, and returns what it was cut for, if it
// was. The client's body can go no further if it was on its way.
func (p *attempt) abort() cause {
	why := p.slot.finish()
	_ = p.conn.Close() // before the release: then the app runs it no more, as far as can be told
	p.release()
	p.up.stop()
	p.gone.disarm()
	p.conn.pool.discard(p.conn)
	return why
}

// cancelUnsent ends a trip on which nothing was sent, and gives its link back.
func (p *attempt) cancelUnsent() {
	p.slot.giveBack(p.conn)
	p.release()
}

// admit asks the node; a request without a shard needs only a lease.
func (c *client) admit() (epoch uint64, release func(), err error) {
	if !c.x.keyless {
		return c.s.o.Cluster.Admit(c.x.shard)
	}
	if c.s.o.Cluster.LeaseLeft() <= 0 {
		return 0, nil, RefusedNoLease
	}
	return 0, nothing, nil
}

func nothing() {}

// isUnread reports whether what was sent went by a lane of which the other end has read nothing,
// nor will.
func (p *attempt) isUnread() bool { return p.conn.mux != nil && p.conn.mux.Unprocessed() }

// handleUnsent ends a trip of which not one byte was sent, or none was read.
func (c *client) handleUnsent(p *attempt, err error) decision {
	c.gone.disarm()
	c.x.noteNotDelivered()
	if errors.Is(err, errNoLease) {
		p.conn.Writer().Discard()
		p.cancelUnsent()
		return decision{action: actionWait, reason: ReasonNoLease, refusal: RefusedNoLease}
	}
	why := p.abort()
	c.x.noStreams = c.x.noStreams || p.conn.mux != nil
	if !errors.Is(err, h1.ErrUnsolicitedData) { // that one had ended before
		c.s.metrics.retries[retryUnsent].Add(1)
	}
	switch {
	case c.down.Load():
		return done
	case c.replaced(why):
		return c.cede()
	case why != causeNone || p.conn.reused || p.conn.mux != nil:
		return decision{action: actionRetry}
	}
	v := decision{action: actionWait, reason: ReasonUnreachable, backoff: true, detail: c.s.unreached(err)}
	if v.code = problem.PeerUnreachable; p.r.Kind == Local {
		v.code, v.refusal = problem.UpstreamRefused, RefusedNoApp
	}
	return v
}

// writeRequest sends the head with what is there of the body: all of it, if there is
// none, or it is kept, or it has come in already. For the rest it begins an
// upload; of a body on demand nothing is sent yet.
func (c *client) writeRequest(p *attempt, w *h1.Writer) error {
	if p.r.Kind == Local {
		w.SetPrecondition(c.leaseCheck)
	}
	if p.demand {
		err := w.Flush()
		c.gone.arm()
		return err
	}
	asks := c.sendsChecked() && p.conn.canSendChecked()
	if asks {
		w.Reserve(len(c.up.kept) + askFrame)
	}
	if _, err := w.Write(c.up.kept); err != nil {
		return err
	}
	if asks && c.loop.Load() != nil {
		return p.conn.SendCheckedNonblock(c.req.Body.Trailers())
	}
	if asks {
		c.gone.arm()
		c.h.Idle()
		return p.conn.SendChecked(c.req.Body.Trailers())
	}
	if c.up.whole() {
		if err := w.Close(c.req.Body.Trailers()); err != nil {
			return err
		}
		if err := c.reply.taken(); err != nil {
			return err
		}
		c.gone.arm()
		return nil
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := c.reply.taken(); err != nil {
		return err
	}
	c.up.start(w, 0)
	return nil
}

// readResponseHeader reads heads until the final one, and passes interim ones on.
func (c *client) readResponseHeader(p *attempt, w *h1.Writer) error {
	res := &p.conn.res
	for {
		if err := p.conn.ReadResponse(res, c.req.Method()); err != nil {
			return err
		}
		p.conn.pool.markProven(p.conn)
		if p.r.Kind == Local {
			c.s.appWatch.record(c.s.clock.now())
		}
		c.reply.repaired(res)
		switch {
		case res.Switches() && !c.req.Upgrades():
			return errNotSwitched
		case !res.Interim():
			return nil
		case res.Status() == 100 && p.r.Kind == Remote && res.Value(headerContinue) != nil:
			p.conn.pool.breaker.onAccepted()
			p.conn.pool.backoff.onAccepted(c.x.limitShard())
			if p.demand {
				p.demand = false
				c.gone.disarm()
				c.up.start(w, len(c.up.kept))
			}
		default:
			if c.x.resumed != nil {
				continue // the answer has begun
			}
			if err := c.reply.interim(res); err != nil {
				return err
			}
		}
	}
}

// handleBroken ends a trip that has no answer though something was sent, and decides
// whether the request may go again.
func (c *client) handleBroken(p *attempt, err error) decision {
	why := p.abort()
	c.x.noStreams = c.x.noStreams || p.conn.mux != nil
	if why == causeNone && errors.Is(err, errPathDead) {
		why = causeDeaf
		c.s.metrics.cut(why.String(), 1)
	}
	code := brokenCode(p.r.Kind)
	// Whatever comes of it: this node may end before that is answered.
	c.x.cutRun = c.x.cutRun || c.x.safety != safeMethod || c.down.Load()
	var bad *h1.Error
	switch {
	case c.down.Load():
		return done
	case c.up.rerr != nil:
		return c.reply.badBody(c.up.rerr)
	case c.replaced(why):
		return c.cede()
	case why == causeDrain && c.x.resumed != nil:
		return c.movedOn(p)
	case why == causeDrain && c.mayAskNextOwner(p):
		return c.askNextOwner()
	case why == causeDrain:
		return fail(problem.ShardMoved, "the request was cut off because its shard moved away while it was running: it may have run")
	case why == causeLeaving:
		return c.closeLongPoll()
	case why == causeTimeout:
		return fail(problem.UpstreamTimeout, "the app did not answer in time: the request may have run")
	case errors.As(err, &bad):
		return fail(code, "the response is malformed: "+bad.Reason())
	case errors.Is(err, errNotSwitched):
		return fail(code, "the response switches protocols without being asked to")
	case errors.Is(err, os.ErrDeadlineExceeded) && why == causeNone:
		return fail(code, "the connection stalled while the request was sent or while the response head was read: the request may have run")
	}
	return c.decideRetry(p, code, why)
}

// brokenCode names what broke on the way a request went.
func brokenCode(way Kind) problem.Code {
	if way == Remote {
		return problem.PeerUnreachable
	}
	return problem.UpstreamBroken
}

// decideRetry decides about a request that may have run (G7).
func (c *client) decideRetry(p *attempt, code problem.Code, why cause) decision {
	c.x.tries++
	if p.conn.reused {
		c.x.reusedTries++
	}
	// A head tells that it did run: then a safe request goes again once, and no other.
	again := c.x.safety == safeMethod && c.x.responsesBegun < 2
	if c.x.safety == idempotentMethod {
		again = p.epoch != 0 && c.x.responsesBegun == 0
		c.x.ran, c.x.ranEpoch = true, p.epoch
	}
	if detail := c.retryDenied(p, why, again); detail != "" {
		if why == causeParting {
			return fail(problem.ShardMoved, "the request was cut off because its node stops: it may have run")
		}
		return fail(code, detail)
	}
	c.s.metrics.retries[retryBroken].Add(1)
	if c.x.tries == 1 {
		return decision{action: actionRetry}
	}
	return decision{action: actionWait, reason: ReasonUnreachable, backoff: true, code: code, detail: detailMayHaveRun}
}

// retryDenied returns why a request that may have run, and may again, is not sent again; empty:
// it is.
func (c *client) retryDenied(p *attempt, why cause, again bool) (detail string) {
	switch wrecked := c.wrecked(p, why); {
	case !again || !c.up.replayable():
		return detailMayHaveRun
	case wrecked:
		return detailMayHaveRun + ", and another process that it was sent to before has broken, too: it is sent to no third one"
	case c.x.tries >= maxTries:
		return detailMayHaveRun + ", and was sent " + strconv.Itoa(maxTries) + " times"
	case !c.retryBudgetAllows(p, why):
		return detailMayHaveRun + ", and a fifth of all requests is being sent again already"
	}
	return ""
}

// retryBudgetAllows reports whether a request may go again as far as the budget goes. A trunk that
// breaks tells nothing of the app, and takes along many that streams would have served: what
// was on it goes by one then, at no cost to those that an app has failed. A node that stops
// by plan has not failed either.
func (c *client) retryBudgetAllows(p *attempt, why cause) bool {
	if why == causeParting {
		return true
	}
	if c.x.tries == 1 && p.conn.mux != nil && p.conn.mux.SessionDraining() && (why == causeNone || why == causeDeaf) {
		return true
	}
	return c.s.budget.spend()
}

// handlePeerStopped ends a trip that the owner has cut because its process ends, and says so: it
// may have run, and was not what ended that.
func (c *client) handlePeerStopped(p *attempt) decision {
	p.abort()
	p.conn.pool.closeIdleTo(p.conn.boot)
	switch {
	case c.down.Load():
		return done
	case c.up.rerr != nil:
		return c.reply.badBody(c.up.rerr)
	}
	return c.decideRetry(p, problem.PeerUnreachable, causeShutdown)
}

// headerAcquire in an answer 421 says that the app has not acquired the shard, and has
// run nothing.
const headerAcquire = "Shardway-Acquire"

// saysNotAcquired reports whether the app says that it does not hold the shard.
func (c *client) saysNotAcquired(res *h1.Response) bool {
	return c.s.o.NotAcquired != nil && !c.x.keyless && string(res.Value(headerAcquire)) == "1"
}

// handleNotAcquired ends a trip whose shard the app does not hold, and says so to the node. The
// request has not run, and goes again once it does; an app that says so again and again
// is answered for.
func (c *client) handleNotAcquired(p *attempt) decision {
	c.x.noteNotDelivered()
	p.abort()
	c.x.notAcquired++
	switch {
	case c.down.Load():
		return done
	case c.up.rerr != nil:
		return c.reply.badBody(c.up.rerr)
	case c.x.notAcquired >= maxTries:
		return fail(problem.UpstreamBroken, "the app asks for the shard of the request again and again (Shardway-Acquire), though its acquire hook succeeds: let it note what it has acquired; the request has not run")
	}
	// What was sent before the app acquired the shard anew says nothing of that.
	if !c.s.o.Cluster.Table().newTo(c.x.shard, p.generation) {
		c.s.o.NotAcquired(c.x.shard, p.epoch)
	}
	if !c.up.replayable() {
		return fail(problem.UpstreamBroken, problem.UnheldInPart)
	}
	return decision{action: actionWait, reason: ReasonAcquiring, refusal: RefusedHeld, notAcquired: p.attemptEpoch}
}

// handleRefused ends a trip that the owner refused: no byte of it reached an app.
func (c *client) handleRefused(p *attempt) decision {
	c.x.noteNotDelivered()
	res := &p.conn.res
	refusal, ok := refusalOf(res.Known(h1.FieldShardwayRefused))
	sheds := c.x.shedThere(p)
	switch {
	case sheds:
		refusal = RefusedBusy
	case !ok:
		refusal = RefusedHeld // the word of a newer version
	}
	committed, proposed, _ := parseMap(res.Known(h1.FieldShardwayMap))
	if tries := triesOf(&res.Head); tries > c.x.tries {
		// It ran there, and was cut because the shard moves: see askNextOwner.
		c.notePoll()
		c.x.tries = tries
	}
	c.up.stop()
	c.gone.disarm()
	whole := res.Body.Drain(drainLimit) == nil && res.KeepAlive() && !c.up.broken
	if !c.up.whole() {
		p.conn.Writer().Discard() // both sides know that the body will not come
	}
	if c.slot.finish() == causeNone && whole {
		p.conn.pool.put(p.conn)
	} else {
		p.conn.pool.discard(p.conn)
	}
	p.release()
	c.s.metrics.refusals[refusal].Add(1)
	c.s.metrics.retries[retryRefused].Add(1)
	if refusal == RefusedEnded {
		p.conn.pool.closeIdleTo(p.conn.boot)
	}
	switch {
	case c.down.Load():
		return done
	case c.up.broken:
		return fail(problem.QueueTimeout, "the shard's owner refused the request after part of its body had been read")
	case c.x.tries >= maxTries:
		return fail(problem.PeerUnreachable, detailMayHaveRun)
	case refusal == RefusedEnded && p.conn.reused:
		return decision{action: actionRetry} // it may be the word of a process before the present one
	}
	v := decision{
		action: actionWait, reason: ReasonRefused, refusal: refusal, backoff: true,
		committed: committed, proposed: proposed,
	}
	if refusal == RefusedNoApp || refusal == RefusedBusy {
		v.reason = ReasonUnreachable
	}
	pool := p.conn.pool
	if refusal == RefusedNoApp {
		pool.breaker.trip(errNoApp)
		v.condition = &pool.breaker
		return v
	}
	pool.breaker.onAccepted()
	switch {
	case refusal != RefusedBusy:
	case c.x.later():
		v.condition, v.backoff = pool.upgradeBackoff.onRefused(0, false), false
	default:
		v.condition, v.backoff = pool.backoff.onRefused(c.x.limitShard(), sheds), false
		if sheds {
			v.code, v.detail = problem.ShardBusy, detailShardInflight
		}
	}
	return v
}
