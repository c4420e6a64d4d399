package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/wsframe"
)

// webSocketRelay carries a kept socket over one connection towards its app: near is where the client
// is, far where the app is. Three kinds of nodes do so:
//
//	client ── near │ ingress │ far ── near │ owner │ far ── app
//	client ── near │ ingress that is the owner      │ far ── app
//
// Two goroutines run it, one for each direction. Each writes to one connection only, so
// that a Close never stands inside what the other one writes:
//
//	up    near → far   until it is asked to stop: at the end of a message, to hand over, or at once
//	down  far → near   until far ends, or sends a Close; then it stops up
//
// What others ask for from outside is in want; what came of it is down's to judge, once
// up has ended (websocket_outcome.go).
type webSocketRelay struct {
	s                    *Server
	c                    *client // whose it is; nil: it has not begun
	session              *webSocketSession
	downstream, upstream *h1.Conn
	client               bool // near is the client
	app                  bool // far is the app

	attempt      attempt
	responseSent bool          // the head of the first answer has left
	load         *shardLoad    // where it counts; nil: nowhere
	sent         int64         // to the client before it
	before       int64         // what had passed on near
	born         time.Duration // by the server's clock

	requests     atomic.Uint32
	code         atomic.Int32  // of the Close that ends far; set before want
	closeSent    atomic.Int32  // the code of the Close of ours that the app is being sent; zero: none
	drainExpired atomic.Bool   // drain-timeout has passed, of a shard that moves
	closeWritten chan struct{} // closed when it has been
	clientClosed atomic.Bool   // near has sent a Close, which has been passed on
	upEnd        chan struct{} // closed when up has ended

	mu    sync.Mutex
	over  bool      // neither connection is this one's any more
	asked time.Time // when it was first asked to hand over

	up
	down
}

// addRunning adds to the numbers of what runs.
func (l *webSocketRelay) addRunning(n int32) {
	l.s.sockets.kept.Add(n)
	l.s.metrics.tunnels.Add(int64(n))
	if l.load != nil {
		l.load.sockets.Add(n)
	}
}

// What a leg is asked for.
const (
	requestMove      uint32 = 1 << iota // hand over: stop between two messages
	requestStop                         // stop at once
	requestClose                        // and tell the app, if it can be told
	requestReconnect                    // the client is to come again elsewhere
)

// up is what the goroutine that reads near leaves behind.
type up struct {
	direction
	scan        *wsframe.Scanner
	clean       bool // far has got whole frames only
	halfClosed  bool // far has got the end of our half
	clientEnded bool // near has ended its half, or broken
	clientEOF   bool // of these, ended
	discarded   bool // something of near was not passed on after told
	invalid     bool // near breaks the protocol
}

// down is what the goroutine that reads far leaves behind.
type down struct {
	direction
	from              wsframe.Scanner
	held              []byte // a message that is not whole
	ctl               []byte // a control frame that is not whole
	streaming         bool   // a message too long to be held is being passed on
	appClose          int    // the code of the app's Close; zero: none has come
	ponged            bool   // the app has read up to our Close
	closeAcknowledged bool   // it answers ours
	closeForwarded    bool   // it has been passed on
	ownerCode         byte   // the owner's; zero: none
	upstreamErr       error
	appInvalid        bool // far breaks the protocol
	clientGone        bool // near takes no more
}

// The owner's word on why it ends its side, in a frame that no app can send: a FIN alone
// is what a process that dies says, too.
const (
	opEndCode  = 0xf
	endMoved   = 'm' // handed over: the app has answered Close, and got all there was
	endLate    = 'l' // a message was not whole when drain-timeout had passed
	endEnded   = 'e' // the app ended the connection without Close
	endRefused = 'r' // and takes no other one
)

// pingMoved is what an app is pinged with before it is told 1012: see answers.
const pingMoved = "the shard moves"

// heldMessage is up to which length messages of an app pass only when they are whole.
const heldMessage = 64 << 10

// moveAfter is how long an owner waits, since its shard moves, for the node that has the
// client to end its half.
const moveAfter = time.Second

func newWebSocketRelay(y *responseRelay, p *attempt) *webSocketRelay {
	l := &webSocketRelay{
		s: y.s, session: y.x.session, downstream: y.conn, upstream: p.conn.Conn, client: y.ingress == "", app: p.route.Kind == Local,
		attempt: *p, load: y.s.load.of(&y.x, p.route.Kind), closeWritten: make(chan struct{}), upEnd: make(chan struct{}),
		before: y.conn.Received() + y.conn.Sent(), born: y.s.clock.now(),
	}
	l.code.Store(int32(closeMoved))
	l.clean, l.scan = true, &l.session.up
	if !l.client {
		l.session.up = wsframe.Client()
	}
	if !l.app {
		l.from.Extra = opEndCode
	}
	return l
}

// request asks for something, from any goroutine.
func (l *webSocketRelay) request(want uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if want&requestMove != 0 && !l.over && l.asked.IsZero() {
		l.asked = time.Now()
	}
	if old := l.requests.Or(want); !l.over && old|want != old {
		l.downstream.PauseRead()
	}
}

func (l *webSocketRelay) isRequested(want uint32) bool { return l.requests.Load()&want != 0 }

// end ends what others may do to the connections.
func (l *webSocketRelay) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.downstream.ResumeRead()
}

// cutAfter cuts a connection if the leg still has it then.
func (l *webSocketRelay) cutAfter(d time.Duration, c *h1.Conn) { l.runAfter(d, func() { _ = c.Cut() }) }

// runAfter calls f, which does not block, if the leg still has its connections then.
func (l *webSocketRelay) runAfter(d time.Duration, f func()) {
	time.AfterFunc(d, func() { l.ifRunning(f) })
}

// ifRunning calls f, which does not block, if the leg still has its connections.
func (l *webSocketRelay) ifRunning(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		f()
	}
}

func (l *webSocketRelay) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// start begins to carry, upward; downward is runDown's.
func (l *webSocketRelay) start(c *client) {
	l.c = c
	if !l.responseSent {
		l.clientGone = true
		close(l.upEnd)
		return
	}
	for _, end := range []*h1.Conn{l.downstream, l.upstream} {
		patient := end.Timeouts()
		patient.Body, patient.Rate = 0, 0
		end.SetTimeouts(patient)
		end.Idle()
		end.Writer().Begin(h1.UntilClose, 0)
	}
	l.up.parkDelay, l.down.parkDelay = l.parkDelay(l.downstream), l.parkDelay(l.upstream)
	l.up.wake = l.wakeFunc(l.runUp)
	c.goroutines.Go(l.runUp)
}

// runUp carries upward, until near or far ends, or down has asked it to, or it parks.
func (l *webSocketRelay) runUp() {
	if !l.runDirection(l.copyUp, &l.up.direction) {
		close(l.upEnd)
	}
}

// runDown carries downward, to the end of that, or until it parks.
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

// finish carries upward until far is done with. At an owner that hands over near may go on
// for a moment: see part.
func (l *webSocketRelay) finish() {
	switch {
	case !l.responseSent:
		return
	case l.closeForwarded && !l.clientGone: // near answers, and that is passed on
		late := l.awaitCloseReply(&l.up.direction, func() { l.request(requestStop) })
		<-l.upEnd
		late.timer.Stop()
		return
	case !l.client && l.closeSent.Load() != 0:
		<-l.closeWritten // nothing else goes to far
		return
	case l.appInvalid:
		l.code.Store(closeProtocol)
		l.request(requestStop | requestClose)
	case l.appClose != 0 && !l.closeAcknowledged:
		l.request(requestStop | requestClose)
	default:
		l.request(requestStop)
	}
	l.cutAfter(endWait, l.upstream)
	<-l.upEnd
}

func (l *webSocketRelay) cutBoth() { closeAll([]*h1.Conn{l.downstream, l.upstream}) }

// cancel is slot.cut of a kept socket: only the leg ends, unless it is the client that has
// gone or the process that ends. What near does not take within a moment keeps no shard
// here; where there is none to keep, a slow client has its time.
func (l *webSocketRelay) cancel(why cause, closes []*h1.Conn) []*h1.Conn {
	switch why {
	case causeGone, causeShutdown:
		return append(closes, l.upstream, l.downstream)
	case causeDrain:
		l.drainExpired.Store(true)
		l.request(requestStop | requestClose)
		l.cutAfter(endWait, l.upstream)
	case causeParting:
		l.drainExpired.Store(true)
		closes = append(closes, l.upstream)
	case causeNone, causeLease, causeAbandon, causeDeaf, causeTimeout, causeMoved, causeLeaving, causeRehearsed:
		closes = append(closes, l.upstream)
	}
	if l.app {
		time.AfterFunc(2*endWait, l.cancelStuck)
	}
	return closes
}

// cancelStuck cuts near if it does not take what is being passed on. Where nothing is, nothing more
// is awaited of it, and it is this node that is late to see that the leg has ended: that is no
// reason to end a client.
func (l *webSocketRelay) cancelStuck() {
	switch {
	case l.isOver():
	case l.down.lastActivity.Load() == activeNow:
		l.ifRunning(func() { _ = l.downstream.Cut() })
	default:
		l.request(requestStop)
		time.AfterFunc(endWait, l.cancelStuck)
	}
}
