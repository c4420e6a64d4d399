package mux

import "fmt"

// refuse refuses a lane that has just come.
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

// turnAway has the other end told that it takes no lane of that number. Who keeps to the bound
// of lanes has no more of them waiting than that. With mu held.
func (s *Session) enqueueRefusalLocked(id uint32) error {
	if most := max(int(s.budget.limit), MaxStreams); len(s.refusals) == most {
		return fmt.Errorf("%w: lane %d opened while %d are being refused", errProtocol, id, most)
	}
	s.refusals = append(s.refusals, id)
	s.signalWriterLocked()
	return nil
}

// untake breaks a lane that the other end has refused.
func (s *Session) handleRefuse(st *Stream) {
	st.fail(ErrUnprocessed) // first, for the trunk may end with its last lane
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.forgetStreamLocked(st)
		s.markHalfClosedLocked(st)
		s.releaseIfDoneLocked(st)
	}
}

// nobodys has nobody speak of a lane any more. With mu held.
func (s *Session) forgetStreamLocked(st *Stream) {
	delete(s.streams, st.id)
	st.peerClosed, st.closeBatched = true, true
}
