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
	// endWait is how long a stream may take to end on request: the two ends of a WebSocket to
	// answer their close frames, an event stream to reach the end of an event. The next owner of
	// the shard may be waiting.
	endWait = 150 * time.Millisecond
)

// webSocketTunnel closes a WebSocket that is not resumable, so that both ends learn the reason:
// each gets a close frame and may answer it before both connections are closed.
type webSocketTunnel struct {
	once      sync.Once
	began     chan struct{}   // closed when the tunnel copies; before that, other goroutines write
	over      chan struct{}   // closed by tunnelEnded
	closeDone chan struct{}   // closed when closeBoth has returned, or will never run
	up        tunnelDirection // from the client to the app
	down      tunnelDirection // from the app to the client
	// lingers means that the connection of the client must be closed by a lingering close.
	lingers    atomic.Bool
	abortTimer *time.Timer // aborts a tunnel whose app accepts no more data; nil means that it is not set
}

func newWebSocketTunnel(client, app *h1.Conn) *webSocketTunnel {
	ws := &webSocketTunnel{began: make(chan struct{}), over: make(chan struct{}), closeDone: make(chan struct{})}
	ws.up.set(app, true)
	ws.down.set(client, false)
	return ws
}

// begin permits both directions to write, by their own goroutines and by closeBoth.
func (ws *webSocketTunnel) begin() {
	ws.up.to.Writer().Begin(h1.UntilClose, 0)
	ws.down.to.Writer().Begin(h1.UntilClose, 0)
	close(ws.began)
}

// requestClose starts the close of the WebSocket. It does not wait. The tunnel ends within a
// moment.
func (ws *webSocketTunnel) requestClose(why cause) {
	ws.once.Do(func() {
		code := closeMoved
		if why == causeLeaving {
			code = closeLeaving
		}
		ws.up.code, ws.down.code = code, code
		go func() { // ends before tunnelEnded returns
			defer close(ws.closeDone)
			ws.closeBoth()
		}()
	})
}

// tunnelEnded is called when the tunnel has ended. The connections are not used after it.
func (ws *webSocketTunnel) tunnelEnded() {
	close(ws.over)
	ws.once.Do(func() { close(ws.closeDone) }) // requestClose does nothing from now on
	<-ws.closeDone
	if ws.abortTimer != nil {
		ws.abortTimer.Stop()
	}
}

// closeBoth sends a close frame to both ends, waits for their answers and closes both connections.
// It returns early when over is closed.
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
			timer.Reset(0) // do not wait for the other direction either
		case <-ws.over:
			return
		}
	}
	// A reset would discard the close frame, so a FIN must follow it.
	if ws.up.closeSent() {
		_ = ws.up.to.Close()
	}
	ws.abort()
}

// abort ends the tunnel after an error. If the client has received a close frame, its connection
// stays open for the answer.
func (ws *webSocketTunnel) abort() {
	if ws.down.closeSent() {
		ws.lingers.Store(true)
		ws.down.to.StopRead()
	} else {
		_ = ws.down.to.Abort() // its goroutine gets the error
	}
	_ = ws.up.to.Abort()
}

// copyUp copies from the client to the app. If the app accepts no more data, it may have sent the
// reason. Therefore the other direction continues for up to endWait.
func (ws *webSocketTunnel) copyUp(client *h1.Conn) bool {
	if err := ws.up.copyFrom(client); !errors.Is(err, errReceiverFailed) {
		return err == nil
	}
	ws.abortTimer = time.AfterFunc(endWait, ws.abort)
	return true
}

// copyDown copies from the app to the client.
func (ws *webSocketTunnel) copyDown(app *h1.Conn) bool { return ws.down.copyFrom(app) == nil }

// errReceiverFailed reports that the receiver of a direction accepts no more data.
var errReceiverFailed = errors.New("proxy: tunnel: not taken")

// tunnelDirection is one direction of a WebSocket. Its goroutine copies bytes. Another goroutine
// may append a close frame between two frames; after that nothing more is copied. One atomic word
// decides which of them may write:
//
//	idle ──lockWrite──► busy ──unlockWrite──► idle, or in a frame that has not ended
//	  └─────requestClose─────► closed ◄──unlockWrite, if a close was requested meanwhile
type tunnelDirection struct {
	to            *h1.Conn
	masked        bool
	code          closeCode // set before state gets directionCloseRequested or directionClosed
	state         atomic.Uint32
	frames        frameTracker
	replied       chan struct{} // closed when a close frame or the end arrived after our close frame
	replySignaled bool          // replied is closed; used by the copying goroutine only
}

const (
	directionBusy           uint32 = 1 << iota // the goroutine of the direction writes
	directionInFrame                           // no frame can be inserted here
	directionCloseRequested                    // a close frame must be sent as soon as possible
	directionClosed                            // our close frame was sent
	directionSenderClosed                      // the close frame of the sender was passed on
)

func (s *tunnelDirection) set(to *h1.Conn, masked bool) {
	s.to, s.masked, s.replied = to, masked, make(chan struct{})
}

// copyFrom copies data until the source ends, and passes the end on. The error is the reason why
// the tunnel is broken.
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
		if end { // keep the lock: nothing may follow
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

// closeSent reports whether the receiver has got a close frame.
func (s *tunnelDirection) closeSent() bool {
	return s.state.Load()&(directionClosed|directionSenderClosed) != 0
}

func (s *tunnelDirection) signalReply() {
	if !s.replySignaled {
		s.replySignaled = true
		close(s.replied)
	}
}

// lockWrite acquires the right to write. It reports false if our close frame was sent.
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

// unlockWrite releases the right to write. It sends the close frame if one was requested and may
// stand here.
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

// requestClose sends the close frame now, or as soon as it may stand between two frames.
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

// writeClose sends the close frame. The caller has set directionClosed.
func (s *tunnelDirection) writeClose() {
	var key [4]byte
	_, _ = rand.Read(key[:]) // never fails
	w := s.to.Writer()
	w.SetPrecondition(func() (time.Duration, error) { return closeFrameWrite, nil })
	_, _ = w.Write(appendClose(make([]byte, 0, 64), s.code, s.masked, key)) // the connection ends in any case
	_ = w.Flush()
}
