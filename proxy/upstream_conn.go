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
	"shardway/proxy/route"
)

// freshFor is how long after its last use a connection may carry a request that must not be sent
// twice. The clock advances in steps of sweepEvery, so freshFor is one step less than a second.
const freshFor = time.Second - sweepEvery

// errNoLease prevents a request from being sent: the lease has ended after the admission.
var errNoLease = errors.New("proxy: no lease")

// upstreamConn is a connection to the app or to another node. It carries one request after
// another. The caller that gets it from its pool owns it until put or discard.
type upstreamConn struct {
	*h1.Conn
	res       h1.Response
	pool      *pool
	checkable bool          // pending data and closure can be detected without reading
	reused    bool          // has carried a request before
	idleSince time.Duration // when it became idle, by the clock of the pool

	mux         muxStream    // the stream that the connection is; nil means a connection of its own
	singleUse   bool         // carries one WebSocket and nothing after it
	unencrypted bool         // no encryption, as far as is known
	boot        uint64       // boot number of the node's process; zero means unknown
	nonce       uint64       // nonce of that process; zero means unknown
	generation  uint64       // generation of the pool when it was dialed
	inproc      *handlerConn // the app in this process; nil means a network connection

	awaitingUpgrade bool // a resumed WebSocket awaits its upgrade response; guarded by pool.mu
	shard           int  // shard whose limit it counts for, or noShard; guarded by pool.mu
	whole           bool // its response is complete, see pool.answered; guarded by pool.mu
	longLived       bool // counts as a long-lived stream; guarded by pool.mu

	loop     *eventLoop    // loop with which it is registered; nil means none. Only the owner uses it
	loopSlot *upstreamSlot // its registration in that loop

	// unproven is set while slow start counts the connection as new. provenTimer ends that time.
	unproven    atomic.Bool
	provenTimer *time.Timer
}

// SendChecked checks the connection right before the first byte is sent, so the whole request
// must be sent by one call. requestBody is the maximum size of its body in bytes, and askFrame the
// room for the framing of a chunk.
const (
	askBody  = 4 << 10
	askFrame = 16
)

// sendsChecked reports whether the request can use h1.Conn.SendChecked. The result may still
// change until the request is sent.
func (a *requestState) sendsChecked() bool {
	return a.body.whole() && len(a.body.buffered) <= askBody && !a.x.wantAccepted
}

// canSendChecked reports whether SendChecked can check the connection. It excludes new
// connections, because data that a peer sends first on a new connection is taken for its response.
func (l *upstreamConn) canSendChecked() bool { return l.reused && l.CanSendChecked() }

// acquireConn returns an idle connection, or waits for the next one that is returned or dialed.
// Without a connection it returns the decision.
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
		p.discard(l) // the pool dials another one
		in.newOnly = false
	}
}

// mustBeFresh reports whether the request needs a connection that was used very recently: it must
// not be sent twice, or another connection has broken.
func (w *requestWait) mustBeFresh() bool { return w.x.safety != safeMethod || w.x.mayHaveRun() }

// maxInflight returns the limit of requests in progress for the shard; zero means no limit.
// Resumed streams of a shard that moves were admitted before, and are exempt.
func (w *requestWait) maxInflight(p *pool) int {
	if p.node != "" || w.x.resumed != nil || w.x.wasResumed > 0 {
		return 0
	}
	return w.set.MaxShardInflight
}

// takeIdleConn returns an idle connection, or nil. It prefers a connection that is registered with
// the event loop by.
func (w *requestWait) takeIdleConn(p *pool, by *eventLoop) *upstreamConn {
	return p.get(connRequest{shard: w.x.limitShard(), fresh: w.mustBeFresh(), maxInflight: w.maxInflight(p), checkedOnSend: w.sendsChecked(), loop: by})
}

// waitInQueue waits in the queue of the pool. dialed means that a connection for the request is
// being dialed. Otherwise the request waits for other requests to finish, and takes a place in the
// wait queue of the node.
func (w *requestWait) waitInQueue(p *pool, in *waiter, dialed bool) (*upstreamConn, error) {
	limit := ownerWait
	if w.ingress == "" {
		limit = w.timeLeft(time.Now()) // dialing counts as waiting
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

// queueFullError ends a wait for a connection because the wait queue of the node is full.
type queueFullError struct{ v decision }

func (e *queueFullError) Error() string { return e.v.detail }

// acquireFailed converts the error of acquireConn into a decision.
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
	v := decision{action: actionWait, reason: route.ReasonUnreachable, backoff: true}
	if p.breaker.tripped.Load() {
		v.condition, v.backoff = &p.breaker, false
	}
	if errors.Is(err, errBreakerOpen) {
		err = p.breaker.reason()
	}
	switch {
	case errors.Is(err, errNoApp):
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
		// This node stops. The request must wait for the next owner of the shard.
		v.code, v.refusal = problem.QueueTimeout, route.RefusedHeld
		v.detail = "this node is stopping"
		return v
	case isTimeout(err):
		v.code, v.refusal = problem.UpstreamConnectTimeout, route.RefusedNoApp
	default:
		v.code, v.refusal = problem.UpstreamRefused, route.RefusedNoApp
	}
	v.detail = w.s.unreached(err)
	return v
}

// newUpstreamConn wraps a connection that was just dialed.
func (s *Server) newUpstreamConn(conn net.Conn, set *Settings, o h1.Options) *upstreamConn {
	l := &upstreamConn{}
	// The sweep limits the time to the first byte of the response.
	o.Timeouts.Header, o.Timeouts.Write = set.HeaderTimeout, set.IdleTimeout
	o.Buffers = &s.buffers
	o.ReadBuffer = upstreamRead
	l.Conn = h1.NewConn(conn, o)
	l.checkable = l.HasSocket()
	return l
}

// upstreamRead is the size of a read buffer for the app and other nodes. A response of about 10 KB
// then needs one system call.
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
	return s.newUpstreamConn(adopted, set, h1.Options{
		Direct: direct(adopted), MaxHeaderBytes: set.MaxHeaderBytes, MaxHeaderLines: set.MaxHeaders, Timeouts: h1.Timeouts{Body: max(set.UpstreamIdleTimeout, 0)},
	}), nil
}

// dialPeer opens a connection to another node. The owner limits how long a response may take.
func (s *Server) dialPeer(ctx context.Context, node string) (*upstreamConn, error) {
	set := s.set.Load()
	ctx, cancel := context.WithTimeout(ctx, set.ConnectTimeout)
	defer cancel()
	conn, err := s.o.Cluster.Dial(ctx, node)
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

// direct reports whether the bytes of a peer connection are those of its socket. Over TLS they are
// not.
func direct(conn net.Conn) bool {
	d, ok := conn.(interface{ Direct() bool })
	return ok && d.Direct()
}

// peerOptions sets the limits of connections between nodes. They must have room for the header of
// a client or an app, and for the fields that nodes add. Nodes repeat the key, escaped with up to
// three bytes for each byte, and the host twice. So the next node never refuses a header that this
// node has accepted.
func peerOptions(o h1.Options, set *Settings) h1.Options {
	o.MaxHeaderBytes = 4*set.MaxHeaderBytes + 4<<10
	o.MaxHeaderLines = set.MaxHeaders + 32
	o.MaxTargetBytes = o.MaxHeaderBytes
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
