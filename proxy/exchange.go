package proxy

import (
	"math/rand/v2"
	"time"

	"shardway/internal/problem"
	"shardway/queue"
	"shardway/shardmap"
)

// exchange is one request on its way, and what is to become of its connection.
type exchange struct {
	key       []byte
	shard     shardmap.Shard
	sharded   bool   // shard is set
	keyless   bool   // no key: any app will do, that of this node first
	newCookie []byte // value of the sticky cookie to set
	safety    safety
	id        [2]uint64 // X-Request-Id of a request that came without; zero: not made yet

	route  Kind // the way it went last; zero: none
	waited bool // it counted as held
	tries  int  // times it was sent and may have run, at other nodes too
	stale  int  // of these, over a connection used before
	heads  int  // of these, with the head of an answer

	// ran is set once a PUT or DELETE may have run, in ranEpoch: it goes again
	// only to the same one, and never if that is zero, unknown.
	ran      bool
	ranEpoch uint64

	ticket   *queue.Ticket
	deadline time.Time     // of all waiting; zero: there was none yet
	pause    time.Duration // the last back-off

	account account // of the access log

	// Of a request from another node.
	onDemand      bool   // its body comes when it is asked for
	clientExpects bool   // the client waits for a 100 itself
	tells         bool   // the body is there, and the ingress asks whether the app takes it
	asked         bool   // it has been asked for, or told
	wantEpoch     uint64 // serve it in this ownership epoch only; zero: any

	// What becomes of the connection.
	keep bool // it may carry another request
	cut  bool // it is, or has to be, closed as it stands
}

// mayHaveRun reports whether an attempt broke off after something was sent.
func (x *exchange) mayHaveRun() bool { return x.tries > 0 }

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

// step says what is to be done after an attempt.
type step uint8

const (
	stepDone  step = iota + 1 // answered, or given up with its connection
	stepAgain                 // go again at once
	stepHold                  // wait, then go again
	stepFail                  // answer with a problem
)

// verdict is what an attempt came to.
type verdict struct {
	step step

	// Of stepHold. Refusal is what another node is told, and what the problem
	// speaks of when the time is over; backoff: look again after a while even if
	// the table stays; committed and proposed: wait until they are applied.
	reason              Reason
	refusal             Refusal
	backoff             bool
	committed, proposed uint64
	seen                uint64 // the table that was looked at
	gate                door   // wait for this besides: it tells when it is worth another look

	// Of stepFail, and of stepHold when nothing else says it better.
	code   problem.Code
	detail string
}

var done = verdict{step: stepDone}

// fail returns the verdict that ends a request with a problem.
func fail(code problem.Code, detail string) verdict {
	return verdict{step: stepFail, code: code, detail: detail}
}

// exchange runs the request that has been read and answers it.
func (c *client) exchange() {
	c.x = exchange{
		safety: safetyOf(c.req.Method()),
		keep:   c.req.KeepAlive() && !c.draining(),
	}
	c.openAccount()
	defer c.closeAccount()
	c.up = upload{done: c.up.done}
	c.s.budget.earn()
	if c.set.MaxBody > 0 {
		if err := c.req.Body.Limit(c.set.MaxBody); err != nil {
			c.answer(&problem.Problem{Code: problem.TooLarge, Detail: "the body is longer than max_body allows"})
			return
		}
	}
	if c.ingress != "" {
		c.owner()
		return
	}
	if c.probe() || !c.findKey() {
		return
	}
	if err := c.gather(); err != nil {
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
	switch r := t.Route(c.x.shard); r.Kind {
	case Local:
		return c.local(t, r)
	case Remote:
		return c.remote(t, r)
	case Held:
		return verdict{step: stepHold, reason: r.Reason, refusal: refusalFor(r)}
	}
	panic("proxy: a route without a kind")
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

// refusalFor says why a node that finds r does not serve the shard.
func refusalFor(r *Route) Refusal {
	switch {
	case r.Kind != Held:
		return RefusedNotOwner
	case r.Reason == ReasonNoLease:
		return RefusedNoLease
	case r.Reason == ReasonOrphaned:
		return RefusedNotOwner
	}
	return RefusedHeld
}

// local runs the request on the app behind this node.
func (c *client) local(t *Table, r *Route) verdict {
	if c.s.upstream == nil {
		return fail(problem.Misrouted, "this node is a gateway: it has no app")
	}
	if c.req.Upgrades() && c.s.streams.full() {
		return fail(problem.UpstreamBusy, "as many streams and upgraded connections are open as may be (--streams)")
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
	c.leaveQueue()
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

// giveBack ends a run in which nothing was sent.
func (c *client) giveBack(l *link) {
	if c.slot.finish() != causeNone {
		l.pool.drop(l)
		return
	}
	l.pool.put(l)
}

// remote has another node run the request.
func (c *client) remote(t *Table, r *Route) verdict {
	if c.x.ran && (c.x.ranEpoch == 0 || c.x.ranEpoch != r.Epoch) {
		return fail(problem.PeerUnreachable, mayHaveRun)
	}
	p := c.s.peers.pool(r.Node)
	if crowd := p.busy.pass(c.countsFor()); crowd != nil {
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
	c.leaveQueue()
	return c.timed(&trip{l: l, t: t, r: r, epoch: r.Epoch, release: nothing})
}

// leaveQueue gives the place in the queue back.
func (c *client) leaveQueue() {
	if c.x.ticket != nil {
		c.x.ticket.Leave()
		c.x.ticket = nil
	}
}
