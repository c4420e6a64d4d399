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
	// Window is how many bytes of a lane may be on their way to their reader, in either
	// direction. It is part of the protocol. Half of it at least is there for what comes
	// after a message that has been read: what is small never waits for credit.
	Window = 32 << 10
	// MaxLanes is how many lanes a node may have opened to another that have not been closed
	// by both, by all trunks that it has dialed together: 8 MiB that nobody has read, of Window
	// each. It is part of the protocol.
	MaxStreams = 256
	// MaxLegs is the same of lanes that carry kept sockets, and have trunks of their own: as many
	// as there may be streams. What is not read at once is what clients and apps do not take, and
	// all together have less for that than Window each: see Sharing.
	MaxWebSocketStreams = 16384
	// lastNumber is that of the last lane that a trunk can have.
	maxStreamID = 1<<32 - 1
	// readBuffer is what one read takes at most, and firstBuffer what the first does: a trunk
	// on which little is said holds little.
	maxReadBuffer     = 64 << 10
	initialReadBuffer = 512
	// mostBeside is how much TLS may have to say for itself that waits to be written.
	maxTLSReplies = 4 << 10
	// bulkQueue is how much may wait to be written when a lane adds a part of what is too
	// long for one frame, and mostQueue when it adds all it has: the short waits behind
	// little, whatever the long ones have.
	bulkQueueLimit = 64 << 10
	queueLimit     = 256 << 10
	// keptQueue is the size of a queue that is kept whatever is written. A larger one is
	// kept for as long as a part of it is needed once in lessOften writes, and there are lanes.
	maxKeptQueue = 32 << 10
	shrinkAfter  = 256
	// pingEvery is how often Ping gives the path something to carry.
	pingInterval = 200 * time.Millisecond
)

// What Open may end with.
var (
	// ErrRetired reports a trunk that takes no more lanes.
	ErrDraining = errors.New("trunk: takes no more lanes")
	// ErrNotTaken is what a lane breaks with of which the other end has read nothing.
	ErrUnprocessed = errors.New("trunk: the other end takes no more lanes")
	// ErrFull reports that the budget is spent.
	ErrStreamLimit = errors.New("trunk: has as many lanes as it may")
)

// Trunk is one end of it. Make it with Dialed or Accepted; Run has it work.
type Session struct {
	conn      net.Conn
	budget    *Budget    // of the lanes that are opened
	transport *transport // below conn; used by who has the turn
	partial   writeBatch // of which rest is left over, for the socket took no more; theirs, too
	unsent    []byte
	accept    func(*Stream) bool // nil: this end opens the lanes
	// turn has one while there is something to write and the writer does not know yet.
	writeSignal   chan struct{}
	failed        chan struct{} // closed once it has failed
	goAwayWritten chan struct{} // closed once Last has been written
	created       time.Time
	lastRead      atomic.Int64 // when something came last, since it was born; zero: nothing has
	unusable      atomic.Bool  // it takes no more lanes, or has failed

	mu              sync.Mutex
	streams         map[uint32]*Stream // that the other end may still speak of, or this one
	openStreams     int                // of them, closed by neither
	lastID          uint32             // the lane opened last
	batchedID       uint32             // that of which the writer has taken up that it is opened
	maxPeerID       uint32             // the highest of which the other end, that is given lanes, has spoken
	urgent          []byte             // to be written, before out
	queue           []byte             // to be written
	spare           []byte             // for what comes while out is being written
	batches         uint64             // that the writer has taken up
	smallBatches    int                // writes in a row that needed little of the queue's room
	windowUpdates   []*Stream          // whose credit is to be written, each once
	closing         []*Stream          // whose close is
	refusals        []uint32           // numbers of lanes, to be written that they are not taken
	blocked         []*Stream          // who waits for room, each once
	pingQueued      bool               // a ping waits to be written
	pongQueued      bool               // the answer to one does
	pong            chan struct{}      // closed with the next answer; nil: nobody waits for one
	writing         bool               // the writer has its turn, or is at it
	lastPing        time.Time          // when Ping has sent one
	draining        bool               // no more lanes are opened
	closeAfterFlush bool               // nor is there one: it ends with what waits to be written
	goAwayReceived  bool               // for the other end has said which was the last
	goingAway       bool               // no more are taken
	goAwayBatched   bool               // the writer has taken up that
	idleGoAway      bool               // it takes none because nothing came by it
	err             error              // why it has failed; nil: it works
	idleTimer       *time.Timer        // of who is given lanes: when to see whether anything comes
}

// Dialed returns the end that opens lanes, of a budget.
func NewClient(conn net.Conn, b *Budget) *Session { return newSession(conn, b, nil) }

// Accepted returns the end whose lanes the other one opens. Each is given to give, by the
// goroutine that reads: it must not wait. If the budget is spent, or it returns false, that
// lane is refused. Who is given a lane closes it when done, or it counts.
func NewServer(conn net.Conn, b *Budget, give func(*Stream) bool) *Session {
	return newSession(conn, b, give)
}

func newSession(conn net.Conn, b *Budget, give func(*Stream) bool) *Session {
	return &Session{
		conn: conn, budget: b, transport: newTransport(conn), accept: give, streams: make(map[uint32]*Stream),
		writeSignal: make(chan struct{}, 1), failed: make(chan struct{}), goAwayWritten: make(chan struct{}), created: time.Now(),
	}
}

// Run carries lanes until the connection breaks or Fail ends it, closes the connection and
// returns why.
func (s *Session) Run() error {
	var writer sync.WaitGroup
	writer.Go(s.writeLoop)
	defer s.startIdleTimer()()
	err := s.readLoop()
	s.Fail(err)
	writer.Wait()
	return s.failure()
}

// Open opens a lane. It does not wait for the other end.
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
	if s.lastID++; s.lastID == maxStreamID {
		s.unusable.Store(true)
	}
	st := s.addStreamLocked(s.lastID)
	s.enqueueLocked(frameOpen, st.id, nil)
	return st, nil
}

// begin makes a lane that has been lent. With mu held.
func (s *Session) addStreamLocked(id uint32) *Stream {
	st := newStream(s, id, s.budget.initialWindow())
	st.budget = s.budget
	s.streams[id] = st
	s.openStreams++
	return st
}

// Works reports whether Open may give a lane.
func (s *Session) CanOpen() bool { return !s.unusable.Load() }

// Last takes no more lanes, and tells the other end which was the last: what it has sent
// on a later one nobody has read, so it may go elsewhere. It returns once that has been
// written, or after the time.
func (s *Session) GoAway(within time.Duration) {
	s.mu.Lock()
	s.goAwayLocked(s.lastID)
	s.mu.Unlock()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-s.goAwayWritten:
	case <-s.failed:
	case <-timer.C:
	}
}

// part tells which lane was the last, once. With mu held.
func (s *Session) goAwayLocked(last uint32) {
	if !s.goingAway && s.err == nil {
		s.goingAway = true
		s.enqueueLocked(frameGoAway, last, nil)
	}
}

// lastTaken breaks the lanes that the other end has not taken.
func (s *Session) handleGoAway(last uint32) error {
	var untaken []*Stream
	s.mu.Lock()
	if s.goAwayReceived || last > s.lastID || last < s.maxPeerID {
		defer s.mu.Unlock()
		return fmt.Errorf("%w: last word of lane %d; said before: %v, opened up to %d, answered up to %d", errProtocol, last, s.goAwayReceived, s.lastID, s.maxPeerID)
	}
	s.goAwayReceived, s.draining = true, true
	s.unusable.Store(true)
	for id, st := range s.streams {
		if id > last {
			untaken = append(untaken, st)
			s.forgetStreamLocked(st)
			s.markHalfClosedLocked(st)
			s.releaseIfDoneLocked(st)
		}
	}
	s.mu.Unlock()
	for _, st := range untaken {
		st.fail(ErrUnprocessed)
	}
	s.Drain()
	return nil
}

// Retire lets no more lanes be opened, and ends the trunk once each has been closed by one
// end or the other.
func (s *Session) Drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.unusable.Store(true)
	if s.openStreams == 0 {
		s.closeDrainedLocked()
	}
}

// lastWords is how long a trunk that ends in peace has for what it has said that it would say.
const flushTimeout = time.Second

// goes ends a trunk that is retired and has no lane any more, in peace: behind what waits to be
// written, which was taken for written, and the words by which its lanes have ended. With mu
// held.
func (s *Session) closeDrainedLocked() {
	if !s.writing {
		go s.Fail(ErrDraining)
		return
	}
	s.closeAfterFlush = true // who has the turn does it
	time.AfterFunc(flushTimeout, func() { s.Fail(ErrDraining) })
}

// Fail ends the trunk: every lane breaks with err, at once. Of several the first counts. Of
// what had not been written nobody has read anything.
func (s *Session) Fail(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	s.unusable.Store(true)
	lanes, crowd := s.streams, s.blocked
	var unsent []*Stream
	s.streams, s.blocked, s.windowUpdates, s.closing, s.refusals, s.urgent, s.queue, s.spare = nil, nil, nil, nil, nil, nil, nil, nil
	for id, st := range lanes {
		if st.budget != nil {
			st.budget = st.budget.releaseBelowRoot()
		}
		s.releaseIfDoneLocked(st)
		if s.accept == nil && (st.firstBatch == 0 || st.firstBatch > s.batches) {
			delete(lanes, id)
			unsent = append(unsent, st)
		}
	}
	s.mu.Unlock()
	close(s.failed)
	for _, st := range lanes {
		st.fail(err)
	}
	for _, st := range unsent {
		st.fail(fmt.Errorf("%w: %w", ErrUnprocessed, err))
	}
	wakeBlocked(crowd)
	// The socket goes first: TLS would take its time to say goodbye on a dead path.
	_ = innermostConn(s.conn).Close() // its end is what is wanted
	_ = s.conn.Close()                // lets go of what it holds
}

func (s *Session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Ping gives the path something to carry, and the other end's kernel something to
// acknowledge, unless that was done just now. Call it while something is outstanding.
func (s *Session) Ping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); s.err == nil && now.Sub(s.lastPing) >= pingInterval {
		s.lastPing = now
		s.enqueueLocked(framePing, 0, nil)
	}
}

// Quiet returns for how long nothing has come; false: nothing ever has.
func (s *Session) SinceLastRead() (time.Duration, bool) {
	at := time.Duration(s.lastRead.Load())
	return time.Since(s.created) - at, at != 0
}

// fresh reports whether something has come just now.
func (s *Session) heardRecently() bool {
	quiet, heard := s.SinceLastRead()
	return heard && quiet < heardWithin
}

// roomy reports whether what is said now goes out soon, as far as this end is concerned.
func (s *Session) hasQueueSpace() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) < bulkQueueLimit
}

// Ask asks the other end for a word, and waits until that has come: then there was a path in
// both directions, and a process that reads.
func (s *Session) AwaitPong(ctx context.Context) error {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return s.err
	}
	if s.pong == nil {
		s.pong = make(chan struct{})
	}
	word := s.pong
	s.enqueueLocked(framePing, 0, nil)
	s.mu.Unlock()
	select {
	case <-word:
		return nil
	case <-s.failed:
		return s.failure()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answered tells who waits for a word that it has come.
func (s *Session) handlePong() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pong != nil {
		close(s.pong)
		s.pong = nil
	}
}

// leave counts a lane as closed by one end. With mu held.
func (s *Session) markHalfClosedLocked(st *Stream) {
	if st.halfClosed {
		return
	}
	st.halfClosed = true
	if s.openStreams--; s.openStreams > 0 {
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

// depart notes that the other end has closed a lane.
func (s *Session) handlePeerClose(st *Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.peerClosed = true
	s.markHalfClosedLocked(st)
	s.releaseIfDoneLocked(st)
}

// drop closes a lane at this end, and tells the other one how.
func (s *Session) closeStream(st *Stream, k frameType) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.localClosed = true
	if s.streams[st.id] == st { // a trunk that has failed has none
		s.enqueueLocked(k, st.id, nil)
		s.closing = append(s.closing, st)
	}
	s.markHalfClosedLocked(st)
	s.releaseIfDoneLocked(st)
}

// settle gives back what was lent for a lane that nobody speaks of any more: both ends have
// closed it, and the writer has taken up that this one has. What waits for an end that reads
// nothing is bounded by that. Of a trunk that has failed, this end alone matters. With mu held.
func (s *Session) releaseIfDoneLocked(st *Stream) {
	over := s.err != nil || st.peerClosed && st.closeBatched
	if !st.localClosed || !over {
		return
	}
	delete(s.streams, st.id)
	if st.budget != nil {
		st.budget.release(1)
		st.budget = nil
	}
}
