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
	sent              int64               // bytes sent to the client before the relay
	transferredBefore int64               // bytes transferred on downstream before the relay
	startedAt         time.Duration       // start time, by the clock of the server

	requests     atomic.Uint32
	code         atomic.Int32  // code of the close frame that ends upstream; set before requests
	closeSent    atomic.Int32  // code of the close frame that this node sends to the app; zero means none
	drainExpired atomic.Bool   // drain-timeout has passed since the shard moved
	closeWritten chan struct{} // closed when the close frame to the app has been written
	clientClosed atomic.Bool   // downstream has sent a close frame, which was sent to upstream
	upEnd        chan struct{} // closed when the direction up has stopped

	// mu protects the following fields.
	mu                  sync.Mutex
	ended               bool      // the relay has ended, and no longer owns the connections
	handoverRequestedAt time.Time // when a hand-over was first requested

	up
	down
}

// addRunning adds n to the counts of running relays.
func (l *webSocketRelay) addRunning(n int32) {
	l.server.webSockets.relays.Add(n)
	l.server.metrics.tunnels.Add(int64(n))
	if l.load != nil {
		l.load.WebSockets.Add(n)
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
	upScanner     *wsframe.Scanner
	frameComplete bool // upstream has received complete frames only
	halfClosed    bool // this node has closed its sending side of upstream
	clientEnded   bool // downstream has closed its sending side, or has failed
	clientEOF     bool // downstream has closed its sending side with a FIN
	discarded     bool // data of downstream was discarded after this node had sent its close frame
	invalid       bool // downstream violates the protocol
}

// down is the state of the direction from upstream to downstream.
type down struct {
	direction
	downScanner       wsframe.Scanner
	heldMessage       []byte // the part of an incomplete message that has not been sent to downstream
	heldControl       []byte // the part of an incomplete control frame that has been received
	streaming         bool   // a message that exceeds maxHeldMessage is being sent in parts
	appClose          int    // code of the app's close frame; zero means none
	pongReceived      bool   // the app has answered pingMoved, so it has read everything before our close frame
	closeAcknowledged bool   // the app has answered the close frame of this node
	closeForwarded    bool   // a close frame of the app was sent to downstream
	ownerCode         byte   // end code of the owner; zero means none
	upstreamErr       error
	appInvalid        bool // upstream violates the protocol
	clientGone        bool // downstream accepts no more data
}

// End codes. With an end code, the owner reports to the ingress why a relay has ended. It sends the
// code in a frame with the reserved opcode opEndCode, which no app can send. A FIN is not
// sufficient proof of a hand-over, because the kernel also sends a FIN for a process that dies.
const (
	opEndCode  = 0xf
	endMoved   = 'm' // handed over: the app has received all data and has answered the close frame
	endLate    = 'l' // a message was still incomplete after drain-timeout
	endEnded   = 'e' // the app ended the connection without a close frame
	endRefused = 'r' // as endEnded, and the app accepts no connections
)

// pingMoved is the payload of the ping that precedes the close frame 1012 to an app.
// acknowledgesClose explains its purpose.
const pingMoved = "the shard moves"

// maxHeldMessage is the maximum size in bytes of an app message that is buffered until it is
// complete. A longer message is sent to the client in parts.
const maxHeldMessage = 64 << 10

func newWebSocketRelay(y *responseRelay, p *attempt) *webSocketRelay {
	l := &webSocketRelay{
		server: y.server, session: y.exchange.session, downstream: y.conn, upstream: p.conn.Conn, toClient: y.ingress == "", toApp: p.route.Kind == route.Local,
		attempt: *p, load: y.server.loadOf(&y.exchange, p.route.Kind), closeWritten: make(chan struct{}), upEnd: make(chan struct{}),
		transferredBefore: y.conn.Received() + y.conn.Sent(), startedAt: y.server.clock.Now(),
	}
	l.code.Store(wsession.CloseMoved)
	l.frameComplete, l.upScanner = true, &l.session.up
	if !l.toClient {
		l.session.up = wsframe.Client()
	}
	if !l.toApp {
		l.downScanner.ExtraOpcode = opEndCode
	}
	return l
}

// request sets bits in requests, and interrupts the direction up so that it acts on them. Any
// goroutine may call it.
func (l *webSocketRelay) request(want uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if want&requestMove != 0 && !l.ended && l.handoverRequestedAt.IsZero() {
		l.handoverRequestedAt = time.Now()
	}
	if old := l.requests.Or(want); !l.ended && old|want != old {
		l.downstream.PauseRead()
	}
}

func (l *webSocketRelay) isRequested(want uint32) bool { return l.requests.Load()&want != 0 }

// end marks the relay as ended. After end has returned, no other goroutine uses the connections
// through this relay.
func (l *webSocketRelay) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.downstream.ResumeRead()
}

// abortAfter aborts the connection c after d, unless the relay has ended by then.
func (l *webSocketRelay) abortAfter(d time.Duration, c *h1.Conn) {
	l.runAfter(d, func() { _ = c.Abort() })
}

// runAfter calls f after d, unless the relay has ended by then. f must not block.
func (l *webSocketRelay) runAfter(d time.Duration, f func()) {
	time.AfterFunc(d, func() { l.ifRunning(f) })
}

// ifRunning calls f unless the relay has ended. f must not block.
func (l *webSocketRelay) ifRunning(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		f()
	}
}

func (l *webSocketRelay) hasEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// start prepares the connections and starts the goroutine of the direction up. The caller then runs
// the other direction with runDown.
func (l *webSocketRelay) start(c *client) {
	l.clientConn = c
	if !l.responseSent {
		l.clientGone = true
		close(l.upEnd)
		return
	}
	for _, end := range []*h1.Conn{l.downstream, l.upstream} {
		timeouts := end.Timeouts()
		timeouts.Body, timeouts.MinRate = 0, 0
		end.SetTimeouts(timeouts)
		end.ReleaseEmptyBuffers()
		end.Writer().BeginBody(h1.UntilClose, 0)
	}
	l.up.parkDelay, l.down.parkDelay = l.parkDelay(l.downstream), l.parkDelay(l.upstream)
	l.up.wake = l.wakeFunc(l.runUp)
	c.goroutines.Go(l.runUp)
}

// runUp runs the direction up until it parks or stops. It stops when one of the connections ends,
// or when the direction down requests it.
func (l *webSocketRelay) runUp() {
	if !l.runDirection(l.copyUp, &l.up.direction) {
		close(l.upEnd)
	}
}

// runDown runs the direction down until it ends or parks.
func (l *webSocketRelay) runDown() (parked bool) {
	switch {
	case !l.responseSent:
		return false
	case l.runDirection(l.copyDown, &l.down.direction):
		return true
	}
	l.noteActivity(&l.down.direction)
	return false
}

// finish stops the direction up after the direction down has ended. At an owner that hands over,
// downstream stays open until reportEnd has sent the end code.
func (l *webSocketRelay) finish() {
	switch {
	case !l.responseSent:
		return
	case l.closeForwarded && !l.clientGone: // the client's answer must still reach the app
		late := l.awaitCloseReply(&l.up.direction, func() { l.request(requestStop) })
		<-l.upEnd
		late.timer.Stop()
		return
	case !l.toClient && l.closeSent.Load() != 0:
		<-l.closeWritten // after the close frame, nothing else is sent to upstream
		return
	case l.appInvalid:
		l.code.Store(wsession.CloseProtocol)
		l.request(requestStop | requestCloseFrame)
	case l.appClose != 0 && !l.closeAcknowledged:
		l.request(requestStop | requestCloseFrame)
	default:
		l.request(requestStop)
	}
	l.abortAfter(endWait, l.upstream)
	<-l.upEnd
}

func (l *webSocketRelay) abortBoth() { closeAll([]*h1.Conn{l.downstream, l.upstream}) }

// cancel implements slot.cancel for a resumable WebSocket. It ends the relay and keeps the client's
// connection, unless the client has gone or the process stops. At the node of the app, the shard
// must become free for its next owner. Therefore cancelStuck aborts downstream there if it does not
// accept data soon. On other nodes a slow client has no such limit.
func (l *webSocketRelay) cancel(why cause, closes []*h1.Conn) []*h1.Conn {
	switch why {
	case causeClientGone, causeShutdown:
		return append(closes, l.upstream, l.downstream)
	case causeDrainTimeout:
		l.drainExpired.Store(true)
		l.request(requestStop | requestCloseFrame)
		l.abortAfter(endWait, l.upstream)
	case causeStopping:
		l.drainExpired.Store(true)
		closes = append(closes, l.upstream)
	case causeNone, causeLease, causeOwnerLost, causePathDead, causeTimeout, causeShardMoved, causeLeaving, causeMoveTest:
		closes = append(closes, l.upstream)
	}
	if l.toApp {
		time.AfterFunc(2*endWait, l.cancelStuck)
	}
	return closes
}

// cancelStuck aborts downstream if a write to it is in progress, and so does not finish. Otherwise
// the relay has merely not noticed its end yet, which is no reason to disconnect the client. Then
// cancelStuck requests a stop and checks again later.
func (l *webSocketRelay) cancelStuck() {
	switch {
	case l.hasEnded():
	case l.down.lastActivity.Load() == activeNow:
		l.ifRunning(func() { _ = l.downstream.Abort() })
	default:
		l.request(requestStop)
		time.AfterFunc(endWait, l.cancelStuck)
	}
}
