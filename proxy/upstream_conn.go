package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"shardway/internal/address"
	"shardway/internal/problem"
	"shardway/internal/rawio"
	"shardway/proxy/h1"
)

// freshFor is for how long after its last use a connection is trusted with a
// request that must not be sent twice. It is measured in steps of sweepEvery, so
// it is a step short of a second.
const freshFor = time.Second - sweepEvery

// errNoLease keeps a request from being sent: the lease ended after admission.
var errNoLease = errors.New("proxy: no lease")

// upstreamConn is a connection to the app, or to another node, that carries one request
// after another. Whoever got it from its pool owns it until put or drop.
type upstreamConn struct {
	*h1.Conn
	res       h1.Response
	pool      *pool
	checkable bool          // can be looked at without reading
	reused    bool          // has carried a request before
	idleSince time.Duration // by the pool's clock, when it became idle

	mux         muxStream    // that it is; nil: it has a connection of its own
	singleUse   bool         // it is for one socket, and nobody after that
	unencrypted bool         // nothing seals it, as far as is known
	boot        uint64       // of the node's process at the other end; zero: not told
	nonce       uint64       // of that process; zero: not told
	generation  uint64       // of its pool when it was asked for
	inproc      *handlerConn // of the app in this process; nil: it is a connection

	awaitingUpgrade bool // a socket asks with it for its next leg; the pool's
	shard           int  // the shard that it counts for, or unshared; the pool's
	whole           bool // what it carries has its whole answer, see answered; the pool's
	longLived       bool // it counts among the streams; guarded by the pool's mu

	loop     *eventLoop    // that hears of it; nil: none does. Its owner's
	loopSlot *upstreamSlot // its place there

	// unproven is set while the pool counts it as new, until settling ends that.
	unproven    atomic.Bool
	provenTimer *time.Timer
}

// A request that asks at once is looked at as a whole before it goes out: its connection
// is looked at with the first byte, and not before. Its body is no longer than askBody,
// and askFrame more than a chunk's frame, so that nothing of it goes earlier.
const (
	askBody  = 4 << 10
	askFrame = 16
)

// sendsChecked reports whether the request asks at once, see h1.Conn.Ask. What it says of a
// request whose connection is chosen it says when that is used.
func (a *requestState) sendsChecked() bool {
	return a.body.whole() && len(a.body.buffered) <= askBody && !a.x.wantAccepted
}

// canSendChecked reports whether Ask can look at the link. What the other end says first on a
// new one is taken for its answer.
func (l *upstreamConn) canSendChecked() bool { return l.reused && l.CanSendChecked() }

// acquireConn gets a connection: an idle one, or else the next that is given back or newly
// made. Without one it returns the verdict.
func (w *requestWait) acquireConn(p *pool) (*upstreamConn, decision) {
	fresh, maxInflight := w.mustBeFresh(), w.maxInflight(p)
	newOnly := w.x.reusedTries >= maxReusedTries
	if !newOnly && (p.node == "" || !w.x.isResumption()) {
		if l := w.takeIdleConn(p, nil); l != nil {
			return l, decision{}
		}
	}
	in := &waiter{shard: w.x.limitShard(), fresh: fresh, maxInflight: maxInflight, newOnly: newOnly, forUpgrade: w.x.isResumption(), streamAllowed: w.x.mayUseStream(), hasWaited: w.x.waited && w.ingress == ""}
	for {
		l, dialed, err := p.join(in)
		if l == nil && err == nil {
			l, err = w.waitInQueue(p, in, dialed)
		}
		switch {
		case err != nil:
			return nil, w.acquireFailed(p, err)
		case !l.reused, !in.newOnly && l.Alive() && (!fresh || l.checkable):
			p.probeWithIdle()
			return l, decision{}
		}
		p.discard(l) // a new one is made in its place
		in.newOnly = false
	}
}

// mustBeFresh reports whether the connection has to be one used just now: where one broke, others
// may have.
func (w *requestWait) mustBeFresh() bool { return w.x.safety != safeMethod || w.x.mayHaveRun() }

// maxInflight returns how many requests of its shard may be under way; zero: any number. The streams
// of a shard that moves come back together, and had their places.
func (w *requestWait) maxInflight(p *pool) int {
	if p.node != "" || w.x.resumed != nil || w.x.wasResumed > 0 {
		return 0
	}
	return w.set.MaxShardInflight
}

// takeIdleConn takes an idle connection, for a loop one that it hears if there is one; nil:
// there is none.
func (w *requestWait) takeIdleConn(p *pool, by *eventLoop) *upstreamConn {
	return p.get(connRequest{shard: w.x.limitShard(), fresh: w.mustBeFresh(), maxInflight: w.maxInflight(p), checkedOnSend: w.sendsChecked(), loop: by})
}

// waitInQueue waits in line. Only who waits for others to be done takes a place in the
// queue: dialed says that there will be a connection as soon as it can be made.
func (w *requestWait) waitInQueue(p *pool, in *waiter, dialed bool) (*upstreamConn, error) {
	limit := ownerWait
	if w.ingress == "" {
		limit = w.timeLeft(time.Now()) // connecting counts as waiting
	}
	if in.shardMoved(w.s.o.Cluster.Table(), p.node) {
		_ = p.leaveQueue(in)
		return nil, errRouteChanged
	}
	if dialed {
		return p.await(in, w.context().Done(), max(limit, w.s.set.Load().ConnectTimeout+ownerWait))
	}
	if w.ingress == "" {
		if v := w.enterQueue(); v.action != 0 {
			_ = p.leaveQueue(in)
			return nil, &queueFullError{v}
		}
	}
	w.disconnect.arm()
	w.disconnect.start()
	defer w.disconnect.disarm()
	return p.await(in, w.context().Done(), limit)
}

// queueFullError ends a wait for a connection that the queue had no place for.
type queueFullError struct{ v decision }

func (e *queueFullError) Error() string { return e.v.detail }

// acquireFailed makes a verdict of why there is no connection.
func (w *requestWait) acquireFailed(p *pool, err error) decision {
	var full *queueFullError
	switch {
	case w.down.Load():
		return done
	case errors.As(err, &full):
		return full.v
	case errors.Is(err, errRouteChanged):
		return decision{action: actionRetry}
	case errors.Is(err, errShardInflightLimit):
		return w.x.shardInflightFull()
	}
	v := decision{action: actionWait, reason: ReasonUnreachable, backoff: true}
	if p.breaker.tripped.Load() {
		v.condition, v.backoff = &p.breaker, false
	}
	if errors.Is(err, errBreakerOpen) {
		err = p.breaker.reason()
	}
	switch {
	case errors.Is(err, errNoApp):
		v.refusal = RefusedNoApp
		return v
	case p.node != "":
		v.code = problem.PeerUnreachable
	case errors.Is(err, errShardConnLimit):
		v.code, v.refusal = problem.UpstreamBusy, RefusedBusy
		v.detail = "all connections to the app that one shard may use are busy (--max-shard-conns)"
		return v
	case errors.Is(err, errBusy):
		v.code, v.refusal = problem.UpstreamBusy, RefusedBusy
		v.detail = "all connections to the app are busy (--max-upstream-conns)"
		return v
	case errors.Is(err, errDialing):
		// What is being made may still come about: the app is not to blame.
		v.code, v.refusal = problem.QueueTimeout, RefusedBusy
		v.detail = "no connection to the app was made in time for the request"
		return v
	case errors.Is(err, errStopping):
		// The app may be well; who owns the shard next is to be waited for.
		v.code, v.refusal = problem.QueueTimeout, RefusedHeld
		v.detail = "this node is stopping"
		return v
	case isTimeout(err):
		v.code, v.refusal = problem.UpstreamConnectTimeout, RefusedNoApp
	default:
		v.code, v.refusal = problem.UpstreamRefused, RefusedNoApp
	}
	v.detail = w.s.unreached(err)
	return v
}

// newLink wraps a connection just made.
func (s *Server) newLink(conn net.Conn, set *Settings, o h1.Options) *upstreamConn {
	l := &upstreamConn{}
	// The time to the first byte is the sweep's affair.
	o.Timeouts.Head, o.Timeouts.Write = set.HeaderTimeout, set.IdleTimeout
	o.Buffers = &s.buffers
	o.ReadBuffer = upstreamRead
	l.Conn = h1.NewConn(conn, o)
	l.checkable = l.Visible()
	return l
}

// upstreamRead is the size of a read buffer towards the app and other nodes: an
// answer of some 10 KB comes in one system call.
const upstreamRead = 32 << 10

// dialUpstream connects to the app.
func (s *Server) dialUpstream(ctx context.Context) (*upstreamConn, error) {
	set := s.set.Load()
	ctx, cancel := context.WithTimeout(ctx, set.ConnectTimeout)
	defer cancel()
	conn, err := s.o.DialUpstream(ctx)
	if err != nil {
		return nil, err
	}
	adopted := rawio.Adopt(conn)
	return s.newLink(adopted, set, h1.Options{
		Direct: direct(adopted), HeadBytes: set.MaxHeaderBytes, HeadLines: set.MaxHeaders, Timeouts: h1.Timeouts{Body: max(set.UpstreamIdleTimeout, 0)},
	}), nil
}

// dialPeer opens a forwarding stream to a node. How long an answer may take is
// the owner's affair.
func (s *Server) dialPeer(ctx context.Context, node string) (*upstreamConn, error) {
	set := s.set.Load()
	ctx, cancel := context.WithTimeout(ctx, set.ConnectTimeout)
	defer cancel()
	conn, err := s.o.Cluster.Dial(ctx, node)
	if err != nil {
		return nil, err
	}
	return s.peerLink(conn, set), nil
}

// peerLink wraps a stream to a node, or a lane.
func (s *Server) peerLink(conn net.Conn, set *Settings) *upstreamConn {
	l := s.newLink(conn, set, peerOptions(h1.Options{Direct: direct(conn)}, set))
	l.mux, _ = conn.(muxStream)
	if l.mux != nil {
		conn = l.mux.SessionConn()
	}
	l.unencrypted = direct(conn)
	if b, ok := conn.(interface{ Boot() uint64 }); ok {
		l.boot = b.Boot()
	}
	if n, ok := conn.(interface{ Nonce() uint64 }); ok {
		l.nonce = n.Nonce()
	}
	return l
}

// direct reports whether what the socket of a stream between nodes reads is what
// the stream reads. Over TLS it is not, and the stream says so.
func direct(conn net.Conn) bool {
	d, ok := conn.(interface{ Direct() bool })
	return ok && d.Direct()
}

// peerOptions sets what streams between nodes have of their own: room for a
// client's head, or an app's, and what the nodes add. They say the key once more, with
// three bytes for each that has to be escaped, and the host twice: a head that one
// node takes and whose key it can serve is never too long for the next.
func peerOptions(o h1.Options, set *Settings) h1.Options {
	o.HeadBytes = 4*set.MaxHeaderBytes + 4<<10
	o.HeadLines = set.MaxHeaders + 32
	o.TargetBytes = o.HeadBytes
	return o
}

// DialURL returns a function for Options.DialUpstream from the configured
// address of the app: http://HOST:PORT or unix:/PATH.
func DialURL(text string) (func(ctx context.Context) (net.Conn, error), error) {
	u, err := address.ParseUpstream(text)
	if err != nil {
		return nil, fmt.Errorf("proxy: upstream %w", err)
	}
	dialer := &net.Dialer{KeepAlive: 15 * time.Second}
	return func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, u.Network, u.Address) }, nil
}
