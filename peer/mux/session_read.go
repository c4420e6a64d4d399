package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
)

// readLoop reads frames and handles them until the connection ends.
func (s *Session) readLoop() error {
	buf := make([]byte, initialReadBuffer)
	buffered := 0 // bytes of an incomplete frame, at the start of buf
	for {
		n, err := s.conn.Read(buf[buffered:])
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the end of the connection does not end a stream
			}
			return err
		}
		s.lastRead.Store(int64(max(time.Since(s.created), 1)))
		buffered += n
		consumed, err := s.handleFrames(buf[:buffered])
		if err != nil {
			return err
		}
		nextBuf := buf
		wasFull := buffered == len(buf)
		if wasFull && len(buf) < maxReadBuffer {
			nextBuf = make([]byte, min(8*len(buf), maxReadBuffer))
		}
		buffered = copy(nextBuf, buf[consumed:buffered])
		buf = nextBuf
		if err := s.sendTLSReplies(); err != nil {
			return err
		}
		runtime.Gosched() // lets the woken streams run first, so that their writes are sent in one batch
	}
}

// handleFrames handles the complete frames in b, and returns the number of bytes that they occupy.
// An incomplete frame at the end of b is left for the next call.
func (s *Session) handleFrames(b []byte) (consumed int, err error) {
	for {
		f, frameLen, err := parseFrame(b[consumed:])
		if frameLen == 0 || err != nil {
			return consumed, err
		}
		consumed += frameLen
		if err := s.handleFrame(f); err != nil {
			return consumed, err
		}
	}
}

// sendTLSReplies makes the writer send the replies of TLS. A peer that does not read them, and
// continues to request key updates, loses the session.
func (s *Session) sendTLSReplies() error {
	if !s.transport.hasReplies() {
		return nil
	}
	if n := s.transport.queuedReplyBytes(); n > maxTLSReplies {
		return fmt.Errorf("%w: peer does not read %d bytes of TLS replies", errProtocol, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.signalWriterLocked()
	}
	return nil
}

// handleFrame handles a frame of the session, or passes a frame of a stream to that stream.
func (s *Session) handleFrame(f frame) error {
	switch f.typ { //nolint:exhaustive // the other frames belong to a stream
	case frameGoAway:
		if s.acceptStream != nil {
			return fmt.Errorf("%w: GOAWAY of a client", errProtocol)
		}
		return s.handleGoAway(f.stream)
	case framePing:
		_ = s.enqueue(framePong, 0, nil) // fails only if the session has failed
		return nil
	case framePong:
		s.handlePong()
		return nil
	}
	st, opened, err := s.lookupStream(f)
	if st == nil || err != nil {
		return err
	}
	if !opened {
		return s.handleStreamFrame(st, f)
	}
	if !s.acceptStream(st) {
		return s.refuseStream(st)
	}
	return nil
}

// handleStreamFrame handles a frame of an open stream.
func (s *Session) handleStreamFrame(st *Stream, f frame) error {
	switch f.typ {
	case frameData:
		return st.receive(f.data)
	case frameWindowUpdate:
		return st.addSendCredit(binary.BigEndian.Uint32(f.data))
	case frameEndStream:
		st.handleEnd(false)
	case frameClose: // the stream ends first, because the session may close with its last stream
		st.handleEnd(true)
		s.handlePeerClose(st)
	case frameReset:
		st.handleReset()
		s.handlePeerClose(st)
	case frameRefuse:
		s.handleRefuse(st)
	case frameOpen, framePing, framePong, frameGoAway:
	}
	return nil
}

// lookupStream returns the stream of a frame, or nil if the frame must be ignored. opened reports
// whether the frame opens it.
func (s *Session) lookupStream(f frame) (st *Stream, opened bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, false, nil
	}
	if f.typ == frameOpen {
		st, err = s.openPeerStreamLocked(f.stream)
		return st, st != nil, err
	}
	st = s.streams[f.stream]
	if f.stream > s.lastID {
		return nil, false, fmt.Errorf("%w: stream %d has not been opened", errProtocol, f.stream)
	}
	s.maxPeerID = max(s.maxPeerID, f.stream)
	if st == nil || st.peerClosed {
		return nil, false, nil // one of its ends has closed the stream
	}
	mayBeRefused := s.acceptStream == nil && !st.receivedFromPeer
	if f.typ == frameRefuse && !mayBeRefused {
		return nil, false, fmt.Errorf("%w: refusal of stream %d, which this end accepted or the peer has used", errProtocol, f.stream)
	}
	st.receivedFromPeer = true
	return st, false, nil
}

// openPeerStreamLocked creates a stream that the peer opens. It returns nil without an error if this
// end accepts no more streams, or if the budget is used up and the stream is being refused.
func (s *Session) openPeerStreamLocked(id uint32) (*Stream, error) {
	if s.acceptStream == nil || id <= s.lastID {
		return nil, fmt.Errorf("%w: stream %d opened after %d", errProtocol, id, s.lastID)
	}
	s.lastID = id
	if s.goingAway {
		return nil, nil //nolint:nilnil // as documented
	}
	if !s.budget.acquire(1) {
		return nil, s.enqueueRefusalLocked(id)
	}
	return s.addStreamLocked(id), nil
}
