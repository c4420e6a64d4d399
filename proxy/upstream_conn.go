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
	"shardway/proxy/backoff"
	"shardway/proxy/h1"
	"shardway/proxy/route"
)

// freshFor is how long after its last use a connection may carry a request that must not be sent
// twice. It is one sweepEvery less than a second, because the clock advances in such steps.
const freshFor = time.Second - sweepEvery

// errNoLease reports that the lease has ended between the admission of a request and the first
// byte.
var errNoLease = errors.New("proxy: no lease")

// upstreamConn is a connection to the app or to another node. It carries one request at a time. The
// caller that has received it from its pool owns it until put or discard.
type upstreamConn struct {
	*h1.Conn
	res       h1.Response
	pool      *pool
	checkable bool          // pending data and a close by the peer can be detected without reading
	reused    bool          // has carried a request before
	idleSince time.Duration // when it became idle, by the clock of the pool

	mux         muxStream    // the multiplexed stream; nil means a separate connection
	singleUse   bool         // carries one WebSocket and no further request
	unencrypted bool         // the connection is known to have no encryption
	boot        uint64       // boot number of the node's process; zero means unknown
	nonce       uint64       // nonce of that process; zero means unknown
	generation  uint64       // generation of the pool when it was dialed
	inproc      *handlerConn // the app in this process; nil means a network connection

	awaitingUpgrade  bool // a resumed WebSocket awaits its upgrade response; guarded by pool.mu
	shard            int  // shard whose limit it counts for, or noShard; guarded by pool.mu
	responseComplete bool // its response is complete; see pool.responseCompleted; guarded by pool.mu
	longLived        bool // counts as a long-lived stream; guarded by pool.mu

	loop             *eventLoop            // loop with which it is registered; nil means none; used only by its owner
	loopRegistration *upstreamRegistration // its registration in that loop

	// unproven means that slow start counts the connection as new. provenTimer ends that state.
	unproven    atomic.Bool
	provenTimer *time.Timer
}

// SendChecked checks the connection right before the first byte is sent, so one call must send the
// whole request. askBody is the maximum size of the body, and askFrame is the space for the framing
// of a chunk.
const (
	askBody  = 4 << 10
	askFrame = 16
)

// sendsChecked reports whether the request can be sent with h1.Conn.SendChecked. The result may
// still change before the request is sent.
func (a *requestState) sendsChecked() bool {
	return a.body.isFullyBuffered() && len(a.body.buffered) <= askBody && !a.exchange.wantAccepted
}

// canSendChecked reports whether SendChecked can check the connection. New connections are
// excluded, because data that a peer sends on its own initiative on a new connection is read as its
// response.
func (l *upstreamConn) canSendChecked() bool { return l.reused && l.CanSendChecked() }

// acquireConn returns an idle connection, or waits for the next connection that is returned or
// dialed. If it returns nil, the decision tells what follows.
func (w *requestWait) acquireConn(p *pool) (*upstreamConn, decision) {
	fresh, maxInflight := w.mustBeFresh(), w.maxInflight(p)
	newOnly := w.exchange.reusedTries >= maxReusedTries
	if !newOnly && (p.node == "" || !w.exchange.isResumption()) {
		if l := w.takeIdleConn(p, nil); l != nil {
			return l, decision{}
		}
	}
	in := &waiter{shard: w.exchange.limitShard(), fresh: fresh, maxInflight: maxInflight, newOnly: newOnly, forUpgrade: w.exchange.isResumption(), streamAllowed: w.exchange.mayUseStream(), hasWaited: w.exchange.waited && w.ingress == ""}
	for {
		l, dialed, err := p.join(in)
		if l == nil && err == nil {
			l, err = w.waitInQueue(p, in, dialed)
		}
		switch {
		case err != nil:
			return nil, w.acquireFailed(p, err)
		case !l.reused, !in.newOnly && l.IsAlive() && (!fresh || l.checkable):
			p.probeWithIdle()
			return l, decision{}
		}
		p.discard(l) // the pool dials another one
		in.newOnly = false
	}
}

// mustBeFresh reports whether the request needs a recently used connection, because it must not be
// sent twice or because another connection has broken.
func (w *requestWait) mustBeFresh() bool {
	return w.exchange.safety != safeMethod || w.exchange.mayHaveRun()
}

// maxInflight returns the limit of requests in progress for the shard; zero means no limit. Resumed
// streams have no limit, because they were admitted before their shard moved.
func (w *requestWait) maxInflight(p *pool) int {
	if p.node != "" || w.exchange.resumed != nil || w.exchange.wasResumed > 0 {
		return 0
	}
	return w.settings.MaxShardInflight
}

// takeIdleConn returns an idle connection, or nil. It prefers a connection that is registered with
// the event loop by.
func (w *requestWait) takeIdleConn(p *pool, by *eventLoop) *upstreamConn {
	return p.get(connRequest{shard: w.exchange.limitShard(), fresh: w.mustBeFresh(), maxInflight: w.maxInflight(p), checkedOnSend: w.sendsChecked(), loop: by})
}

// waitInQueue waits in the queue of the pool. dialed means that a connection for the request is
// being dialed. Otherwise the request has to wait for other requests to finish, and also needs a
// place in the wait queue of the node.
func (w *requestWait) waitInQueue(p *pool, in *waiter, dialed bool) (*upstreamConn, error) {
	limit := ownerWait
	if w.ingress == "" {
		limit = w.timeLeft(time.Now()) // dialing counts towards the waiting time
	}
	if in.shardMoved(w.server.options.Cluster.Table(), p.node) {
		_ = p.leaveQueue(in)
		return nil, errRouteChanged
	}
	if dialed {
		return p.await(in, w.context().Done(), max(limit, w.server.settings.Load().ConnectTimeout+ownerWait))
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

// queueFullError ends a wait for a connection because the wait queue of the node is full.
type queueFullError struct{ v decision }

func (e *queueFullError) Error() string { return e.v.detail }

// acquireFailed converts the error of acquireConn into a decision.
func (w *requestWait) acquireFailed(p *pool, err error) decision {
	var full *queueFullError
	switch {
	case w.closing.Load():
		return done
	case errors.As(err, &full):
		return full.v
	case errors.Is(err, errRouteChanged):
		return decision{action: actionRetry}
	case errors.Is(err, errShardInflightLimit):
		return w.exchange.shardInflightFull()
	}
	v := decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true}
	if p.breaker.IsTripped() {
		v.condition, v.backoff = &p.breaker, false
	}
	if errors.Is(err, errBreakerOpen) {
		err = p.breaker.Cause()
	}
	switch {
	case errors.Is(err, backoff.ErrNoApp):
		v.refusal = route.RefusedNoApp
		return v
	case p.node != "":
		v.code = problem.PeerUnreachable
	case errors.Is(err, errShardConnLimit):
		v.code, v.refusal = problem.UpstreamBusy, route.RefusedBusy
		v.detail = "all connections to the app that one shard may use are busy (--max-shard-conns)"
		return v
	case errors.Is(err, errBusy):
		v.code, v.refusal = problem.UpstreamBusy, route.RefusedBusy
		v.detail = "all connections to the app are busy (--max-upstream-conns)"
		return v
	case errors.Is(err, errDialing):
		// A dial is still in progress, so the app has not failed.
		v.code, v.refusal = problem.QueueTimeout, route.RefusedBusy
		v.detail = "no connection to the app was made in time for the request"
		return v
	case errors.Is(err, errStopping):
		// The request must wait for the next owner of the shard.
		v.code, v.refusal = problem.QueueTimeout, route.RefusedHeld
		v.detail = "this node is stopping"
		return v
	case isTimeout(err):
		v.code, v.refusal = problem.UpstreamConnectTimeout, route.RefusedNoApp
	default:
		v.code, v.refusal = problem.UpstreamRefused, route.RefusedNoApp
	}
	v.detail = w.server.unreachableReason(err)
	return v
}

// newUpstreamConn returns an upstreamConn for a connection that has just been dialed.
func (s *Server) newUpstreamConn(conn net.Conn, set *Settings, o h1.Options) *upstreamConn {
	l := &upstreamConn{}
	// The sweep enforces the timeout for the first byte of the response.
	o.Timeouts.Header, o.Timeouts.Write = set.HeaderTimeout, set.IdleTimeout
	o.Buffers = &s.buffers
	o.ReadBuffer = upstreamRead
	l.Conn = h1.NewConn(conn, o)
	l.checkable = l.HasSocket()
	return l
}

// upstreamRead is the size of a read buffer for connections to the app and to other nodes. With it,
// reading a response of about 10 KB needs one system call.
const upstreamRead = 32 << 10

// dialUpstream connects to the app.
func (s *Server) dialUpstream(ctx context.Context) (*upstreamConn, error) {
	set := s.settings.Load()
	ctx, cancel := context.WithTimeout(ctx, set.ConnectTimeout)
	defer cancel()
	conn, err := s.options.DialUpstream(ctx)
	if err != nil {
		return nil, err
	}
	adopted := rawio.Adopt(conn)
	return s.newUpstreamConn(adopted, set, h1.Options{
		Direct: direct(adopted), MaxHeaderBytes: set.MaxHeaderBytes, MaxHeaderLines: set.MaxHeaders, Timeouts: h1.Timeouts{Body: max(set.UpstreamIdleTimeout, 0)},
	}), nil
}

// dialPeer opens a connection to another node. The owner limits the duration of a response.
func (s *Server) dialPeer(ctx context.Context, node string) (*upstreamConn, error) {
	set := s.settings.Load()
	ctx, cancel := context.WithTimeout(ctx, set.ConnectTimeout)
	defer cancel()
	conn, err := s.options.Cluster.Dial(ctx, node)
	if err != nil {
		return nil, err
	}
	return s.newPeerConn(conn, set), nil
}

// newPeerConn wraps a connection or a multiplexed stream to another node.
func (s *Server) newPeerConn(conn net.Conn, set *Settings) *upstreamConn {
	l := s.newUpstreamConn(conn, set, peerOptions(h1.Options{Direct: direct(conn)}, set))
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

// direct reports whether the bytes of the connection are the bytes of its socket. That is not the
// case with TLS.
func direct(conn net.Conn) bool {
	d, ok := conn.(interface{ Direct() bool })
	return ok && d.Direct()
}

// peerOptions sets the header limits of connections between nodes. A header of a client or an app
// must fit, together with the fields that nodes add. Nodes repeat the key, with up to three bytes
// per byte because of its encoding, and the host twice. So a node never rejects a header that
// another node has accepted.
func peerOptions(o h1.Options, set *Settings) h1.Options {
	o.MaxHeaderBytes = 4*set.MaxHeaderBytes + 4<<10
	o.MaxHeaderLines = set.MaxHeaders + 32
	o.MaxTargetBytes = o.MaxHeaderBytes
	return o
}

// DialURL returns a function for Options.DialUpstream. text is the configured address of the app:
// http://HOST:PORT or unix:/PATH.
func DialURL(text string) (func(ctx context.Context) (net.Conn, error), error) {
	u, err := address.ParseUpstream(text)
	if err != nil {
		return nil, fmt.Errorf("proxy: upstream %w", err)
	}
	dialer := &net.Dialer{KeepAlive: 15 * time.Second}
	return func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, u.Network, u.Address) }, nil
}

const (
	// largeSealed and largePlain are the response sizes above which a separate connection is
	// cheaper than a multiplexed stream, with and without TLS between the nodes. A stream copies
	// the data two more times, but needs fewer TLS records and system calls.
	largeSealed = 16 << 10
	largePlain  = 8 << 10
)

// isLarge reports whether a response of received bytes is cheaper on a separate connection.
func (l *upstreamConn) isLarge(received int64) bool {
	if l.unencrypted {
		return received > largePlain
	}
	return received > largeSealed
}
