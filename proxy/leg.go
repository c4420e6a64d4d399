package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
	"shardway/proxy/wsframe"
)

// leg carries a kept socket over one connection towards its app: near is where the client
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
// up has ended (legend.go).
type leg struct {
	s         *Server
	c         *client // whose it is; nil: it has not begun
	k         *socket
	near, far *h1.Conn
	client    bool // near is the client
	app       bool // far is the app

	trip   attempt
	whole  bool          // the head of the first answer has left
	load   *shardLoad    // where it counts; nil: nowhere
	sent   int64         // to the client before it
	before int64         // what had passed on near
	born   time.Duration // by the server's clock

	want   atomic.Uint32
	code   atomic.Int32  // of the Close that ends far; set before want
	told   atomic.Int32  // the code of the Close of ours that the app is being sent; zero: none
	tardy  atomic.Bool   // drain-timeout has passed, of a shard that moves
	said   chan struct{} // closed when it has been
	closed atomic.Bool   // near has sent a Close, which has been passed on
	upEnd  chan struct{} // closed when up has ended

	mu    sync.Mutex
	over  bool      // neither connection is this one's any more
	asked time.Time // when it was first asked to hand over

	up
	down
}

// counts adds to the numbers of what runs.
func (l *leg) counts(n int32) {
	l.s.sockets.kept.Add(n)
	l.s.metrics.tunnels.Add(int64(n))
	if l.load != nil {
		l.load.sockets.Add(n)
	}
}

// What a leg is asked for.
const (
	wantMove  uint32 = 1 << iota // hand over: stop between two messages
	wantStop                     // stop at once
	wantClose                    // and tell the app, if it can be told
	wantLeave                    // the client is to come again elsewhere
)

// up is what the goroutine that reads near leaves behind.
type up struct {
	half
	scan      *wsframe.Scanner
	clean     bool // far has got whole frames only
	halved    bool // far has got the end of our half
	nearEnded bool // near has ended its half, or broken
	nearEOF   bool // of these, ended
	discarded bool // something of near was not passed on after told
	bad       bool // near breaks the protocol
}

// down is what the goroutine that reads far leaves behind.
type down struct {
	half
	from      wsframe.Scanner
	held      []byte // a message that is not whole
	ctl       []byte // a control frame that is not whole
	streaming bool   // a message too long to be held is being passed on
	appClose  int    // the code of the app's Close; zero: none has come
	ponged    bool   // the app has read up to our Close
	handed    bool   // it answers ours
	passed    bool   // it has been passed on
	word      byte   // the owner's; zero: none
	farErr    error
	appBad    bool // far breaks the protocol
	nearGone  bool // near takes no more
}

// The owner's word on why it ends its side, in a frame that no app can send: a FIN alone
// is what a process that dies says, too.
const (
	opWord      = 0xf
	wordMoved   = 'm' // handed over: the app has answered Close, and got all there was
	wordLate    = 'l' // a message was not whole when drain-timeout had passed
	wordEnded   = 'e' // the app ended the connection without Close
	wordRefused = 'r' // and takes no other one
)

// pingMoved is what an app is pinged with before it is told 1012: see answers.
const pingMoved = "the shard moves"

// heldMessage is up to which length messages of an app pass only when they are whole.
const heldMessage = 64 << 10

// moveAfter is how long an owner waits, since its shard moves, for the node that has the
// client to end its half.
const moveAfter = time.Second

func newLeg(y *relay, p *attempt) *leg {
	l := &leg{
		s: y.s, k: y.x.sock, near: y.h, far: p.conn.Conn, client: y.ingress == "", app: p.r.Kind == Local,
		trip: *p, load: y.s.load.of(&y.x, p.r.Kind), said: make(chan struct{}), upEnd: make(chan struct{}),
		before: y.h.Received() + y.h.Sent(), born: y.s.clock.now(),
	}
	l.code.Store(int32(closeMoved))
	l.clean, l.scan = true, &l.k.up
	if !l.client {
		l.k.up = wsframe.Client()
	}
	if !l.app {
		l.from.Extra = opWord
	}
	return l
}

// ask asks for something, from any goroutine.
func (l *leg) ask(want uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if want&wantMove != 0 && !l.over && l.asked.IsZero() {
		l.asked = time.Now()
	}
	if old := l.want.Or(want); !l.over && old|want != old {
		l.near.PauseRead()
	}
}

func (l *leg) wants(want uint32) bool { return l.want.Load()&want != 0 }

// end ends what others may do to the connections.
func (l *leg) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.near.ResumeRead()
}

// after cuts a connection if the leg still has it then.
func (l *leg) after(d time.Duration, c *h1.Conn) { l.then(d, func() { _ = c.Cut() }) }

// then calls f, which does not block, if the leg still has its connections then.
func (l *leg) then(d time.Duration, f func()) { time.AfterFunc(d, func() { l.unlessOver(f) }) }

// unlessOver calls f, which does not block, if the leg still has its connections.
func (l *leg) unlessOver(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		f()
	}
}

func (l *leg) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// begin begins to carry, upward; downward is carryDown's.
func (l *leg) begin(c *client) {
	l.c = c
	if !l.whole {
		l.nearGone = true
		close(l.upEnd)
		return
	}
	for _, end := range []*h1.Conn{l.near, l.far} {
		patient := end.Timeouts()
		patient.Body, patient.Rate = 0, 0
		end.SetTimeouts(patient)
		end.Idle()
		end.Writer().Begin(h1.UntilClose, 0)
	}
	l.up.lag, l.down.lag = l.patience(l.near), l.patience(l.far)
	l.up.wake = l.waking(l.carryUp)
	c.hands.Go(l.carryUp)
}

// carryUp carries upward, until near or far ends, or down has asked it to, or it parks.
func (l *leg) carryUp() {
	if !l.carries(l.upward, &l.up.half) {
		close(l.upEnd)
	}
}

// carryDown carries downward, to the end of that, or until it parks.
func (l *leg) carryDown() (parked bool) {
	switch {
	case !l.whole:
		return false
	case l.carries(l.downward, &l.down.half):
		return true
	}
	l.spoken(&l.down.half)
	return false
}

// finish carries upward until far is done with. At an owner that hands over near may go on
// for a moment: see part.
func (l *leg) finish() {
	switch {
	case !l.whole:
		return
	case l.passed && !l.nearGone: // near answers, and that is passed on
		late := l.awaitAnswer(&l.up.half, func() { l.ask(wantStop) })
		<-l.upEnd
		late.timer.Stop()
		return
	case !l.client && l.told.Load() != 0:
		<-l.said // nothing else goes to far
		return
	case l.appBad:
		l.code.Store(closeProtocol)
		l.ask(wantStop | wantClose)
	case l.appClose != 0 && !l.handed:
		l.ask(wantStop | wantClose)
	default:
		l.ask(wantStop)
	}
	l.after(endWait, l.far)
	<-l.upEnd
}

func (l *leg) cutBoth() { closeAll([]*h1.Conn{l.near, l.far}) }

// cut is slot.cut of a kept socket: only the leg ends, unless it is the client that has
// gone or the process that ends. What near does not take within a moment keeps no shard
// here; where there is none to keep, a slow client has its time.
func (l *leg) cut(why cause, closes []*h1.Conn) []*h1.Conn {
	switch why {
	case causeGone, causeShutdown:
		return append(closes, l.far, l.near)
	case causeDrain:
		l.tardy.Store(true)
		l.ask(wantStop | wantClose)
		l.after(endWait, l.far)
	case causeParting:
		l.tardy.Store(true)
		closes = append(closes, l.far)
	case causeNone, causeLease, causeAbandon, causeDeaf, causeTimeout, causeMoved, causeLeaving, causeRehearsed:
		closes = append(closes, l.far)
	}
	if l.app {
		time.AfterFunc(2*endWait, l.cutStuck)
	}
	return closes
}

// cutStuck cuts near if it does not take what is being passed on. Where nothing is, nothing more
// is awaited of it, and it is this node that is late to see that the leg has ended: that is no
// reason to end a client.
func (l *leg) cutStuck() {
	switch {
	case l.isOver():
	case l.down.spoke.Load() == passing:
		l.unlessOver(func() { _ = l.near.Cut() })
	default:
		l.ask(wantStop)
		time.AfterFunc(endWait, l.cutStuck)
	}
}
