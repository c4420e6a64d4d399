package proxy

import (
	"time"

	"shardway/proxy/h1"
)

// What a loop does of the life of a request that flow.go has whole: ask is next, exchange
// and attempt as far as the request has gone out, and answer is the rest. Their steps are the
// flow's own, in its order. What would wait there, or has another way to go, leaves for it:
// before anything has begun at atHead, where exchange begins anew.

// place is where the goroutine of a client goes on that has been in a loop.
type place uint8

const (
	atNext    place = iota // the next request is to be waited for
	atHead                 // a request has been read
	atAnswer               // its answer is to be waited for
	atVerdict              // an attempt has come to a verdict
	atUnsent               // the end of its answer is still to be sent
	atSettle               // it is over
)

// looped is what a client is in its loop.
type looped struct {
	id     uint64
	speaks bool   // there may be something to read
	ended  bool   // the client has ended its side, which nobody will say again
	perch  *perch // of the link by which its request is under way; nil: none is
}

// flight is a run that has gone out in a loop.
type flight struct {
	trip
	began  time.Duration
	sent   int64   // to the client before it
	before int64   // over its link before it
	v      verdict // what came of it, at atVerdict
}

// ask runs the next request as far as it can be sent at once.
func (c *client) ask() {
	l, before := c.by.Load(), c.h.Received()
	switch found := c.h.TryReadRequest(&c.req); found {
	case h1.ParseNoData:
		c.looped.speaks = false
		c.h.Idle()
		return
	case h1.ParseComplete:
		if c.h.Received() != before { // else what has come meanwhile is still there
			c.looped.speaks = c.looped.ended || c.h.MayHaveMore()
		}
	case h1.ParseIncomplete, h1.ParseMustBlock:
		if len(c.h.Buffered()) > 0 {
			c.habit.unfit()
		}
		l.leave(c, atNext)
		return
	}
	c.idle.Store(0)
	c.use(c.s.set.Load())
	if !c.setOut(l) {
		l.leave(c, atHead)
		return
	}
	p := &c.flight.trip
	if v := c.depart(p); v.step != 0 {
		c.ran(p, v, c.flight.began, c.flight.sent)
		c.flight.v = v
		l.leave(c, atVerdict)
		return
	}
	c.at = atAnswer
	if p.l.Writer().Pending() > 0 {
		l.leave(c, atAnswer)
	}
}

// setOut begins the run of a request that is as most are. False: nothing has begun.
func (c *client) setOut(l *loop) bool {
	if !c.plain() {
		c.habit.unfit()
		return false
	}
	c.open()
	t := c.s.o.Cluster.Table()
	by := c.keysBy(t)
	c.keys.keys = by
	found, bad := c.keys.find(false)
	if bad != nil || found.keyless || t.Shards() == 0 {
		c.habit.unfit()
		return false
	}
	c.x.found, c.x.by = found, by
	c.x.inShard(t)
	r := t.Route(c.x.shard)
	if r.Kind != Local || c.quarantined() {
		if r.Kind == Remote {
			c.habit.unfit()
		}
		return false
	}
	if !c.asks() { // it may have to be waited for until the app takes it
		c.habit.unfit()
		return false
	}
	k := c.wait.idleLink(c.s.upstream, l)
	if k == nil {
		return false
	}
	if !k.mayAsk() || !l.fly(k, c) {
		c.s.upstream.put(k)
		return false
	}
	p := &c.flight.trip
	if v := c.enter(p, k, t, r); v.step != 0 {
		return false
	}
	c.s.budget.earn()
	c.s.load.sample(c.x.key)
	c.board(p)
	c.flight.began, c.flight.sent = c.sets()
	c.flight.before = k.Sent()
	return true
}

// plain reports whether the request that has been read is one of those that a loop carries,
// all of which is here.
func (c *client) plain() bool {
	r := &c.req
	if !r.KeepAlive() || c.draining() || r.Upgrades() || r.Expects() || c.logs() {
		return false
	}
	if c.set.ProbePath != "" && string(r.Path()) == c.set.ProbePath || c.hidden() {
		return false
	}
	if r.Body.Done() {
		return true
	}
	c.up.reset() // the one before may have been too long to be kept
	if c.set.MaxBody > 0 && r.Body.Limit(c.set.MaxBody) != nil {
		return false
	}
	return c.up.take() == nil && r.Body.Done()
}

// answer passes the answer on that has come.
func (c *client) answer() {
	l, p := c.by.Load(), &c.flight.trip
	res := &p.l.res
	switch found := p.l.TryReadResponse(res, c.req.Method()); {
	case found == h1.ParseNoData, found == h1.ParseIncomplete:
		return
	case found == h1.ParseMustBlock, isEvents(res):
		c.habit.unfit()
		l.leave(c, atAnswer)
		return
	}
	p.l.ConsumeResponse(res)
	p.l.pool.settle(p.l)
	if p.r.Kind == Local {
		c.s.appWatch.hear(c.s.clock.now())
	}
	c.reply.repaired(res)
	l.land(c)
	p.l.SetWakeup(nil)
	v := c.answered(p)
	c.ran(p, v, c.flight.began, c.flight.sent)
	switch {
	case v.step != stepDone:
		c.flight.v = v
		l.leave(c, atVerdict)
	case c.x.unsent:
		l.leave(c, atUnsent)
	default:
		c.s.metrics.looped.Add(1)
		c.over()
		c.settleIn(l)
	}
}

// settleIn ends an exchange whose answer has gone out.
func (c *client) settleIn(l *loop) {
	c.up.free()
	if !c.x.keep || c.x.cut || !c.req.Body.Done() {
		l.leave(c, atSettle)
		return
	}
	c.habit.fits()
	c.at = atNext
	c.h.Idle()
	c.idle.Store(int64(c.s.clock.now()))
	if c.looped.speaks || len(c.h.Buffered()) > 0 {
		l.more = append(l.more, c)
	}
}

// exchangeFrom is the rest of exchange for a request of which a loop has carried the rest.
func (c *client) exchangeFrom(at place) {
	defer c.over()
	f := &c.flight
	if at == atUnsent {
		c.x.cut = c.h.Flush() != nil
		return
	}
	v := f.v
	if at == atAnswer {
		c.gone.arm()
		v = c.arriveFrom(f)
		c.ran(&f.trip, v, f.began, f.sent)
	}
	c.ingressLoop(f.t, v)
	c.x.leaveQueue()
	c.resume()
}

// arriveFrom is arrive for a run that has gone out in a loop, as far as it has.
func (c *client) arriveFrom(f *flight) verdict {
	switch err := f.l.FlushPending(); {
	case err == nil:
		return c.arrive(&f.trip)
	case f.l.Sent() == f.before:
		return c.notSent(&f.trip, err)
	default:
		return c.broken(&f.trip, err)
	}
}

// habit is what is known of a connection's requests: one whose requests are none for a loop
// is not carried by one for the next few, and each time it was tried in vain for twice as
// many.
type habit struct {
	rests int // requests that its goroutine carries before a loop is tried again
	next  int // how many that are the next time
	good  int // that a loop has carried since then
}

const (
	restFirst = 16
	restMost  = 1024
	// restOver is how many requests a loop has carried when it is for a loop again.
	restOver = 32
)

func (h *habit) unfit() {
	h.next = min(max(2*h.next, restFirst), restMost)
	h.rests, h.good = h.next, 0
}

func (h *habit) fits() {
	if h.good++; h.good == restOver {
		h.next = 0
	}
}

// joins reports whether a loop is to wait for the next request, and carry it: then the
// caller has nothing to do with the connection any more.
func (c *client) joins() bool {
	switch {
	case c.loops == nil || len(c.h.Buffered()) > 0 || c.logs() || c.draining() || c.roused.Load() || c.ends():
		return false
	case c.habit.rests > 0:
		c.habit.rests--
		return false
	}
	return c.goes()
}

// goes has a loop carry the connection.
func (c *client) goes() bool {
	c.away = true
	return true
}

// rouse has the connection parked, which has been idle for long enough.
func (c *client) rouse() {
	if c.by.Load() == nil {
		c.h.RequestPark()
		return
	}
	c.roused.Store(true)
	c.poke()
}
