package mux

import "fmt"

// refuseStream refuses a stream that has just been opened by the peer.
func (s *Session) refuseStream(st *Stream) error {
	s.mu.Lock()
	var err error
	if s.err == nil {
		err = s.enqueueRefusalLocked(st.id)
		s.forgetStreamLocked(st)
	}
	s.mu.Unlock()
	s.closeStream(st, frameReset)
	return err
}

// enqueueRefusalLocked queues a refusal of stream id. A peer that respects the stream limit never
// has more refusals queued than that limit. More of them are a protocol error.
func (s *Session) enqueueRefusalLocked(id uint32) error {
	if limit := max(int(s.budget.limit), MaxStreams); len(s.refusals) == limit {
		return fmt.Errorf("%w: stream %d opened while %d are being refused", errProtocol, id, limit)
	}
	s.refusals = append(s.refusals, id)
	s.signalWriterLocked()
	return nil
}

// handleRefuse fails a stream that the peer has refused.
func (s *Session) handleRefuse(st *Stream) {
	st.fail(ErrUnprocessed) // first, because the session may close with its last stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.forgetStreamLocked(st)
		s.recordHalfCloseLocked(st)
		s.releaseIfDoneLocked(st)
	}
}

// forgetStreamLocked removes a stream for which neither end sends frames any more.
func (s *Session) forgetStreamLocked(st *Stream) {
	delete(s.streams, st.id)
	st.peerClosed, st.closeBatched = true, true
}
