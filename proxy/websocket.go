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
	// farewellWrite bounds the writing of one close frame.
	farewellWrite = 50 * time.Millisecond
	// farewellWait is for how long the other ends may take to answer theirs. The
	// shard's next owner may be waiting.
	farewellWait = 150 * time.Millisecond
)

// goodbye ends a WebSocket so that both ends learn why: a close frame each, their
// answers, and then the end of both connections.
type goodbye struct {
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

func newGoodbye(client, app *h1.Conn) *goodbye {
	g := &goodbye{began: make(chan struct{}), over: make(chan struct{}), ended: make(chan struct{})}
	g.up.set(app, true)
	g.down.set(client, false)
	return g
}

// begin lets both streams be written to, by their goroutines and by run.
func (g *goodbye) begin() {
	g.up.to.Writer().Begin(h1.UntilClose, 0)
	g.down.to.Writer().Begin(h1.UntilClose, 0)
	close(g.began)
}

// say asks for the end. It does not wait; the tunnel ends within a moment.
func (g *goodbye) say(why cause) {
	g.once.Do(func() {
		said := farewellMoved
		if why == causeLeaving {
			said = farewellLeaving
		}
		g.up.why, g.down.why = said, said
		go func() { // until close at the latest
			defer close(g.ended)
			g.run()
		}()
	})
}

// close ends the goodbye with its tunnel, whose connections are left alone then.
func (g *goodbye) close() {
	close(g.over)
	g.once.Do(func() { close(g.ended) }) // nobody may ask any more
	<-g.ended
	if g.late != nil {
		g.late.Stop()
	}
}

// run ends both connections. It returns early when over is closed.
func (g *goodbye) run() {
	select {
	case <-g.began:
	case <-g.over:
		return
	}
	g.up.finish()
	g.down.finish()
	timer := time.NewTimer(farewellWait)
	defer timer.Stop()
	for _, s := range []*stream{&g.up, &g.down} {
		select {
		case <-s.answered:
		case <-timer.C:
			timer.Reset(0) // the other one is not waited for either
		case <-g.over:
			return
		}
	}
	// A reset would overtake the frame: where there is one, the end is a FIN.
	if g.up.ended() {
		_ = g.up.to.Close()
	}
	g.broken()
}

// broken ends the tunnel after an error. The client's connection stays open for
// what it has been told to be read.
func (g *goodbye) broken() {
	if g.down.ended() {
		g.lingers.Store(true)
		g.down.to.StopRead()
	} else {
		_ = g.down.to.Cut() // its goroutine meets the error
	}
	_ = g.up.to.Cut()
}

// upward carries what the client sends. An app that takes no more may have said
// why: that is carried to its end first.
func (g *goodbye) upward(client *h1.Conn) bool {
	if err := g.up.carry(client); !errors.Is(err, errSink) {
		return err == nil
	}
	g.late = time.AfterFunc(farewellWait, g.broken)
	return true
}

// downward carries what the app sends.
func (g *goodbye) downward(app *h1.Conn) bool { return g.down.carry(app) == nil }

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
	why      farewell // set before state gets streamWant or streamTaken
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
	w.Gate(func() (time.Duration, error) { return farewellWrite, nil })
	_, _ = w.Write(appendClose(make([]byte, 0, 64), s.why, s.masked, key)) // the connection ends in any case
	_ = w.Flush()
}
