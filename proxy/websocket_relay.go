package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/loadstats"
	"shardway/proxy/route"
	"shardway/proxy/wsession"
	"shardway/proxy/wsframe"
)

// webSocketRelay relays a resumable WebSocket over one upstream connection. A WebSocket that
// outlives this connection gets another relay. downstream is the connection towards the client, and
// upstream is the connection towards the app. A WebSocket has one relay if its ingress also runs
// the app, and otherwise two:
//
//	client ── downstream │ ingress │ upstream ── downstream │ owner │ upstream ── app
//	client ── downstream │ ingress that is the owner                 │ upstream ── app
//
// Two goroutines run a relay, one for each direction. Each goroutine writes to one connection only,
// so that a close frame is never inserted into a frame that the other goroutine is writing:
//
//	up    downstream → upstream   until it must stop: at the end of a message, for a hand-over, or at once
//	down  upstream → downstream   until upstream ends or sends a close frame; then it stops up
//
// Other goroutines request actions by bits in requests. After the direction up has stopped, the
// goroutine of the direction down decides what follows for the session (websocket_outcome.go).
type webSocketRelay struct {
	server               *Server
	clientConn           *client // nil means that the relay has not started
	session              *webSocketSession
	downstream, upstream *h1.Conn
	toClient             bool // downstream leads to the client itself; false at an owner that is not the ingress
	toApp                bool // upstream leads to the app itself; false at an ingress that is not the owner

	attempt           attempt
	responseSent      bool                // the header of the first response has been sent
	load              *loadstats.Counters // counters of the shard; nil means none
	sentBefore        int64               // bytes sent to the client before the relay
	transferredBefore int64               // bytes transferred on downstream before the relay
	startedAt         time.Duration       // start time, by the clock of the server

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

// addRunning adds n to the counts of running relays.
func (relay *webSocketRelay) addRunning(n int32) {
	relay.server.webSockets.relays.Add(n)
	relay.server.metrics.Tunnels.Add(int64(n))
	if relay.load != nil {
		relay.load.WebSockets.Add(n)
	}
}

// Bits of webSocketRelay.requests.
const (
	requestMove       uint32 = 1 << iota // hand over: stop after the present message
	requestStop                          // stop immediately
	requestCloseFrame                    // with requestStop: send a close frame to the app, if possible
	requestReconnect                     // close the client's connection, so that the client connects to another node
)

// up is the state of the direction from downstream to upstream.
type up struct {
	direction
	upScanner           *wsframe.Scanner
	frameComplete       bool // upstream has received complete frames only
	halfClosed          bool // this node has closed its sending side of upstream
	clientEnded         bool // downstream has closed its sending side, or has failed
	clientEOF           bool // downstream has closed its sending side with a FIN
	clientDataDiscarded bool // data of downstream was discarded after this node had sent its close frame
	clientInvalid       bool // downstream violates the protocol
}

// down is the state of the direction from upstream to downstream.
type down struct {
	direction
	downScanner       wsframe.Scanner
	bufferedMessage   []byte // the part of an incomplete message that has not been sent to downstream
	bufferedControl   []byte // the part of an incomplete control frame that has been received
	streamingMessage  bool   // a message that exceeds maxBufferedMessage is being sent in parts
	appCloseCode      int    // code of the app's close frame; zero means none
	pongReceived      bool   // the app has answered handoverPing, so it has read everything before our close frame
	closeAcknowledged bool   // the app has answered the close frame of this node
	closeForwarded    bool   // a close frame of the app was sent to downstream
	ownerEndCode      byte   // end code of the owner; zero means none
	upstreamErr       error
	appInvalid        bool // upstream violates the protocol
	clientGone        bool // downstream accepts no more data
}

// End codes. With an end code, the owner reports to the ingress why a relay has ended. It sends the
// code in a frame with the reserved opcode opEndCode, which no app can send. A FIN is not
// sufficient proof of a hand-over, because the kernel also sends a FIN for a process that dies.
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

func newWebSocketRelay(rr *responseRelay, attempt *attempt) *webSocketRelay {
	relay := &webSocketRelay{
		server: rr.server, session: rr.exchange.session, downstream: rr.conn, upstream: attempt.conn.Conn, toClient: rr.ingress == "", toApp: attempt.route.Kind == route.Local,
		attempt: *attempt, load: rr.server.loadOf(&rr.exchange, attempt.route.Kind), closeWritten: make(chan struct{}), upStopped: make(chan struct{}),
		transferredBefore: rr.conn.Received() + rr.conn.Sent(), startedAt: rr.server.clock.Now(),
	}
	relay.upstreamCloseCode.Store(wsession.CloseShardMoved)
	relay.frameComplete, relay.upScanner = true, &relay.session.clientScanner
	if !relay.toClient {
		relay.session.clientScanner = wsframe.Client()
	}
	if !relay.toApp {
		relay.downScanner.ExtraOpcode = opEndCode
	}
	return relay
}

// request sets bits in requests, and interrupts the direction up so that it acts on them. Any
// goroutine may call it.
func (relay *webSocketRelay) request(bits uint32) {
	relay.mu.Lock()
	defer relay.mu.Unlock()
	if bits&requestMove != 0 && !relay.ended && relay.handoverRequestedAt.IsZero() {
		relay.handoverRequestedAt = time.Now()
	}
	if old := relay.requests.Or(bits); !relay.ended && old|bits != old {
		relay.downstream.PauseRead()
	}
}

func (relay *webSocketRelay) isRequested(bits uint32) bool { return relay.requests.Load()&bits != 0 }

// end marks the relay as ended. After end has returned, no other goroutine uses the connections
// through this relay.
func (relay *webSocketRelay) end() {
	relay.mu.Lock()
	relay.ended = true
	relay.mu.Unlock()
	relay.downstream.ResumeRead()
}

// abortAfter aborts conn after delay, unless the relay has ended by then.
func (relay *webSocketRelay) abortAfter(delay time.Duration, conn *h1.Conn) {
	relay.runAfter(delay, func() { _ = conn.Abort() })
}

// runAfter calls fn after delay, unless the relay has ended by then. fn must not block.
func (relay *webSocketRelay) runAfter(delay time.Duration, fn func()) {
	time.AfterFunc(delay, func() { relay.ifRunning(fn) })
}

// ifRunning calls fn unless the relay has ended. fn must not block.
func (relay *webSocketRelay) ifRunning(fn func()) {
	relay.mu.Lock()
	defer relay.mu.Unlock()
	if !relay.ended {
		fn()
	}
}

func (relay *webSocketRelay) hasEnded() bool {
	relay.mu.Lock()
	defer relay.mu.Unlock()
	return relay.ended
}

// start prepares the connections and starts the goroutine of the direction up. The caller then runs
// the other direction with runDown.
func (relay *webSocketRelay) start(c *client) {
	relay.clientConn = c
	if !relay.responseSent {
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
	c.goroutines.Go(relay.runUp)
}

// runUp runs the direction up until it parks or stops. It stops when one of the connections ends,
// or when the direction down requests it.
func (relay *webSocketRelay) runUp() {
	if !relay.runDirection(relay.copyUp, &relay.up.direction) {
		close(relay.upStopped)
	}
}

// runDown runs the direction down until it ends or parks.
func (relay *webSocketRelay) runDown() (parked bool) {
	switch {
	case !relay.responseSent:
		return false
	case relay.runDirection(relay.copyDown, &relay.down.direction):
		return true
	}
	relay.noteActivity(&relay.down.direction)
	return false
}

// stopUp stops the direction up after the direction down has ended. At an owner that hands over,
// downstream stays open until reportEnd has sent the end code.
func (relay *webSocketRelay) stopUp() {
	switch {
	case !relay.responseSent:
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
	relay.abortAfter(streamEndTimeout, relay.upstream)
	<-relay.upStopped
}

func (relay *webSocketRelay) abortBoth() { closeAll([]*h1.Conn{relay.downstream, relay.upstream}) }

// cancel implements slot.cancel for a resumable WebSocket. It ends the relay and keeps the client's
// connection, unless the client has gone or the process stops. At the node of the app, the shard
// must become free for its next owner. Therefore cancelStuck aborts downstream there if it does not
// accept data soon. On other nodes a slow client has no such limit.
func (relay *webSocketRelay) cancel(cancelCause cause, closes []*h1.Conn) []*h1.Conn {
	switch cancelCause {
	case causeClientGone, causeShutdown:
		return append(closes, relay.upstream, relay.downstream)
	case causeDrainTimeout:
		relay.drainExpired.Store(true)
		relay.request(requestStop | requestCloseFrame)
		relay.abortAfter(streamEndTimeout, relay.upstream)
	case causeStopping:
		relay.drainExpired.Store(true)
		closes = append(closes, relay.upstream)
	case causeNone, causeLease, causeOwnerLost, causePathDead, causeTimeout, causeShardMoved, causeLeaving, causeMoveTest:
		closes = append(closes, relay.upstream)
	}
	if relay.toApp {
		time.AfterFunc(2*streamEndTimeout, relay.cancelStuck)
	}
	return closes
}

// cancelStuck aborts downstream if a write to it is in progress, and so does not finish. Otherwise
// the relay has merely not noticed its end yet, which is no reason to disconnect the client. Then
// cancelStuck requests a stop and checks again later.
func (relay *webSocketRelay) cancelStuck() {
	switch {
	case relay.hasEnded():
	case relay.down.lastActivity.Load() == activeNow:
		relay.ifRunning(func() { _ = relay.downstream.Abort() })
	default:
		relay.request(requestStop)
		time.AfterFunc(streamEndTimeout, relay.cancelStuck)
	}
}
