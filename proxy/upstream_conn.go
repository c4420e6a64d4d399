package proxy

import (
	"net"
	"sync/atomic"
	"time"

	"shardway/internal/coarsetime"
	"shardway/proxy/h1"
)

// eventLoopRef is an event loop that watches upstream connections.
type eventLoopRef interface {
	// Unregister removes the entry of a connection that is about to be closed, or to be watched by
	// another event loop.
	Unregister(registration any)
}

// freshFor is how long after its last use a connection may carry a request that must not be sent
// twice. It is one step of the clock less than a second.
const freshFor = time.Second - coarsetime.Resolution

// upstreamConn is a connection to the app or to another node. It carries one request at a time. The
// caller that has received it from its pool owns it until put or discard.
type upstreamConn struct {
	*h1.Conn
	res       h1.Response
	pool      *pool
	checkable bool          // pending data and a close by the peer can be detected without reading
	reused    bool          // has carried a request before
	idleSince time.Duration // when it became idle, by the clock of the pool

	mux         muxStream // the multiplexed stream; nil means a separate connection
	singleUse   bool      // carries one WebSocket and no further request
	unencrypted bool      // the connection is known to have no encryption
	boot        uint64    // boot number of the node's process; zero means unknown
	nonce       uint64    // nonce of that process; zero means unknown
	generation  uint64    // generation of the pool when it was dialed
	inProcess   bool      // the peer is an app in this process

	awaitingUpgrade  bool // a resumed WebSocket awaits its upgrade response; guarded by pool.mu
	shard            int  // shard whose limit it counts for, or noShard; guarded by pool.mu
	responseComplete bool // its response is complete; see pool.responseCompleted; guarded by pool.mu
	longLived        bool // counts as a long-lived stream; guarded by pool.mu

	// loop is the event loop that watches the connection; nil means none. registration is the entry
	// of that loop for it. Only the owner of the connection uses them.
	loop         eventLoopRef
	registration any

	// unproven means that slow start counts the connection as new. provenTimer ends that state.
	unproven    atomic.Bool
	provenTimer *time.Timer
}

// canSendChecked reports whether SendChecked can check the connection. New connections are
// excluded, because data that a peer sends on its own initiative on a new connection is read as its
// response.
func (l *upstreamConn) canSendChecked() bool { return l.reused && l.CanSendChecked() }

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

// muxStream is a stream of a multiplexed session with another node.
type muxStream interface {
	h1.MuxStream
	// SessionConn returns the connection that the session uses.
	SessionConn() net.Conn
	// BeginMessage starts a request. Unprocessed then refers to the data that is written after it.
	BeginMessage()
	// Unprocessed reports whether the stream has failed before the peer read any byte of the
	// request.
	Unprocessed() bool
	// Responsive reports whether the session has received data from the peer very recently.
	Responsive() bool
	// SessionDraining reports whether the session accepts no new requests.
	SessionDraining() bool
	// Ping sends a ping, which the peer's kernel acknowledges.
	Ping()
	// FailSession breaks all streams of the session with err.
	FailSession(err error)
}

// leaveLoop removes k, which is about to be closed, from its event loop. The caller must own k.
func (k *upstreamConn) leaveLoop() {
	if k.loop != nil {
		k.loop.Unregister(k.registration)
		k.loop, k.registration = nil, nil
	}
}
