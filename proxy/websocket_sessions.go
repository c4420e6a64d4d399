package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/route"
	"shardway/queue"
)

// CountUpgraded returns the number of upgraded connections to the app of this node.
func (s *Server) CountUpgraded() int {
	total := 0
	for i := range s.load.shards {
		total += int(s.load.shards[i].sockets.Load())
	}
	return total
}

// maxUpgrades is how many resumed WebSockets may await an upgrade response at the same time.
const maxUpgrades = 64

// Sessions that wait for a relay are released in batches of resumeBatch at a fixed interval. The
// rate per second is that of requests. Requests are released in larger batches, but requests that
// arrive meanwhile would wait behind a large batch of WebSockets.
const (
	resumeBatch    = 4
	resumeInterval = 3 * time.Millisecond
)

// sockets is the state of all resumable WebSockets of a node.
type webSockets struct {
	queue            *queue.Queue // sessions without a relay
	upgrades         atomic.Int32 // resumed WebSockets that await an upgrade response
	relays           atomic.Int32 // running relays
	parkedDirections atomic.Int32 // parked directions of these
	pacer            reconnectPacer
	summary          handoverSummary

	handovers handoverPacer

	mu        sync.Mutex
	exclusive map[[32]byte]*exclusiveUse // at most one for each session

	probe struct {
		sync.Mutex           // held while the app is asked
		probed     time.Time // when it was asked last whether it takes connections
		refused    bool      // it did not
	}
}

// exclusiveUse is the only request or relay of a session that the app may have.
type exclusiveUse struct {
	cancel   func()
	released chan struct{} // closed when the app does not have it any more
}

// claim registers the only request or relay of a session that the app may have. It cancels an
// earlier one, which the ingress has given up without this node having noticed. ok is false if ctx
// ended first.
func (x *webSockets) claim(ctx context.Context, id [32]byte, cut func()) (leave func(), ok bool) {
	mine := &exclusiveUse{cancel: cut, released: make(chan struct{})}
	for {
		x.mu.Lock()
		other := x.exclusive[id]
		if other == nil {
			if x.exclusive == nil {
				x.exclusive = make(map[[32]byte]*exclusiveUse)
			}
			x.exclusive[id] = mine
			x.mu.Unlock()
			return func() { x.release(id, mine) }, true
		}
		x.mu.Unlock()
		other.cancel()
		select {
		case <-other.released:
		case <-ctx.Done():
			return nil, false
		}
	}
}

func (x *webSockets) release(id [32]byte, mine *exclusiveUse) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.exclusive, id)
	close(mine.released)
}

// probeHold is how long an app must keep a connection that it accepts. A process that dies may
// accept connections a moment longer than it keeps its old ones: the kernel closes them in any
// order, and then resets those that wait to be accepted.
const probeHold = 100 * time.Millisecond

// appRefuses reports whether the app has accepted no connections since a relay ended. When an app
// dies, many relays ask at the same time. A result holds for all relays that ended before it, and
// a negative one a moment longer. A connection that was accepted before a relay ended proves
// nothing about that relay.
func (s *Server) appRefuses() bool {
	if s.upstream == nil || s.upstream.breaker.tripped.Load() {
		return true
	}
	x := &s.webSockets.probe
	ended := time.Now()
	x.Lock()
	defer x.Unlock()
	if x.probed.After(ended) || x.refused && ended.Sub(x.probed) < sweepEvery {
		return x.refused
	}
	x.probed = time.Now()
	ctx, cancel := context.WithTimeout(s.lifeCtx, s.set.Load().ConnectTimeout)
	defer cancel()
	conn, err := s.o.DialUpstream(ctx)
	x.refused = err != nil || !staysOpen(conn)
	return x.refused
}

// holds reports whether an idle connection stays open for probeHold, and closes it.
func staysOpen(conn net.Conn) bool {
	defer func() { _ = conn.Close() }()
	if conn.SetReadDeadline(time.Now().Add(probeHold)) != nil {
		return false
	}
	_, err := conn.Read(make([]byte, 1))
	return err == nil || errors.Is(err, os.ErrDeadlineExceeded)
}

// createSession creates the session of a request for a WebSocket that may be resumable.
func (c *client) createSession() {
	if isWebSocketRequest(&c.req) && !c.set.CloseSockets {
		c.x.session = newSession()
		c.escaped = true
		c.session.Store(c.x.session)
	}
}

// upgradeQueue returns the condition that the request must wait for before its node gets another
// request, or nil.
func (x *exchange) upgradeQueue(p *pool) *shardWait {
	if x.isResumption() {
		return p.upgradeBackoff.allow(0, true)
	}
	c := p.backoff.allow(x.limitShard(), x.waited && x.resumed == nil)
	if c != nil && x.resumed != nil && c.sheds.Load() {
		return nil // the limit that was exceeded does not apply to resumed streams
	}
	return c
}

// runByKind runs an attempt of a WebSocket, of a resumed event stream, or of any other request.
func (c *client) runByKind(p *attempt) decision {
	switch {
	case c.x.session != nil:
		return c.runWebSocket(p)
	case c.x.resumed != nil && p.conn.inproc != nil: // an app in this process cannot resume a stream
		p.cancelUnsent()
		c.reply.giveUp(resumeUnfit, "an app inside its node goes on with no stream")
		return done
	}
	return c.runAttempt(p)
}

// runWebSocket is runAttempt for a request that may begin a relay.
func (c *client) runWebSocket(p *attempt) decision {
	k := c.x.session
	if p.route.Kind != route.Local {
		k.delivered = c.x.isResumption()
		b := &p.conn.pool.upgradeBackoff
		v := c.runAttempt(p)
		if k.delivered && !k.relayStarted {
			b.onAccepted(0)
		}
		return v
	}
	if p.conn.inproc != nil { // an app in this process cannot upgrade
		if k.refused = int(closeMoved); c.x.isResumption() {
			p.cancelUnsent()
			return done
		}
		return c.runAttempt(p)
	}
	if k.resumed > 0 || c.x.isResumption() {
		if crowd := c.acquireUpgrade(p); crowd != nil {
			p.cancelUnsent()
			return decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedBusy, condition: crowd}
		}
	}
	mine := c.slot.load()
	leave, ok := c.s.webSockets.claim(c.wait.context(), k.id, func() { c.s.cancelRun(c, mine, causeClientGone) })
	if !ok {
		k.releaseUpgrade()
		p.cancelUnsent()
		return decision{action: actionWait, reason: route.ReasonUnreachable, refusal: route.RefusedBusy, backoff: true}
	}
	lower := c.admitted // the end of the run also releases the claim and the upgrade place
	c.admitted = func() {
		k.releaseUpgrade()
		lower()
		leave()
	}
	k.delivered = c.x.isResumption()
	return c.runAttempt(p)
}

// replaced reports whether the run was cancelled in favor of another one of the same session,
// because the node that has the client has given this one up.
func (c *client) replaced(why cause) bool {
	return why == causeClientGone && c.ingress != "" && c.x.session != nil && c.body.rerr == nil
}

// yieldToNewer ends a run that was replaced, and its connection. It does not cancel the other run
// in turn.
func (c *client) yieldToNewer() decision {
	c.x.aborted = true
	return done
}

// upgrades takes one of the places for resumed WebSockets, or returns the condition to wait for.
func (c *client) acquireUpgrade(p *attempt) *shardWait {
	b, n := &p.conn.pool.upgradeBackoff, &c.s.webSockets.upgrades
	if crowd := b.allow(0, true); crowd != nil {
		return crowd
	}
	if n.Add(1) > maxUpgrades {
		n.Add(-1)
		return b.onRefused(0, false)
	}
	c.x.session.freeUpgrade = func() {
		n.Add(-1)
		b.onAccepted(0)
	}
	return nil
}

// answered records that the app has responded to an upgrade, or that its connection is closed.
func (k *webSocketSession) releaseUpgrade() {
	if done := k.freeUpgrade; done != nil {
		k.freeUpgrade = nil
		done()
	}
}

// sweepSession tells the client of a session to reconnect if this node is leaving. The clients of a
// node are told one after the other.
func (s *Server) sweepSession(c *client, k *webSocketSession, now time.Duration) {
	if !s.closing.Load() {
		return
	}
	if k.reconnectAt == 0 {
		k.reconnectAt = now + 1 + time.Duration(rand.Int64N(max(int64(s.o.ReconnectSpread), 1))) //nolint:gosec // it spreads load
	}
	if now < k.reconnectAt {
		return
	}
	if l := c.slot.webSocket.Load(); l != nil {
		l.request(requestReconnect | requestStop | requestClose)
		l.abortUpstreamAfter(endWait)
	}
	if end := k.wait.Load(); end != nil {
		(*end)()
	}
}

// sweepRelay requests a hand-over of a relay whose shard moves: at once at the node that has the
// client, and at the owner if the request of that node does not arrive in time.
func (s *Server) sweepRelay(c *client, r run, t *route.Table, now time.Duration) {
	l := c.slot.webSocket.Load()
	if l == nil || r.flags&slotKeyless != 0 {
		return
	}
	if int(r.shard) < t.Shards() && !isMoving(r, c.slot.node.Load(), t.Route(r.shard)) {
		c.movedAt = 0
		return
	}
	if c.movedAt == 0 {
		c.movedAt = now
		if l.client {
			s.webSockets.handovers.ask(l)
		}
	}
	if now-c.movedAt >= moveAfter {
		l.request(requestMove)
	}
}

// departs reports whether the shard of a relay is about to move. An owner that is only silent may
// still serve it.
func isMoving(r run, node *string, dest *route.Route) bool {
	if r.kind == route.Remote && dest.Kind == route.Held {
		return dest.Reason == route.ReasonMoving || dest.Reason == route.ReasonAbsent
	}
	return !isAtRoute(r, node, dest)
}
