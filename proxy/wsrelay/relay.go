package wsrelay

import (
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/cause"
	"shardway/proxy/h1"
	"shardway/proxy/inbound"
	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
)

// Relay relays a resumable WebSocket over one upstream connection. A WebSocket that outlives this
// connection gets another relay. downstream is the connection toward the client, and upstream the
// connection toward the app. A WebSocket has one relay if its ingress also runs the app, and
// otherwise two:
//
//	client ── downstream │ ingress │ upstream ── downstream │ owner │ upstream ── app
//	client ── downstream │ ingress that is the owner                 │ upstream ── app
//
// Two goroutines run a relay, one for each direction. Each goroutine writes to only one connection,
// so that a close frame is never inserted into a frame that the other goroutine is writing:
//
//	up    downstream → upstream   until it must stop: at the end of a message, for a hand-over, or at once
//	down  upstream → downstream   until upstream ends or sends a close frame; then it stops up
//
// Other goroutines request actions by bits in requests. After the direction up has stopped, the
// goroutine of the direction down decides what follows for the session (outcome.go).
type Relay struct {
	shared               *Shared
	session              *Session
	downstream, upstream *h1.Conn
	toClient             bool  // downstream leads to the client itself; false at an owner that is not the ingress
	Instance             uint8 // the app instance that upstream leads to, if toApp is set
	// ProcessEnded is closed when the app process that upstream leads to has exited. nil means that
	// the node does not run the app.
	ProcessEnded <-chan struct{}
	toApp        bool // upstream leads to the app itself; false at an ingress that is not the owner

	// ResponseSent is set if the header of the first response has been sent. It must be set before
	// Start.
	ResponseSent      bool
	transferredBefore int64         // bytes transferred on downstream before the relay
	startedAt         time.Duration // start time, by the clock of the server

	// Start sets the following fields.
	goroutines *sync.WaitGroup // counts the goroutines of the connection, and its parked directions
	onParked   func(n int)     // called when the number of parked directions changes by n

	requests          atomic.Uint32
	upstreamCloseCode atomic.Int32  // code of the close frame that ends upstream; set before requests
	sentCloseCode     atomic.Int32  // code of the close frame that this node sends to the app; zero means none
	drainExpired      atomic.Bool   // drain-timeout has passed since the shard moved
	closeWritten      chan struct{} // closed when the close frame to the app has been written
	clientClosed      atomic.Bool   // downstream has sent a close frame, which was sent to upstream
	upStopped         chan struct{} // closed when the direction up has stopped

	// mu protects the following fields.
	mu                  sync.Mutex
	ended               bool      // the relay has ended, and no longer owns the connections
	handoverRequestedAt time.Time // when a hand-over was first requested

	up
	down
}

// Bits of Relay.requests.
const (
	requestMove       uint32 = 1 << iota // hand over: stop after the current message
	requestStop                          // stop immediately
	requestCloseFrame                    // with requestStop: send a close frame to the app, if possible
	requestReconnect                     // close the client's connection, so that the client connects to another node
)

// up is the state of the direction from downstream to upstream.
type up struct {
	direction
	upScanner           *wsframe.Scanner
	frameComplete       bool // upstream has received only complete frames
	halfClosed          bool // this node has closed its sending side of upstream
	clientEnded         bool // downstream has closed its sending side, or has failed
	clientEOF           bool // downstream has closed its sending side with a FIN
	clientDataDiscarded bool // data of downstream was discarded after this node sent its close frame
	clientInvalid       bool // downstream violates the protocol
	// prologue contains the frames that are sent to upstream before all others. It is set only at the
	// ingress.
	prologue []byte
}

// down is the state of the direction from upstream to downstream.
type down struct {
	direction
	downScanner       wsframe.Scanner
	bufferedMessage   []byte // the part of an incomplete message that has not been sent to downstream
	bufferedControl   []byte // the part of an incomplete control frame that has been received
	streamingMessage  bool   // a message longer than maxBufferedMessage is being sent in parts
	appCloseCode      int    // code of the app's close frame; zero means none
	pongReceived      bool   // the app has answered handoverPing, so it has read everything before our close frame
	closeAcknowledged bool   // the app has answered the close frame of this node
	closeForwarded    bool   // a close frame of the app was sent to downstream
	ownerEndCode      byte   // end code of the owner; zero means none
	upstreamErr       error
	appInvalid        bool // upstream violates the protocol
	clientGone        bool // downstream accepts no more data
}

// End codes tell the ingress why a relay ended at the owner, which sends them in a frame with the
// reserved opcode opEndCode that no app can send. A FIN does not prove a hand-over, because the
// kernel also sends one for a dying process.
const (
	opEndCode            = 0xf
	endHandedOver        = 'm' // handed over: the app has received all data and has answered the close frame
	endMessageUnfinished = 'l' // a message was still incomplete after drain-timeout
	endWithoutClose      = 'e' // the app ended the connection without a close frame
	endAppUnreachable    = 'r' // as endWithoutClose, and the app accepts no connections
)

// handoverPing is the payload of the ping that precedes the close frame 1012 to an app.
// acknowledgesClose explains its purpose.
const handoverPing = "the shard moves"

// maxBufferedMessage is the maximum size in bytes of an app message that is buffered until it is
// complete. A longer message is sent to the client in parts.
const maxBufferedMessage = 64 << 10

// Init prepares a Relay between two connections. toClient is set if downstream leads to the client
// itself, and toApp is set if upstream leads to the app itself.
func (relay *Relay) Init(shared *Shared, session *Session, downstream, upstream *h1.Conn, toClient, toApp bool) {
	relay.shared, relay.session, relay.downstream, relay.upstream, relay.toClient, relay.toApp = shared, session, downstream, upstream, toClient, toApp
	relay.closeWritten, relay.upStopped = make(chan struct{}), make(chan struct{})
	relay.transferredBefore, relay.startedAt = downstream.Received()+downstream.Sent(), shared.Clock.Now()
	relay.upstreamCloseCode.Store(wsession.CloseShardMoved)
	relay.frameComplete, relay.upScanner = true, &relay.session.clientScanner
	if !relay.toClient {
		relay.session.clientScanner = wsframe.Client()
	}
	if !relay.toApp {
		relay.downScanner.ExtraOpcode = opEndCode
	}
}

// LeadsToClient reports whether the relay runs at the ingress.
func (relay *Relay) LeadsToClient() bool { return relay.toClient }

// RequestHandover makes the relay hand over to another one at the end of the current message. Any
// goroutine may call it.
func (relay *Relay) RequestHandover() { relay.request(requestMove) }

// RequestReconnect ends the relay, and closes the client's connection, so that the client connects to
// another node. Any goroutine may call it.
func (relay *Relay) RequestReconnect() {
	relay.request(requestReconnect | requestStop | requestCloseFrame)
	relay.abortUpstreamAfter(wsession.EndTimeout)
}

// HandoverRequestedAt returns when a hand-over was first requested, or zero if none was. It may be
// called after the relay has ended.
func (relay *Relay) HandoverRequestedAt() time.Time { return relay.handoverRequestedAt }

// IsReconnectRequested reports whether RequestReconnect was called.
func (relay *Relay) IsReconnectRequested() bool { return relay.isRequested(requestReconnect) }

// request sets bits in requests, and interrupts the direction up so that it acts on them. Any
// goroutine may call it.
func (relay *Relay) request(bits uint32) {
	relay.mu.Lock()
	defer relay.mu.Unlock()
	if bits&requestMove != 0 && !relay.ended && relay.handoverRequestedAt.IsZero() {
		relay.handoverRequestedAt = time.Now()
	}
	if old := relay.requests.Or(bits); !relay.ended && old|bits != old {
		relay.downstream.PauseRead()
	}
}

func (relay *Relay) isRequested(bits uint32) bool { return relay.requests.Load()&bits != 0 }

// end marks the relay as ended. Once it has returned, no other goroutine uses the connections
// through this relay.
func (relay *Relay) end() {
	relay.mu.Lock()
	relay.ended = true
	relay.mu.Unlock()
	relay.downstream.ResumeRead()
}

// abortAfter aborts conn after delay, unless the relay has ended by then.
func (relay *Relay) abortAfter(delay time.Duration, conn *h1.Conn) {
	relay.runAfter(delay, func() { _ = conn.Abort() })
}

// runAfter calls fn after delay, unless the relay has ended by then. fn must not block.
func (relay *Relay) runAfter(delay time.Duration, fn func()) {
	time.AfterFunc(delay, func() { relay.ifRunning(fn) })
}

// ifRunning calls fn unless the relay has ended. fn must not block.
func (relay *Relay) ifRunning(fn func()) {
	relay.mu.Lock()
	defer relay.mu.Unlock()
	if !relay.ended {
		fn()
	}
}

func (relay *Relay) hasEnded() bool {
	relay.mu.Lock()
	defer relay.mu.Unlock()
	return relay.ended
}

// Start prepares the connections and starts the goroutine of the direction up. The caller then runs
// the other direction with RunDown. goroutines counts the goroutines of the connection. onParked is
// called when the number of parked directions changes by n.
func (relay *Relay) Start(goroutines *sync.WaitGroup, onParked func(n int)) {
	relay.goroutines, relay.onParked = goroutines, onParked
	if !relay.ResponseSent {
		relay.clientGone = true
		close(relay.upStopped)
		return
	}
	for _, end := range []*h1.Conn{relay.downstream, relay.upstream} {
		timeouts := end.Timeouts()
		timeouts.Body, timeouts.MinRate = 0, 0
		end.SetTimeouts(timeouts)
		end.ReleaseEmptyBuffers()
		end.Writer().BeginBody(h1.UntilClose, 0)
	}
	relay.up.parkDelay, relay.down.parkDelay = relay.parkDelay(relay.downstream), relay.parkDelay(relay.upstream)
	relay.up.wake = relay.wakeFunc(relay.runUp)
	relay.prologue, relay.session.prologue = relay.session.prologue, nil
	goroutines.Go(relay.runUp)
}

// runUp runs the direction up until it parks or stops. It stops when one of the connections ends,
// or when the direction down requests it.
func (relay *Relay) runUp() {
	if !relay.runDirection(relay.copyUp, &relay.up.direction) {
		close(relay.upStopped)
	}
}

// SetWakeDown sets the function that continues the direction down in another goroutine after it has
// parked. fn must call RunDown. SetWakeDown must be called before RunDown.
func (relay *Relay) SetWakeDown(fn func()) { relay.down.wake = relay.wakeFunc(fn) }

// RunDown runs the direction down until it ends or parks.
func (relay *Relay) RunDown() (parked bool) {
	switch {
	case !relay.ResponseSent:
		return false
	case relay.runDirection(relay.copyDown, &relay.down.direction):
		return true
	}
	relay.noteActivity(&relay.down.direction)
	return false
}

// StopUp stops the direction up after the direction down has ended. At an owner that hands over,
// downstream stays open until ReportEnd has sent the end code.
func (relay *Relay) StopUp() {
	switch {
	case !relay.ResponseSent:
		return
	case relay.closeForwarded && !relay.clientGone: // the client's answer must still reach the app
		late := relay.awaitCloseReply(&relay.up.direction, func() { relay.request(requestStop) })
		<-relay.upStopped
		late.timer.Stop()
		return
	case !relay.toClient && relay.sentCloseCode.Load() != 0:
		<-relay.closeWritten // after the close frame, nothing else is sent to upstream
		return
	case relay.appInvalid:
		relay.upstreamCloseCode.Store(wsession.CloseProtocol)
		relay.request(requestStop | requestCloseFrame)
	case relay.appCloseCode != 0 && !relay.closeAcknowledged:
		relay.request(requestStop | requestCloseFrame)
	default:
		relay.request(requestStop)
	}
	relay.abortAfter(wsession.EndTimeout, relay.upstream)
	<-relay.upStopped
}

func (relay *Relay) abortBoth() {
	_ = relay.downstream.Abort()
	_ = relay.upstream.Abort()
}

// Cancel cancels the run of a resumable WebSocket. Connections that the caller must close are
// appended to toClose, which is returned. Any goroutine may call it. It ends the relay but keeps
// the client's connection, unless the client is gone or the process is stopping. At the app's node,
// the shard must become free for its next owner, so cancelStuck aborts downstream if it does not
// accept data soon. Other nodes do not limit slow clients in this way.
func (relay *Relay) Cancel(cancelCause cause.Cause, toClose []inbound.Aborter) []inbound.Aborter {
	switch cancelCause {
	case cause.ClientGone, cause.Shutdown:
		return append(toClose, relay.upstream, relay.downstream)
	case cause.DrainTimeout:
		relay.drainExpired.Store(true)
		relay.request(requestStop | requestCloseFrame)
		relay.abortAfter(wsession.EndTimeout, relay.upstream)
	case cause.Stopping:
		relay.drainExpired.Store(true)
		toClose = append(toClose, relay.upstream)
	case cause.None, cause.Lease, cause.OwnerLost, cause.PathDead, cause.Timeout, cause.TotalTimeout, cause.ShardMoved, cause.Leaving, cause.MoveTest:
		toClose = append(toClose, relay.upstream)
	}
	if relay.toApp {
		time.AfterFunc(2*wsession.EndTimeout, relay.cancelStuck)
	}
	return toClose
}

// cancelStuck aborts downstream if a write to it is stuck. Otherwise the relay has merely not
// noticed its end yet, which is no reason to disconnect the client; cancelStuck then requests a
// stop and checks again later.
func (relay *Relay) cancelStuck() {
	switch {
	case relay.hasEnded():
	case relay.down.lastActivity.Load() == activeNow:
		relay.ifRunning(func() { _ = relay.downstream.Abort() })
	default:
		relay.request(requestStop)
		time.AfterFunc(wsession.EndTimeout, relay.cancelStuck)
	}
}

// EnforceMoveTimeout ends a relay whose hand-over was requested DrainTimeout ago if a message of
// the client is still incomplete. It is for MoveWebSockets; when a shard actually moves, the owner
// enforces DrainTimeout.
func (relay *Relay) EnforceMoveTimeout() {
	select {
	case <-relay.upStopped: // the direction up has stopped, and the owner completes the hand-over
	default:
		if !relay.hasEnded() {
			relay.drainExpired.Store(true)
			relay.request(requestStop | requestCloseFrame)
			relay.abortAfter(wsession.EndTimeout, relay.upstream)
		}
	}
}
