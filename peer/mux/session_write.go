package mux

import (
	"encoding/binary"
	"runtime"
	"slices"
)

// enqueue queues a control frame.
func (s *Session) enqueue(typ frameType, stream uint32, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.enqueueLocked(typ, stream, data)
	return nil
}

// enqueueLocked queues a control frame. A reset of a new stream is queued in order, after the frame
// that opens the stream, because the peer treats a reset of an unknown stream as an error. A reset
// of a WebSocket stream is also queued in order, because the data before it is the last message of
// a client that left.
func (s *Session) enqueueLocked(typ frameType, stream uint32, data []byte) {
	switch {
	case typ == framePing && s.pingQueued, typ == framePong && s.pongQueued:
		return // one is enough
	case typ == framePing:
		s.pingQueued = true
	case typ == framePong:
		s.pongQueued = true
	}
	if s.mustKeepOrderLocked(typ, stream) {
		s.queue = appendFrame(s.queue, typ, stream, data)
	} else {
		s.urgentFrames = appendFrame(s.urgentFrames, typ, stream, data)
	}
	s.signalWriterLocked()
}

// mustKeepOrderLocked reports whether a control frame must be written after the frames that were
// queued before it.
func (s *Session) mustKeepOrderLocked(typ frameType, stream uint32) bool {
	switch typ { //nolint:exhaustive // the other frames are urgent
	case frameOpen, frameEndStream, frameClose:
		return true
	case frameReset:
		openFrameIsQueued := s.acceptStream == nil && stream > s.batchedID
		return openFrameIsQueued || s.carriesWebSockets()
	}
	return false
}

// carriesWebSockets reports whether the streams of the session are those of resumable WebSockets. Only
// they have a limit above MaxStreams.
func (s *Session) carriesWebSockets() bool { return s.budget.limit > MaxStreams }

// enqueueData queues data of a stream. It returns false if the queue is too long; the stream is
// then woken when the queue may have space. bulk is set if the data is a part of a write that
// exceeds one frame. If no write is in progress, the caller writes the queue itself, as far as the
// socket accepts it without blocking.
//
// At the client, a message that fits in one frame is queued regardless of the queue length. There,
// the stream limit and the credit of each stream bound the queue. This does not apply to WebSocket
// streams.
func (s *Session) enqueueData(st *Stream, data []byte, bulk bool) (bool, error) {
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return false, s.err
	}
	if s.exceedsQueueLimitLocked(len(data), bulk) {
		defer s.mu.Unlock()
		s.blockLocked(st)
		return false, nil
	}
	if st.firstBatch == 0 {
		st.firstBatch = s.batchCount + 1
	}
	s.queue = appendFrame(s.queue, frameData, st.id, data)
	writesItself := !s.writeTurnTaken && s.transport.canTrySend()
	if writesItself {
		s.writeTurnTaken = true
	} else {
		s.signalWriterLocked()
	}
	s.mu.Unlock()
	if writesItself {
		s.writeInline()
	}
	return true, nil
}

// exceedsQueueLimitLocked reports whether the queue is too long for size more bytes of data.
func (s *Session) exceedsQueueLimitLocked(size int, bulk bool) bool {
	limit := queueLimit
	if bulk {
		limit = bulkQueueLimit
	}
	isLimited := s.acceptStream != nil || bulk || s.carriesWebSockets()
	return isLimited && len(s.queue)+size > limit
}

// blockLocked records that the stream waits for queue space.
func (s *Session) blockLocked(st *Stream) {
	if !st.isBlocked {
		st.isBlocked = true
		s.blockedStreams = append(s.blockedStreams, st)
	}
}

// enqueueWindowUpdate grants the peer n more bytes of credit for a stream. All grants for a stream
// before the next batch are combined in one frame.
func (s *Session) enqueueWindowUpdate(st *Stream, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return // the next read returns the error of the session
	}
	if st.pendingCredit == 0 {
		s.windowUpdates = append(s.windowUpdates, st)
	}
	st.pendingCredit += n
	s.signalWriterLocked()
}

// signalWriterLocked gives the write turn to the writer, unless another goroutine has it. Only the
// goroutine with the write turn may write to the connection.
func (s *Session) signalWriterLocked() {
	if !s.writeTurnTaken {
		s.writeTurnTaken = true
		s.writeSignal <- struct{}{} // does not block: no goroutine had the turn, so the channel is empty
	}
}

// writeLoop writes the queue whenever the writer receives the write turn. It first yields to all
// ready goroutines, so that their frames are sent in the same batch.
func (s *Session) writeLoop() {
	for {
		select {
		case <-s.writeSignal:
		case <-s.failed:
			return
		}
		if len(s.unsent) > 0 {
			n, err := s.transport.recordWriter.Write(s.unsent)
			s.recordBatchWritten(&s.partialBatch, max(n, 1), err) // at least 1, because a part of the batch was written before
			s.partialBatch, s.unsent = writeBatch{}, nil
		} else {
			runtime.Gosched()
		}
		for s.flush() {
			continue
		}
	}
}

// maxInlineBatches is how many batches writeInline writes. Later frames belong to other streams,
// and are left to the writer.
const maxInlineBatches = 2

// writeInline writes the queue like writeLoop, in the goroutine of a stream that has the write
// turn. It never blocks: it leaves the data that the socket does not accept to the writer.
func (s *Session) writeInline() {
	runtime.Gosched()
	for range maxInlineBatches {
		batch, ok := s.nextBatch()
		if !ok {
			return
		}
		wakeBlocked(batch.blocked)
		n := 0
		b, err := s.transport.encrypt(batch.data)
		if err == nil {
			n, err = s.transport.trySend(b)
			if err == nil && n < len(b) {
				s.partialBatch, s.unsent = batch, b[n:] // writeLoop sends it
				break
			}
		}
		s.recordBatchWritten(&batch, n, err)
	}
	s.writeSignal <- struct{}{} // does not block: this goroutine had the turn, so the channel is empty
}

// writeBatch is the data of one write.
type writeBatch struct {
	data    []byte
	blocked []*Stream // streams that must be woken because the queue has space
	goAway  bool      // data contains the GOAWAY frame
}

// nextBatch removes the queued frames from the session and returns them. If there are none, or if
// the session has failed, it gives up the write turn and returns false.
func (s *Session) nextBatch() (batch writeBatch, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.hasQueuedFramesLocked() {
		s.writeTurnTaken = false
		if s.closeAfterFlush {
			go s.Fail(ErrDraining)
		}
		return batch, false
	}
	s.appendWindowUpdatesLocked()
	s.appendRefusalsLocked()
	s.batchCount++
	batch.data = slices.Insert(s.queue, 0, s.urgentFrames...)
	batch.blocked = s.takeBlockedLocked()
	batch.goAway = s.goingAway && !s.goAwayBatched
	s.goAwayBatched, s.batchedID = s.goingAway, s.lastID
	s.urgentFrames, s.queue, s.spareQueue = s.urgentFrames[:0], s.spareQueue, nil
	s.pingQueued, s.pongQueued = false, false
	for _, st := range s.closingStreams {
		st.closeBatched = true
		s.releaseIfDoneLocked(st)
	}
	s.closingStreams = clearList(s.closingStreams)
	return batch, true
}

// hasQueuedFramesLocked reports whether there are frames or TLS replies to write.
func (s *Session) hasQueuedFramesLocked() bool {
	queued := len(s.urgentFrames) + len(s.queue) + len(s.windowUpdates) + len(s.refusals)
	return queued > 0 || s.transport.hasReplies()
}

// appendWindowUpdatesLocked appends a frame for each stream with credit to announce.
func (s *Session) appendWindowUpdatesLocked() {
	for _, st := range s.windowUpdates {
		var b [windowUpdateLen]byte
		binary.BigEndian.PutUint32(b[:], uint32(st.pendingCredit))
		st.pendingCredit = 0
		s.urgentFrames = appendFrame(s.urgentFrames, frameWindowUpdate, st.id, b[:])
	}
	s.windowUpdates = clearList(s.windowUpdates)
}

// appendRefusalsLocked appends a frame for each stream to refuse.
func (s *Session) appendRefusalsLocked() {
	for _, id := range s.refusals {
		s.urgentFrames = appendFrame(s.urgentFrames, frameRefuse, id, nil)
	}
	s.refusals = s.refusals[:0]
}

// takeBlockedLocked removes all streams from the list of streams that wait for queue space, and returns
// them. The caller must wake them.
func (s *Session) takeBlockedLocked() []*Stream {
	blocked := s.blockedStreams
	for _, st := range blocked {
		st.isBlocked = false
	}
	s.blockedStreams = nil
	return blocked
}

// clearList removes the references to all streams from the list. It returns an empty list that reuses
// the memory.
func clearList(streams []*Stream) []*Stream {
	clear(streams)
	return streams[:0]
}

// flush writes the next batch. It returns false if there is none.
func (s *Session) flush() bool {
	batch, ok := s.nextBatch()
	if !ok {
		return false
	}
	wakeBlocked(batch.blocked)
	n := 0
	b, err := s.transport.encrypt(batch.data)
	if err == nil {
		n, err = s.transport.recordWriter.Write(b)
	}
	s.recordBatchWritten(&batch, n, err)
	return true
}

// recordBatchWritten records that n bytes of the batch were written. If n is not the whole batch,
// err is the reason.
func (s *Session) recordBatchWritten(batch *writeBatch, n int, err error) {
	s.mu.Lock()
	if err != nil && n == 0 {
		s.batchCount-- // nothing was sent, so the streams of the batch are unprocessed
	}
	if !s.retainQueueLocked(batch.data) || s.openStreams == 0 {
		s.shrinkBuffersLocked()
	}
	s.mu.Unlock()
	if batch.goAway {
		close(s.goAwayWritten)
	}
	if err != nil {
		s.Fail(err)
	}
}

// wakeBlocked wakes the streams that wait for queue space.
func wakeBlocked(streams []*Stream) {
	for _, st := range streams {
		st.signalQueueSpace()
	}
}

// retainQueueLocked keeps the buffer of a written queue for reuse. It returns false if the buffer
// is large and only a small part of it has been used for shrinkAfter batches.
func (s *Session) retainQueueLocked(buf []byte) bool {
	if len(buf) > maxRetainedQueue/2 {
		s.smallBatches = 0
	} else {
		s.smallBatches++
	}
	if cap(buf) > maxRetainedQueue && s.smallBatches >= shrinkAfter {
		return false
	}
	s.spareQueue = buf[:0]
	return true
}

// shrinkBuffersLocked releases large buffers that are not being used.
func (s *Session) shrinkBuffersLocked() {
	if cap(s.spareQueue) > maxRetainedQueue {
		s.spareQueue = nil
	}
	if len(s.queue) == 0 && cap(s.queue) > maxRetainedQueue {
		s.queue = nil
	}
	s.transport.shrink()
}
