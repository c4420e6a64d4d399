package mux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Window is the flow-control window of a stream in bytes, for each direction. It is part of the
	// protocol. After a message has been read, at least half of the window is available, so a small
	// message never waits for credit.
	Window = 32 << 10
	// MaxStreams limits the streams that a node has opened to another node and that at least one of
	// them has not closed, over all sessions that the node has dialed. With Window bytes each, up
	// to 8 MiB can be unread. The limit is part of the protocol.
	MaxStreams = 256
	// MaxWebSocketStreams is the limit for streams of resumable WebSockets, which use separate
	// sessions. Their unread data is data that clients and apps do not accept. Therefore each of
	// them has less than Window bytes on average, from a shared pool: see Budget.WithWindowPool.
	MaxWebSocketStreams = 16384
	// maxStreamID is the highest stream ID of a session.
	maxStreamID = 1<<32 - 1
	// maxReadBuffer and initialReadBuffer are the sizes of the read buffer. It starts small, so
	// that a session with little traffic uses little memory.
	maxReadBuffer     = 64 << 10
	initialReadBuffer = 512
	// maxTLSReplies limits the bytes of queued TLS replies, such as key updates.
	maxTLSReplies = 4 << 10
	// bulkQueueLimit limits the queue for a part of a write that exceeds one frame. queueLimit
	// limits it for a write of one frame. Because bulkQueueLimit is lower, a short write does not
	// wait behind much data of long writes.
	bulkQueueLimit = 64 << 10
	queueLimit     = 256 << 10
	// maxRetainedQueue is the capacity up to which a queue buffer is always kept. A larger one is
	// kept while the session has streams and at least one of shrinkAfter writes uses more than half
	// of maxRetainedQueue.
	maxRetainedQueue = 32 << 10
	shrinkAfter      = 256
	// pingInterval is the minimum time between two pings of Session.Ping.
	pingInterval = 200 * time.Millisecond
)

// Errors of OpenStream and of streams.
var (
	// ErrDraining reports that a session opens no more streams.
	ErrDraining = errors.New("mux: session is draining")
	// ErrUnprocessed is the error of a stream of which the peer has read nothing.
	ErrUnprocessed = errors.New("mux: peer has not processed the stream")
	// ErrStreamLimit reports that the stream budget is used up.
	ErrStreamLimit = errors.New("mux: too many streams")
)

// Session is one end of a multiplexed connection. NewClient or NewServer creates it, and Run must
// be called to serve it. Its methods are safe for concurrent use.
//
// A session first accepts new streams. It then drains until its last stream has closed, after a
// call of Drain or a GOAWAY of either end. Finally it ends and closes failed. Its error is
// ErrDraining after an orderly end.
type Session struct {
	conn         net.Conn
	budget       *Budget            // counts the streams
	acceptStream func(*Stream) bool // nil at the client, which opens the streams
	transport    *transport         // wraps conn; only the goroutine that has the write turn uses it
	// partialBatch is a batch of which the rest, unsent, has not been written because the socket
	// did not accept it. Only the goroutine that has the write turn uses both.
	partialBatch writeBatch
	unsent       []byte
	// writeSignal contains an element when the writer must write and has not started to.
	writeSignal   chan struct{}
	failed        chan struct{} // closed when the session has failed
	goAwayWritten chan struct{} // closed when the GOAWAY frame has been written
	created       time.Time
	lastRead      atomic.Int64 // time of the last read since created; zero means nothing was read
	unusable      atomic.Bool  // no streams can be opened: draining, out of IDs, or failed

	// mu protects the following fields.
	mu sync.Mutex

	// Streams.
	streams     map[uint32]*Stream // streams for which one end may still send frames
	openStreams int                // streams that neither end has closed
	lastID      uint32             // highest ID of a stream that was opened
	batchedID   uint32             // highest ID whose open frame is in a batch
	maxPeerID   uint32             // client: highest ID for which the server has sent a frame

	// Frames to write.
	urgentFrames   []byte    // frames that are written before queue
	queue          []byte    // frames in order
	spareQueue     []byte    // buffer that replaces queue while queue is being written
	batchCount     uint64    // number of batches taken for writing, except those without a sent byte
	smallBatches   int       // consecutive batches that used little of the queue buffer
	windowUpdates  []*Stream // streams with credit to announce, each once
	closingStreams []*Stream // streams whose close frame is queued
	refusals       []uint32  // IDs of streams to refuse
	blockedStreams []*Stream // streams that wait for queue space, each once
	pingQueued     bool
	pongQueued     bool
	pongReceived   chan struct{} // closed by the next pong; nil means that no caller waits
	writeTurnTaken bool          // a goroutine has the write turn, or the writer is signaled
	lastPing       time.Time     // time of the last ping of Ping

	// State.
	draining        bool        // no more streams are opened
	closeAfterFlush bool        // draining and without streams: close after flushing the queue
	goAwayReceived  bool        // client: the server has sent a GOAWAY
	goingAway       bool        // server: no more streams are accepted, and a GOAWAY is queued
	goAwayBatched   bool        // the GOAWAY is in a batch
	idleGoAway      bool        // goingAway was set because the session was idle
	err             error       // why the session has failed; nil means it has not
	idleTimer       *time.Timer // server: time of the next checkIdle
}

// NewClient returns the end of a session that opens streams. Its streams count towards the budget
// b.
func NewClient(conn net.Conn, b *Budget) *Session { return newSession(conn, b, nil) }

// NewServer returns the end of a session that accepts the streams of its peer. The reading
// goroutine calls accept for each stream, so accept must not block. If the budget is used up or
// accept returns false, the session refuses the stream. An accepted stream counts towards b until
// its owner closes it.
func NewServer(conn net.Conn, b *Budget, accept func(*Stream) bool) *Session {
	return newSession(conn, b, accept)
}

func newSession(conn net.Conn, b *Budget, accept func(*Stream) bool) *Session {
	return &Session{
		conn:          conn,
		budget:        b,
		acceptStream:  accept,
		transport:     newTransport(conn),
		writeSignal:   make(chan struct{}, 1),
		failed:        make(chan struct{}),
		goAwayWritten: make(chan struct{}),
		created:       time.Now(),
		streams:       make(map[uint32]*Stream),
	}
}

// Run serves the session until the connection fails, the session has drained, or Fail is called.
// It closes the connection and returns the reason.
func (s *Session) Run() error {
	var writer sync.WaitGroup
	writer.Go(s.writeLoop)
	defer s.startIdleTimer()()
	err := s.readLoop()
	s.Fail(err)
	writer.Wait()
	return s.failureCause()
}

// OpenStream opens a stream, without waiting for the peer. Its error is ErrDraining,
// ErrStreamLimit, or the failure of the session.
func (s *Session) OpenStream() (*Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return nil, s.err
	case s.draining || s.lastID == maxStreamID:
		return nil, ErrDraining
	case !s.budget.acquire(1):
		return nil, ErrStreamLimit
	}
	s.lastID++
	if s.lastID == maxStreamID {
		s.unusable.Store(true)
	}
	st := s.addStreamLocked(s.lastID)
	s.enqueueLocked(frameOpen, st.id, nil)
	return st, nil
}

// addStreamLocked creates a stream that has been acquired from the budget.
func (s *Session) addStreamLocked(id uint32) *Stream {
	st := newStream(s, id, s.budget.initialWindow())
	st.budget = s.budget
	s.streams[id] = st
	s.openStreams++
	return st
}

// CanOpen reports whether OpenStream may succeed.
func (s *Session) CanOpen() bool { return !s.unusable.Load() }

// GoAway stops accepting streams, and sends the ID of the last accepted stream to the peer. No data
// of later streams has been read, so the peer may send their requests elsewhere. GoAway returns
// after the frame has been written, or after the timeout.
func (s *Session) GoAway(timeout time.Duration) {
	s.mu.Lock()
	s.goAwayLocked(s.lastID)
	s.mu.Unlock()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-s.goAwayWritten:
	case <-s.failed:
	case <-timer.C:
	}
}

// goAwayLocked queues a GOAWAY frame, once.
func (s *Session) goAwayLocked(last uint32) {
	if !s.goingAway && s.err == nil {
		s.goingAway = true
		s.enqueueLocked(frameGoAway, last, nil)
	}
}

// handleGoAway fails the streams that were opened after the last one that the server has accepted,
// and drains the session. These GOAWAY frames are protocol errors: a second one, one with a stream
// that was not opened, and one that revokes a stream for which the server has sent frames.
func (s *Session) handleGoAway(last uint32) error {
	var unprocessed []*Stream
	s.mu.Lock()
	isRepeated := s.goAwayReceived
	namesUnopened := last > s.lastID
	revokesAnswered := last < s.maxPeerID
	if isRepeated || namesUnopened || revokesAnswered {
		defer s.mu.Unlock()
		return fmt.Errorf("%w: GOAWAY with stream %d; received before: %v, opened up to %d, answered up to %d", errProtocol, last, s.goAwayReceived, s.lastID, s.maxPeerID)
	}
	s.goAwayReceived, s.draining = true, true
	s.unusable.Store(true)
	for id, st := range s.streams {
		if id > last {
			unprocessed = append(unprocessed, st)
			s.forgetStreamLocked(st)
			s.recordHalfCloseLocked(st)
			s.releaseIfDoneLocked(st)
		}
	}
	s.mu.Unlock()
	for _, st := range unprocessed {
		st.fail(ErrUnprocessed)
	}
	s.Drain()
	return nil
}

// Drain stops opening streams. It closes the session when each stream has been closed by at least
// one end.
func (s *Session) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.unusable.Store(true)
	if s.openStreams == 0 {
		s.closeDrainedLocked()
	}
}

// flushTimeout limits the time in which a drained session writes its queue.
const flushTimeout = time.Second

// closeDrainedLocked closes a session that is draining and has no streams. It flushes the queue
// first, because Write has already reported its data as sent, and because the queue contains the
// frames that end the streams.
func (s *Session) closeDrainedLocked() {
	if !s.writeTurnTaken {
		go s.Fail(ErrDraining)
		return
	}
	s.closeAfterFlush = true // nextBatch closes the session
	time.AfterFunc(flushTimeout, func() { s.Fail(ErrDraining) })
}

// Fail closes the session immediately, and fails all its streams with err. Only the first call has
// an effect. The error of a client stream without a written byte also wraps ErrUnprocessed.
func (s *Session) Fail(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	s.unusable.Store(true)
	streams, blocked := s.streams, s.blockedStreams
	s.streams, s.blockedStreams = nil, nil
	s.discardQueuesLocked()
	var unsent []*Stream
	for id, st := range streams {
		if st.budget != nil {
			st.budget = st.budget.releaseBelowRoot()
		}
		s.releaseIfDoneLocked(st)
		if s.acceptStream == nil && s.hasSentNothingLocked(st) {
			delete(streams, id)
			unsent = append(unsent, st)
		}
	}
	s.mu.Unlock()
	close(s.failed)
	for _, st := range streams {
		st.fail(err)
	}
	for _, st := range unsent {
		st.fail(fmt.Errorf("%w: %w", ErrUnprocessed, err))
	}
	wakeBlocked(blocked)
	// The socket is closed first, because on a dead path TLS would block while sending its alert.
	_ = innermostConn(s.conn).Close() // errors do not matter: the session has failed
	_ = s.conn.Close()                // releases the resources of the wrappers
}

// discardQueuesLocked discards the frames that have not been written, and their buffers.
func (s *Session) discardQueuesLocked() {
	s.windowUpdates, s.closingStreams, s.refusals = nil, nil, nil
	s.urgentFrames, s.queue, s.spareQueue = nil, nil, nil
}

// hasSentNothingLocked reports whether no byte of the current message of the stream was written.
func (s *Session) hasSentNothingLocked(st *Stream) bool {
	return st.firstBatch == 0 || st.firstBatch > s.batchCount
}

// failureCause returns the error of the session, or nil if it has not failed.
func (s *Session) failureCause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Ping sends a ping, so that the peer's kernel has data to acknowledge. It does nothing within
// pingInterval after the previous ping. Callers use it while a response is outstanding.
func (s *Session) Ping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	pingedRecently := now.Sub(s.lastPing) < pingInterval
	if s.err != nil || pingedRecently {
		return
	}
	s.lastPing = now
	s.enqueueLocked(framePing, 0, nil)
}

// SinceLastRead returns the time since data was last received. ok is false if no data was received.
func (s *Session) SinceLastRead() (d time.Duration, ok bool) {
	lastRead := time.Duration(s.lastRead.Load())
	return time.Since(s.created) - lastRead, lastRead != 0
}

// readRecently reports whether data was received within recentReadTime.
func (s *Session) readRecently() bool {
	sinceRead, hasRead := s.SinceLastRead()
	return hasRead && sinceRead < recentReadTime
}

// hasQueueSpace reports whether the queue of this end is short enough for new data to be sent soon.
func (s *Session) hasQueueSpace() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) < bulkQueueLimit
}

// AwaitPong sends a ping and waits for the pong. Its success proves that the path works in both
// directions and that the peer process reads.
func (s *Session) AwaitPong(ctx context.Context) error {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return s.err
	}
	if s.pongReceived == nil {
		s.pongReceived = make(chan struct{})
	}
	pong := s.pongReceived
	s.enqueueLocked(framePing, 0, nil)
	s.mu.Unlock()
	select {
	case <-pong:
		return nil
	case <-s.failed:
		return s.failureCause()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// handlePong wakes the callers of AwaitPong.
func (s *Session) handlePong() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pongReceived != nil {
		close(s.pongReceived)
		s.pongReceived = nil
	}
}

// recordHalfCloseLocked records that one end has closed the stream.
func (s *Session) recordHalfCloseLocked(st *Stream) {
	if st.halfClosed {
		return
	}
	st.halfClosed = true
	s.openStreams--
	if s.openStreams > 0 {
		return
	}
	s.shrinkBuffersLocked()
	switch {
	case s.draining:
		s.closeDrainedLocked()
	case s.idleGoAway:
		s.idleTimer.Reset(dialerCloseTimeout)
	}
}

// handlePeerClose records that the peer has closed the stream.
func (s *Session) handlePeerClose(st *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.peerClosed = true
	s.recordHalfCloseLocked(st)
	s.releaseIfDoneLocked(st)
}

// closeStream closes the stream at this end, and queues a frame of type typ for the peer. typ is
// close or reset.
func (s *Session) closeStream(st *Stream, typ frameType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.localClosed = true
	if s.streams[st.id] == st { // a failed session has none
		s.enqueueLocked(typ, st.id, nil)
		s.closingStreams = append(s.closingStreams, st)
	}
	s.recordHalfCloseLocked(st)
	s.releaseIfDoneLocked(st)
}

// releaseIfDoneLocked removes the stream and returns it to the budget if both ends have closed it
// and the close frame of this end is in a batch. Without the last condition, the queue for a peer
// that does not read would be unlimited. After a session failure, only the close of this end is
// required.
func (s *Session) releaseIfDoneLocked(st *Stream) {
	finished := s.err != nil || st.peerClosed && st.closeBatched
	if !st.localClosed || !finished {
		return
	}
	delete(s.streams, st.id)
	if st.budget != nil {
		st.budget.release(1)
		st.budget = nil
	}
}
