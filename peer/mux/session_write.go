package mux

import (
	"encoding/binary"
	"runtime"
	"slices"
)

// put has a frame written that none waits behind, or that waits behind none.
func (s *Session) enqueue(k frameType, lane uint32, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.enqueueLocked(k, lane, data)
	return nil
}

// add adds that frame. A reset waits behind what opens its lane: the other end takes none
// for a lane that it has not heard of. One of a socket's lane waits behind what that has said,
// which is its client's: who says his last and leaves is heard. With mu held.
func (s *Session) enqueueLocked(k frameType, lane uint32, data []byte) {
	switch {
	case k == framePing && s.pingQueued, k == framePong && s.pongQueued:
		return // one says it all
	case k == framePing:
		s.pingQueued = true
	case k == framePong:
		s.pongQueued = true
	}
	reset := k == frameReset && (s.accept == nil && lane > s.batchedID || s.budget.limit > MaxStreams)
	if k == frameOpen || k == frameEndStream || k == frameClose || reset {
		s.queue = appendFrame(s.queue, k, lane, data)
	} else {
		s.urgent = appendFrame(s.urgent, k, lane, data)
	}
	s.signalWriterLocked()
}

// send has data of a lane written; false means that too much waits already, and that the
// lane is woken when there may be room. With bulk there is more to come. Where nobody
// writes, and the socket takes it at once, it does so itself. What is whole waits for nobody's
// bytes at the end that opens lanes: those that there are, and the credit of each, bound it,
// unless they are many.
func (s *Session) enqueueData(st *Stream, data []byte, bulk bool) (bool, error) {
	most := queueLimit
	if bulk {
		most = bulkQueueLimit
	}
	s.mu.Lock()
	switch {
	case s.err != nil:
		defer s.mu.Unlock()
		return false, s.err
	case len(s.queue)+len(data) > most && (s.accept != nil || bulk || s.budget.limit > MaxStreams):
		defer s.mu.Unlock()
		if !st.blocked {
			st.blocked = true
			s.blocked = append(s.blocked, st)
		}
		return false, nil
	}
	if st.firstBatch == 0 {
		st.firstBatch = s.batches + 1
	}
	s.queue = appendFrame(s.queue, frameData, st.id, data)
	mine := !s.writing && s.transport.canTrySend()
	if mine {
		s.writing = true
	} else {
		s.signalWriterLocked()
	}
	s.mu.Unlock()
	if mine {
		s.writeInline()
	}
	return true, nil
}

// credit has the other end told that it may send so much more on a lane: at one time, however
// often that was said before it is written.
func (s *Session) enqueueWindowUpdate(st *Stream, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return // the next read says so
	}
	if st.pendingCredit == 0 {
		s.windowUpdates = append(s.windowUpdates, st)
	}
	st.pendingCredit += n
	s.signalWriterLocked()
}

// tell gives the writer its turn. With mu held.
func (s *Session) signalWriterLocked() {
	if !s.writing {
		s.writing = true
		s.writeSignal <- struct{}{} // has room: told says that it is empty
	}
}

// write writes what there is whenever it has its turn. First it lets all go on that are
// ready to: what they have to say goes out with the rest.
func (s *Session) writeLoop() {
	for {
		select {
		case <-s.writeSignal:
		case <-s.failed:
			return
		}
		if len(s.unsent) > 0 {
			n, err := s.transport.direct.Write(s.unsent)
			s.batchWritten(&s.partial, max(n, 1), err) // some of it had gone before
			s.partial, s.unsent = writeBatch{}, nil
		} else {
			runtime.Gosched()
		}
		for s.flush() {
			continue
		}
	}
}

// atOnce is how often who has the turn without being the writer writes: what comes
// meanwhile is others', and their affair after that.
const maxInlineBatches = 2

// writeSoon writes what there is as write does, from the goroutine of who had something to
// say. It never waits: where the socket takes no more it leaves the rest to the writer. It
// has the turn.
func (s *Session) writeInline() {
	runtime.Gosched()
	for range maxInlineBatches {
		batch, some := s.nextBatch()
		if !some {
			return
		}
		wakeBlocked(batch.blocked)
		n := 0
		b, err := s.transport.encrypt(batch.data)
		if err == nil {
			if n, err = s.transport.trySend(b); err == nil && n < len(b) {
				s.partial, s.unsent = batch, b[n:]
				break
			}
		}
		s.batchWritten(&batch, n, err)
	}
	s.writeSignal <- struct{}{} // has room: told says that it is empty
}

// load is what is written at one time.
type writeBatch struct {
	data    []byte
	blocked []*Stream // whom to tell that there is room
	goAway  bool      // it says which lane was the last
}

// load returns what waits to be written; false: nothing does, or it cannot, and the turn has
// been given up.
func (s *Session) nextBatch() (batch writeBatch, some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(s.urgent)+len(s.queue)+len(s.windowUpdates)+len(s.refusals) == 0 && !s.transport.hasReplies() {
		if s.writing = false; s.closeAfterFlush {
			go s.Fail(ErrDraining)
		}
		return batch, false
	}
	for _, st := range s.windowUpdates {
		var b [windowUpdateLen]byte
		binary.BigEndian.PutUint32(b[:], uint32(st.pendingCredit))
		st.pendingCredit = 0
		s.urgent = appendFrame(s.urgent, frameWindowUpdate, st.id, b[:])
	}
	for _, id := range s.refusals {
		s.urgent = appendFrame(s.urgent, frameRefuse, id, nil)
	}
	s.refusals = s.refusals[:0]
	s.batches++
	batch = writeBatch{data: slices.Insert(s.queue, 0, s.urgent...), blocked: s.blocked, goAway: s.goingAway && !s.goAwayBatched}
	s.goAwayBatched, s.batchedID = s.goingAway, s.lastID
	s.urgent, s.queue, s.spare = s.urgent[:0], s.spare, nil
	s.pingQueued, s.pongQueued = false, false
	for _, st := range s.closing {
		st.closeBatched = true
		s.releaseIfDoneLocked(st)
	}
	for _, st := range s.blocked {
		st.blocked = false
	}
	s.windowUpdates, s.closing, s.blocked = cleared(s.windowUpdates), cleared(s.closing), nil
	return batch, true
}

// emptied returns a list without its lanes, to be filled again.
func cleared(lanes []*Stream) []*Stream {
	clear(lanes)
	return lanes[:0]
}

// flush writes all that waits; false: nothing does, or it cannot.
func (s *Session) flush() bool {
	batch, some := s.nextBatch()
	if !some {
		return false
	}
	wakeBlocked(batch.blocked)
	n := 0
	b, err := s.transport.encrypt(batch.data)
	if err == nil {
		n, err = s.transport.direct.Write(b)
	}
	s.batchWritten(&batch, n, err)
	return true
}

// written notes how much of it was, and why not all.
func (s *Session) batchWritten(batch *writeBatch, n int, err error) {
	s.mu.Lock()
	if err != nil && n == 0 {
		s.batches-- // as if it waited still: who has something in it has sent nothing
	}
	if !s.keepQueueLocked(batch.data) || s.openStreams == 0 {
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

func wakeBlocked(lanes []*Stream) {
	for _, st := range lanes {
		st.signalQueueSpace()
	}
}

// keep keeps what a queue was written from, for the next one; false: it was so large, and so
// little of it is needed, that it is not kept. With mu held.
func (s *Session) keepQueueLocked(out []byte) bool {
	if len(out) > maxKeptQueue/2 {
		s.smallBatches = 0
	} else {
		s.smallBatches++
	}
	if cap(out) > maxKeptQueue && s.smallBatches >= shrinkAfter {
		return false
	}
	s.spare = out[:0]
	return true
}

// trim lets go of the room that large writes have needed, but for what waits in it. With mu held.
func (s *Session) shrinkBuffersLocked() {
	if cap(s.spare) > maxKeptQueue {
		s.spare = nil
	}
	if len(s.queue) == 0 && cap(s.queue) > maxKeptQueue {
		s.queue = nil
	}
	s.transport.shrink()
}
