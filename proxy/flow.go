package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"shardway/internal/problem"
	"shardway/proxy/h1"
	"shardway/shardmap"
)

// The life of a request, from the first byte of its head to what is left of its body,
// in the order in which it happens: serve, next, exchange, then the loop of a client's
// request or of a forwarded one, attempt, local or remote, run, relay (relay.go), and
// settle. What an attempt came to is a verdict, and only the two loops act on it.

// serve carries one request after the other until the connection ends.
func (c *client) serve() {
	c.s.conns.add(c)
	defer c.s.conns.remove(c)
	defer c.s.heads.over(&c.head)
	defer c.cancel()
	stop := context.AfterFunc(c.ctx, func() { c.shut(causeShutdown) })
	defer func() {
		stop()
		if v := recover(); v != nil {
			c.fall(v)
			return
		}
		_ = c.h.Close() // the last use of it
		c.h.Release()
	}()
	if c.s.hard.Err() != nil {
		c.shut(causeShutdown) // as Shutdown did with those that there were
	}
	for c.next() {
		c.exchange()
		if !c.settle() {
			return
		}
	}
}

// next reads a request head; false means that there is none to run.
func (c *client) next() bool {
	c.h.Idle()
	c.idle.Store(int64(c.s.clock.now()))
	err := c.h.ReadRequest(&c.req)
	c.idle.Store(0)
	c.use(c.s.set.Load())
	if err == nil {
		return true
	}
	c.x = exchange{}
	var bad *h1.Error
	switch {
	case errors.As(err, &bad):
		c.answerBad(bad)
		c.accountBad()
		c.h.CloseLinger()
	case errors.Is(err, os.ErrDeadlineExceeded) && len(c.h.Buffered()) > 0:
		c.answerSlow()
		c.accountBad()
		c.h.CloseLinger()
	}
	return false
}

// exchange runs the request that has been read and answers it.
func (c *client) exchange() {
	c.x = exchange{
		safety: safetyOf(c.req.Method()),
		keep:   c.req.KeepAlive() && !c.draining(),
	}
	c.openAccount()
	defer c.closeAccount()
	c.up.reset()
	c.s.budget.earn()
	if c.set.MaxBody > 0 {
		if err := c.req.Body.Limit(c.set.MaxBody); err != nil {
			c.answer(&problem.Problem{Code: problem.TooLarge, Detail: "the request body exceeds the limit (--max-body)"})
			return
		}
	}
	if c.ingress != "" {
		c.owner()
		return
	}
	if c.probe() {
		return
	}
	var bad *problem.Problem
	if c.x.found, bad = c.keys.find(c.s.upstream == nil); bad != nil {
		c.answer(bad)
		return
	}
	if err := c.up.gather(c.x.onDemand, c.set.MaxBodyTotal); err != nil {
		c.badBody(err)
		return
	}
	c.ingressLoop()
	if c.x.ticket != nil {
		c.x.ticket.Leave()
	}
}

// ingressLoop goes by the table until the request is answered.
func (c *client) ingressLoop() {
	for {
		t := c.s.o.Cluster.Table()
		v := c.attempt(t)
		switch v.step {
		case stepDone:
			return
		case stepAgain:
			continue
		case stepHold:
			v.seen = t.generation
			if v = c.timedHold(v); v.step == stepAgain {
				continue
			}
		case stepFail:
		}
		if v.step == stepFail && !c.down.Load() {
			c.answerFailure(v)
		}
		return
	}
}

// owner serves a request that another node forwarded, or refuses it. It never
// forwards it (G8), and it waits no longer than ownerWait: requests wait where
// their client is.
func (c *client) owner() {
	committed, proposed, ok := c.readForwarded()
	if !ok {
		c.answer(&problem.Problem{Code: problem.Misrouted, Detail: "not a forwarded request"})
		c.x.keep = false
		return
	}
	t := c.s.o.Cluster.Table()
	if committed > t.committed || proposed > t.proposed {
		// Without a lease there is nothing to wait for, and what waits here when
		// the shard is taken counts as sent: a node whose disk hangs is behind
		// for seconds.
		if c.s.o.Cluster.LeaseLeft() <= 0 {
			c.refuse(RefusedNoLease)
			return
		}
		if !c.catchUp(committed, proposed) {
			c.refuse(RefusedHeld)
			return
		}
		t = c.s.o.Cluster.Table()
	}
	if int(c.x.shard) >= t.Shards() {
		c.refuse(RefusedHeld)
		return
	}
	for {
		v := c.ownerAttempt(t)
		switch v.step {
		case stepAgain:
			t = c.s.o.Cluster.Table()
			continue
		case stepHold:
			if c.ownerPause(v) {
				t = c.s.o.Cluster.Table()
				continue
			}
			c.ownerHold(v)
		case stepFail:
			if !c.down.Load() {
				c.answerFailure(v)
			}
		case stepDone:
		}
		return
	}
}

// ownerAttempt runs the request if this node owns its shard.
func (c *client) ownerAttempt(t *Table) verdict {
	if c.x.keyless {
		return c.local(t, &c.s.keyless)
	}
	r := t.Route(c.x.shard)
	if r.Kind != Local {
		return verdict{step: stepHold, refusal: refusalFor(r)}
	}
	if err := c.up.gather(c.x.onDemand, c.set.MaxBodyTotal); err != nil {
		return c.badBody(err)
	}
	return c.local(t, r)
}

// attempt sends the request where the table says, once.
func (c *client) attempt(t *Table) verdict {
	if t.Shards() == 0 {
		return verdict{step: stepHold, reason: ReasonNoMap, refusal: RefusedHeld}
	}
	if !c.x.sharded && !c.x.keyless {
		c.x.shard, c.x.sharded = shardmap.OfBytes(c.x.key, t.Shards()), true
	}
	switch {
	case c.x.keyless && c.s.upstream == nil:
		return c.anywhere(t)
	case c.x.keyless:
		return c.local(t, &c.s.keyless)
	}
	r := t.Route(c.x.shard)
	switch r.Kind {
	case Local:
		return c.local(t, r)
	case Remote:
		return c.remote(t, r)
	case Held:
	}
	return verdict{step: stepHold, reason: r.Reason, refusal: refusalFor(r)}
}

// anywhere has some node run a request without a key: this one is a gateway.
func (c *client) anywhere(t *Table) verdict {
	first := rand.IntN(t.Shards()) //nolint:gosec // it spreads load and keeps no secret
	for i := range t.Shards() {
		// Of the shard it takes that it is this node's, as with any other request.
		c.x.shard = shardmap.Shard((first + i) % t.Shards())
		if r := t.Route(c.x.shard); r.Kind == Remote {
			return c.remote(t, &Route{Kind: Remote, Node: r.Node})
		}
	}
	r := t.Route(c.x.shard)
	return verdict{step: stepHold, reason: r.Reason, refusal: refusalFor(r)}
}

// local runs the request on the app behind this node.
func (c *client) local(t *Table, r *Route) verdict {
	if c.s.upstream == nil {
		return fail(problem.Misrouted, "this node is a gateway: it has no app")
	}
	if c.req.Upgrades() && c.s.streams.full() {
		return fail(problem.UpstreamBusy, "the maximum number of streams and upgraded connections is open (--streams)")
	}
	l, v := c.link(c.s.upstream)
	if l == nil {
		return v
	}
	// The run begins first: a Cut after the node has stopped admitting must find it.
	if !c.begin(Local, l, nil) {
		c.giveBack(l)
		return done
	}
	epoch, release, err := c.admit()
	if err == nil && (c.x.wantEpoch != 0 && c.x.wantEpoch != epoch) {
		release()
		err = RefusedNotOwner
	}
	if err != nil {
		c.giveBack(l)
		refusal, ok := err.(Refusal) //nolint:errorlint // Admit returns it bare, and this allocates nothing
		if !ok {
			refusal = RefusedHeld
		}
		reason := ReasonMoving
		if refusal == RefusedNoLease {
			reason = ReasonNoLease
		}
		// A newer table tells when to look again, also of a lease that came back.
		return verdict{step: stepHold, reason: reason, refusal: refusal}
	}
	if c.x.ran && c.x.ranEpoch != epoch {
		release()
		c.giveBack(l)
		return fail(problem.UpstreamBroken, mayHaveRun)
	}
	c.x.leaveQueue()
	c.admitted = release
	return c.timed(&trip{l: l, t: t, r: r, epoch: epoch, release: c.lower})
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

// remote has another node run the request.
func (c *client) remote(t *Table, r *Route) verdict {
	if c.x.ran && (c.x.ranEpoch == 0 || c.x.ranEpoch != r.Epoch) {
		return fail(problem.PeerUnreachable, mayHaveRun)
	}
	p := c.s.peers.pool(r.Node)
	if crowd := p.busy.pass(c.x.countsFor()); crowd != nil {
		return verdict{step: stepHold, reason: ReasonUnreachable, refusal: RefusedBusy, gate: crowd}
	}
	l, v := c.link(p)
	if l == nil {
		return v
	}
	// As with local: an Abandon after the table was swapped must find the run.
	if !c.begin(Remote, l, &r.Node) || c.s.o.Cluster.Table() != t {
		c.giveBack(l)
		if c.down.Load() {
			return done
		}
		return verdict{step: stepAgain}
	}
	c.x.leaveQueue()
	return c.timed(&trip{l: l, t: t, r: r, epoch: r.Epoch, release: nothing})
}

// timed runs a trip and keeps account of it.
func (c *client) timed(p *trip) verdict {
	a := &c.x.account
	if a.began.IsZero() {
		return c.run(p)
	}
	began := time.Now()
	a.epoch = p.epoch
	if a.owner = c.s.o.Node; p.r.Kind == Remote {
		a.owner = p.r.Node
	}
	v := c.run(p)
	a.upstream += time.Since(began)
	return v
}

// run sends the request, once, and relays the answer.
func (c *client) run(p *trip) verdict {
	c.x.route = p.r.Kind
	if err := c.up.take(); err != nil {
		c.giveBack(p.l)
		p.release()
		return c.badBody(err)
	}
	if p.l.seat != nil {
		return c.call(p)
	}
	p.demand = p.r.Kind == Remote && !c.up.whole()
	before := p.l.Sent()
	w := c.writeRequestHead(p)
	if err := c.send(p, w); err != nil {
		if p.l.Sent() == before {
			return c.notSent(p, err)
		}
		return c.broken(p, err)
	}
	if !c.up.running { // nothing flows until the answer comes
		c.h.Idle()
		w.Idle()
	}
	if err := c.awaitAnswer(p, w); err != nil {
		return c.broken(p, err)
	}
	res := &p.l.res
	switch {
	case p.r.Kind == Remote && res.Status() == 421 && res.Has(h1.FieldShardwayRefused):
		return c.refused(p)
	case res.Switches():
		return c.tunnel(p)
	}
	return c.relay(p)
}

// send sends the head with what is there of the body: all of it, if there is
// none, or it is kept, or it has come in already. For the rest it begins an
// upload; of a body on demand nothing is sent yet.
func (c *client) send(p *trip, w *h1.Writer) error {
	if p.r.Kind == Local {
		w.Gate(c.gate)
	}
	if p.demand {
		err := w.Flush()
		c.gone.arm()
		return err
	}
	if _, err := w.Write(c.up.kept); err != nil {
		return err
	}
	if c.up.whole() {
		if err := w.Close(c.req.Body.Trailers()); err != nil {
			return err
		}
		if err := c.tellTaken(); err != nil {
			return err
		}
		c.gone.arm()
		return nil
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := c.tellTaken(); err != nil {
		return err
	}
	c.up.start(w, 0)
	return nil
}

// awaitAnswer reads heads until the final one, and passes interim ones on.
func (c *client) awaitAnswer(p *trip, w *h1.Writer) error {
	res := &p.l.res
	for {
		if err := p.l.ReadResponse(res, c.req.Method()); err != nil {
			return err
		}
		p.l.pool.settle(p.l)
		switch {
		case res.Switches() && !c.req.Upgrades():
			return errNotSwitched
		case !res.Interim():
			return nil
		case res.Status() == 100 && p.r.Kind == Remote && res.Value(headerContinue) != nil:
			p.l.pool.gate.served()
			p.l.pool.busy.took(c.x.countsFor())
			if p.demand {
				p.demand = false
				c.gone.disarm()
				c.up.start(w, len(c.up.kept))
			}
		default:
			if err := c.relayInterim(res); err != nil {
				return err
			}
		}
	}
}

// drainLimit is how much of a body that nobody wants is read, so that the
// connection can go on.
const drainLimit = 64 << 10

// settle brings the connection to the next request: what is left of the body is
// read away, or else the connection is closed so that the client can still read
// its answer. False means that it is closed.
func (c *client) settle() bool {
	c.up.free()
	if c.x.onDemand && !c.x.asked {
		return c.x.keep // the ingress has not sent the body and will not
	}
	if c.x.cut {
		return false
	}
	body := &c.req.Body
	if c.x.keep && body.Done() {
		return true
	}
	if c.x.keep && !c.up.broken && c.drains() {
		usual := c.h.Timeouts()
		hasty := usual // the rate stays: this is a body as any other
		hasty.Body = min(usual.Body, time.Second)
		c.h.SetTimeouts(hasty)
		err := body.Drain(drainLimit)
		c.h.SetTimeouts(usual)
		if err == nil {
			return true
		}
	}
	c.h.CloseLinger()
	return false
}

// drains reports whether the rest of the body may be worth reading away: it is
// not known to be too long, and not one that the client may never send.
func (c *client) drains() bool {
	body := &c.req.Body
	return body.Remaining() <= drainLimit && (!c.req.Expects() || body.Begun())
}
