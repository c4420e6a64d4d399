package proxy

import (
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"shardway/proxy/h1"
)

const (
	// closeFrameWrite bounds the writing of one close frame.
	closeFrameWrite = 50 * time.Millisecond
	// endWait is for how long a stream may take to end that is asked to: the two ends
	// of a WebSocket to answer their close frames, an event stream to come to the end
	// of an event. The shard's next owner may be waiting.
	endWait = 150 * time.Millisecond
)

// webSocketTunnel ends a WebSocket so that both ends learn why: a close frame each, their
// answers, and then the end of both connections.
type webSocketTunnel struct {
	once      sync.Once
	began     chan struct{}   // closed when the tunnel carries: before, others write
	over      chan struct{}   // closed by close
	closeDone chan struct{}   // closed when nobody runs it, nor will
	up        tunnelDirection // from the client to the app
	down      tunnelDirection // from the app to the client
	// lingers tells that the client's connection is to be closed with patience.
	lingers    atomic.Bool
	abortTimer *time.Timer // ends a tunnel whose app takes no more; nil: none runs
}

func newWebSocketTunnel(client, app *h1.Conn) *webSocketTunnel {
	ws := &webSocketTunnel{began: make(chan struct{}), over: make(chan struct{}), closeDone: make(chan struct{})}
	ws.up.set(app, true)
	ws.down.set(client, false)
	return ws
}

// begin lets both streams be written to, by their goroutines and by run.
func (ws *webSocketTunnel) begin() {
	ws.up.to.Writer().Begin(h1.UntilClose, 0)
	ws.down.to.Writer().Begin(h1.UntilClose, 0)
	close(ws.began)
}

// end asks for the end. It does not wait; the tunnel ends within a moment.
func (ws *webSocketTunnel) requestClose(why cause) {
	ws.once.Do(func() {
		code := closeMoved
		if why == causeLeaving {
			code = closeLeaving
		}
		ws.up.code, ws.down.code = code, code
		go func() { // until close at the latest
			defer close(ws.closeDone)
			ws.closeBoth()
		}()
	})
}

// close is called when the tunnel is over, whose connections are left alone then.
func (ws *webSocketTunnel) tunnelEnded() {
	close(ws.over)
	ws.once.Do(func() { close(ws.closeDone) }) // nobody may ask any more
	<-ws.closeDone
	if ws.abortTimer != nil {
		ws.abortTimer.Stop()
	}
}

// run ends both connections. It returns early when over is closed.
func (ws *webSocketTunnel) closeBoth() {
	select {
	case <-ws.began:
	case <-ws.over:
		return
	}
	ws.up.requestClose()
	ws.down.requestClose()
	timer := time.NewTimer(endWait)
	defer timer.Stop()
	for _, s := range []*tunnelDirection{&ws.up, &ws.down} {
		select {
		case <-s.replied:
		case <-timer.C:
			timer.Reset(0) // the other one is not waited for either
		case <-ws.over:
			return
		}
	}
	// A reset would overtake the frame: where there is one, the end is a FIN.
	if ws.up.closeSent() {
		_ = ws.up.to.Close()
	}
	ws.abort()
}

// broken ends the tunnel after an error. The client's connection stays open for
// what it has been told to be read.
func (ws *webSocketTunnel) abort() {
	if ws.down.closeSent() {
		ws.lingers.Store(true)
		ws.down.to.StopRead()
	} else {
		_ = ws.down.to.Abort() // its goroutine meets the error
	}
	_ = ws.up.to.Abort()
}

// upward carries what the client sends. An app that takes no more may have said
// why: that is carried to its end first.
func (ws *webSocketTunnel) copyUp(client *h1.Conn) bool {
	if err := ws.up.copyFrom(client); !errors.Is(err, errReceiverFailed) {
		return err == nil
	}
	ws.abortTimer = time.AfterFunc(endWait, ws.abort)
	return true
}

// downward carries what the app sends.
func (ws *webSocketTunnel) copyDown(app *h1.Conn) bool { return ws.down.copyFrom(app) == nil }

// errReceiverFailed reports that a stream's receiver takes no more.
var errReceiverFailed = errors.New("proxy: tunnel: not taken")

// stream is one direction of a WebSocket. Its goroutine carries bytes; another
// one may put a close frame behind them, between two frames, and from then on
// nothing more is carried. Who may write is decided by one word:
//
//	idle ──enter──► busy ──leave──► idle, mid (a frame has begun and not ended)
//	  └───finish──► taken ◄──leave, if finish came meanwhile──┘
type tunnelDirection struct {
	to            *h1.Conn
	masked        bool
	code          closeCode // set before state gets directionCloseRequested or directionClosed
	state         atomic.Uint32
	frames        frameTracker
	replied       chan struct{} // closed when a close frame, or the end, came after ours
	replySignaled bool          // that answered is closed; the carrying goroutine's
}

const (
	directionBusy           uint32 = 1 << iota // its goroutine writes
	directionInFrame                           // no frame may be put in here
	directionCloseRequested                    // one is to be, as soon as it may
	directionClosed                            // one has been
	directionSenderClosed                      // the sender's own has passed
)

func (s *tunnelDirection) set(to *h1.Conn, masked bool) {
	s.to, s.masked, s.replied = to, masked, make(chan struct{})
}

// carry copies what comes until it ends, and passes the end on. The error says
// why the tunnel is broken.
func (s *tunnelDirection) copyFrom(from *h1.Conn) error {
	w := s.to.Writer()
	for {
		p, err := from.Next()
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		if !s.lockWrite() {
			if s.frames.advance(p); s.frames.closed || end {
				s.signalReply()
			}
			if end {
				return nil
			}
			continue
		}
		if end { // it stays busy: nothing may follow
			if !s.to.CloseWrite() {
				return errReceiverFailed
			}
			return nil
		}
		s.frames.advance(p)
		if _, err := w.Write(p); err != nil || w.Flush() != nil {
			return errReceiverFailed
		}
		w.Idle()
		s.unlockWrite()
	}
}

// ended reports whether the receiver has got a close frame.
func (s *tunnelDirection) closeSent() bool {
	return s.state.Load()&(directionClosed|directionSenderClosed) != 0
}

func (s *tunnelDirection) signalReply() {
	if !s.replySignaled {
		s.replySignaled = true
		close(s.replied)
	}
}

// enter takes the right to write; false means that it is gone.
func (s *tunnelDirection) lockWrite() bool {
	for {
		old := s.state.Load()
		if old&directionClosed != 0 {
			return false
		}
		if s.state.CompareAndSwap(old, old|directionBusy) {
			return true
		}
	}
}

// leave gives the right to write back, and puts in the close frame if one is
// wanted and may stand here.
func (s *tunnelDirection) unlockWrite() {
	next := uint32(0)
	switch {
	case s.frames.closed:
		next = directionInFrame | directionSenderClosed
	case !s.frames.isBetweenFrames():
		next = directionInFrame
	}
	for {
		old := s.state.Load()
		if old&directionCloseRequested != 0 && next == 0 {
			s.state.Store(directionClosed)
			s.writeClose()
			return
		}
		if s.state.CompareAndSwap(old, old&directionCloseRequested|next) {
			return
		}
	}
}

// finish puts in the close frame, now or as soon as it may stand there.
func (s *tunnelDirection) requestClose() {
	for {
		old := s.state.Load()
		switch {
		case old&(directionClosed|directionCloseRequested) != 0:
			return
		case old&(directionBusy|directionInFrame) != 0:
			if s.state.CompareAndSwap(old, old|directionCloseRequested) {
				return
			}
		case s.state.CompareAndSwap(old, directionClosed):
			s.writeClose()
			return
		}
	}
}

// write sends the close frame. Whoever calls it has taken the stream.
func (s *tunnelDirection) writeClose() {
	var key [4]byte
	_, _ = rand.Read(key[:]) // never fails
	w := s.to.Writer()
	w.SetPrecondition(func() (time.Duration, error) { return closeFrameWrite, nil })
	_, _ = w.Write(appendClose(make([]byte, 0, 64), s.code, s.masked, key)) // the connection ends in any case
	_ = w.Flush()
}
