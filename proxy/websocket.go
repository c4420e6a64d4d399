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

// webSocket ends a WebSocket so that both ends learn why: a close frame each, their
// answers, and then the end of both connections.
type webSocket struct {
	once  sync.Once
	began chan struct{} // closed when the tunnel carries: before, others write
	over  chan struct{} // closed by close
	ended chan struct{} // closed when nobody runs it, nor will
	up    stream        // from the client to the app
	down  stream        // from the app to the client
	// lingers tells that the client's connection is to be closed with patience.
	lingers atomic.Bool
	late    *time.Timer // ends a tunnel whose app takes no more; nil: none runs
}

func newWebSocket(client, app *h1.Conn) *webSocket {
	ws := &webSocket{began: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{})}
	ws.up.set(app, true)
	ws.down.set(client, false)
	return ws
}

// begin lets both streams be written to, by their goroutines and by run.
func (ws *webSocket) begin() {
	ws.up.to.Writer().Begin(h1.UntilClose, 0)
	ws.down.to.Writer().Begin(h1.UntilClose, 0)
	close(ws.began)
}

// end asks for the end. It does not wait; the tunnel ends within a moment.
func (ws *webSocket) end(why cause) {
	ws.once.Do(func() {
		code := closeMoved
		if why == causeLeaving {
			code = closeLeaving
		}
		ws.up.code, ws.down.code = code, code
		go func() { // until close at the latest
			defer close(ws.ended)
			ws.run()
		}()
	})
}

// close is called when the tunnel is over, whose connections are left alone then.
func (ws *webSocket) close() {
	close(ws.over)
	ws.once.Do(func() { close(ws.ended) }) // nobody may ask any more
	<-ws.ended
	if ws.late != nil {
		ws.late.Stop()
	}
}

// run ends both connections. It returns early when over is closed.
func (ws *webSocket) run() {
	select {
	case <-ws.began:
	case <-ws.over:
		return
	}
	ws.up.finish()
	ws.down.finish()
	timer := time.NewTimer(endWait)
	defer timer.Stop()
	for _, s := range []*stream{&ws.up, &ws.down} {
		select {
		case <-s.answered:
		case <-timer.C:
			timer.Reset(0) // the other one is not waited for either
		case <-ws.over:
			return
		}
	}
	// A reset would overtake the frame: where there is one, the end is a FIN.
	if ws.up.ended() {
		_ = ws.up.to.Close()
	}
	ws.broken()
}

// broken ends the tunnel after an error. The client's connection stays open for
// what it has been told to be read.
func (ws *webSocket) broken() {
	if ws.down.ended() {
		ws.lingers.Store(true)
		ws.down.to.StopRead()
	} else {
		_ = ws.down.to.Abort() // its goroutine meets the error
	}
	_ = ws.up.to.Abort()
}

// upward carries what the client sends. An app that takes no more may have said
// why: that is carried to its end first.
func (ws *webSocket) upward(client *h1.Conn) bool {
	if err := ws.up.carry(client); !errors.Is(err, errSink) {
		return err == nil
	}
	ws.late = time.AfterFunc(endWait, ws.broken)
	return true
}

// downward carries what the app sends.
func (ws *webSocket) downward(app *h1.Conn) bool { return ws.down.carry(app) == nil }

// errSink reports that a stream's receiver takes no more.
var errSink = errors.New("proxy: tunnel: not taken")

// stream is one direction of a WebSocket. Its goroutine carries bytes; another
// one may put a close frame behind them, between two frames, and from then on
// nothing more is carried. Who may write is decided by one word:
//
//	idle ──enter──► busy ──leave──► idle, mid (a frame has begun and not ended)
//	  └───finish──► taken ◄──leave, if finish came meanwhile──┘
type stream struct {
	to       *h1.Conn
	masked   bool
	code     closeCode // set before state gets streamWant or streamTaken
	state    atomic.Uint32
	frames   frames
	answered chan struct{} // closed when a close frame, or the end, came after ours
	told     bool          // that answered is closed; the carrying goroutine's
}

const (
	streamBusy  uint32 = 1 << iota // its goroutine writes
	streamMid                      // no frame may be put in here
	streamWant                     // one is to be, as soon as it may
	streamTaken                    // one has been
	streamOver                     // the sender's own has passed
)

func (s *stream) set(to *h1.Conn, masked bool) {
	s.to, s.masked, s.answered = to, masked, make(chan struct{})
}

// carry copies what comes until it ends, and passes the end on. The error says
// why the tunnel is broken.
func (s *stream) carry(from *h1.Conn) error {
	w := s.to.Writer()
	for {
		p, err := from.Next()
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		if !s.enter() {
			if s.frames.advance(p); s.frames.closed || end {
				s.tell()
			}
			if end {
				return nil
			}
			continue
		}
		if end { // it stays busy: nothing may follow
			if !s.to.CloseWrite() {
				return errSink
			}
			return nil
		}
		s.frames.advance(p)
		if _, err := w.Write(p); err != nil || w.Flush() != nil {
			return errSink
		}
		w.Idle()
		s.leave()
	}
}

// ended reports whether the receiver has got a close frame.
func (s *stream) ended() bool { return s.state.Load()&(streamTaken|streamOver) != 0 }

func (s *stream) tell() {
	if !s.told {
		s.told = true
		close(s.answered)
	}
}

// enter takes the right to write; false means that it is gone.
func (s *stream) enter() bool {
	for {
		old := s.state.Load()
		if old&streamTaken != 0 {
			return false
		}
		if s.state.CompareAndSwap(old, old|streamBusy) {
			return true
		}
	}
}

// leave gives the right to write back, and puts in the close frame if one is
// wanted and may stand here.
func (s *stream) leave() {
	next := uint32(0)
	switch {
	case s.frames.closed:
		next = streamMid | streamOver
	case !s.frames.between():
		next = streamMid
	}
	for {
		old := s.state.Load()
		if old&streamWant != 0 && next == 0 {
			s.state.Store(streamTaken)
			s.write()
			return
		}
		if s.state.CompareAndSwap(old, old&streamWant|next) {
			return
		}
	}
}

// finish puts in the close frame, now or as soon as it may stand there.
func (s *stream) finish() {
	for {
		old := s.state.Load()
		switch {
		case old&(streamTaken|streamWant) != 0:
			return
		case old&(streamBusy|streamMid) != 0:
			if s.state.CompareAndSwap(old, old|streamWant) {
				return
			}
		case s.state.CompareAndSwap(old, streamTaken):
			s.write()
			return
		}
	}
}

// write sends the close frame. Whoever calls it has taken the stream.
func (s *stream) write() {
	var key [4]byte
	_, _ = rand.Read(key[:]) // never fails
	w := s.to.Writer()
	w.SetPrecondition(func() (time.Duration, error) { return closeFrameWrite, nil })
	_, _ = w.Write(appendClose(make([]byte, 0, 64), s.code, s.masked, key)) // the connection ends in any case
	_ = w.Flush()
}
