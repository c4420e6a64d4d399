package connpool

import (
	"net"
	"sync/atomic"
	"time"

	"shardway/internal/coarsetime"
	"shardway/proxy/h1"
)

// EventLoop is an event loop that watches upstream connections.
type EventLoop interface {
	// Unregister removes the entry of a connection that is about to be closed, or to be watched by
	// another event loop.
	Unregister(registration any)
}

// recentFor is how long after its last use a connection may carry a request that must not be sent
// twice. It is one step of the clock less than a second.
const recentFor = time.Second - coarsetime.Resolution

// Conn is a connection to the app or to another node. It carries one request at a time. The caller
// that received it from its pool owns it until Put or Discard.
type Conn struct {
	*h1.Conn
	Response h1.Response // response to the current request
	Pool     *Pool       // pool that owns the connection between requests

	// The function that opens the connection sets these fields.
	Checkable   bool      // pending data and a close by the peer can be detected without reading
	InProcess   bool      // the peer is an app in this process
	Mux         MuxStream // the multiplexed stream; nil means a separate connection
	SingleUse   bool      // carries one WebSocket and no further request
	Unencrypted bool      // the connection is known to have no encryption
	Boot        uint64    // boot number of the node's process; zero means unknown
	Nonce       uint64    // nonce of that process; zero means unknown
	// ProcessEnded is closed when the app process that the connection leads to has exited. nil
	// means that the node does not run the app.
	ProcessEnded <-chan struct{}

	Reused    bool          // has carried a request before
	idleSince time.Duration // when it became idle, by the clock of the pool
	// upgradeStartedAt is when the wait for the upgrade response began, by the exact clock of the pool. It
	// is set only with SingleUse.
	upgradeStartedAt time.Duration
	generation       uint64 // generation of the pool when it was dialed

	// Pool.mu protects the following fields.
	awaitingUpgrade  bool // a resumed WebSocket awaits its upgrade response
	shard            int  // shard that it is charged to, or NoShard
	responseComplete bool // its response is complete; see Pool.RecordResponseEnd
	longLived        bool // counts as long-lived instead of pooled; see Pool.Detach

	// Loop is the event loop that watches the connection; nil means none. Registration is the entry
	// of that loop for it. Only the owner of the connection uses them.
	Loop         EventLoop
	Registration any

	// unproven is set while slow start counts the connection as new. provenTimer ends that state.
	unproven    atomic.Bool
	provenTimer *time.Timer
}

// CanBeCheckedOnSend reports whether SendChecked can check the connection. New connections are
// excluded, because unsolicited data on a new connection would be read as the response.
func (c *Conn) CanBeCheckedOnSend() bool { return c.Reused && c.ReadsSocketDirectly() }

const (
	// largeWithTLS and largeWithoutTLS are the response sizes in bytes above which a separate
	// connection is cheaper than a multiplexed stream, with and without TLS between the nodes. A
	// stream copies the data two more times, but needs fewer TLS records and system calls.
	largeWithTLS    = 16 << 10
	largeWithoutTLS = 8 << 10
)

// IsLarge reports whether a response of the given size is cheaper on a separate connection.
func (c *Conn) IsLarge(received int64) bool {
	if c.Unencrypted {
		return received > largeWithoutTLS
	}
	return received > largeWithTLS
}

// MuxStream is a stream of a multiplexed session with another node.
type MuxStream interface {
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

// LeaveLoop removes c, which is about to be closed, from its event loop. The caller must own c.
func (c *Conn) LeaveLoop() {
	if c.Loop != nil {
		c.Loop.Unregister(c.Registration)
		c.Loop, c.Registration = nil, nil
	}
}
