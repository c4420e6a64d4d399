package mux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
)

// read hands on what comes, until the connection ends.
func (s *Session) readLoop() error {
	buf := make([]byte, initialReadBuffer)
	for have := 0; ; {
		n, err := s.conn.Read(buf[have:])
		if n == 0 && err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // no lane has ended by that
			}
			return err
		}
		s.lastRead.Store(int64(max(time.Since(s.created), 1)))
		have += n
		full := have == len(buf)
		at, err := s.handleFrames(buf[:have])
		if err != nil {
			return err
		}
		next := buf
		if full && len(buf) < maxReadBuffer {
			next = make([]byte, min(8*len(buf), maxReadBuffer))
		}
		have = copy(next, buf[at:have])
		buf = next
		if err := s.sendTLSReplies(); err != nil {
			return err
		}
		runtime.Gosched() // who was told has its turn: what it asks and says brings more at once
	}
}

// takeAll takes the whole frames in b, and returns how long they are.
func (s *Session) handleFrames(b []byte) (at int, err error) {
	for {
		f, m, err := parseFrame(b[at:])
		if m == 0 || err != nil {
			return at, err
		}
		at += m
		if err := s.handleFrame(f); err != nil {
			return at, err
		}
	}
}

// answerKeys has the writer send what TLS has to say for itself. Who does not read that, and
// goes on asking, loses the trunk.
func (s *Session) sendTLSReplies() error {
	if !s.transport.hasReplies() {
		return nil
	}
	if n := s.transport.repliesLen(); n > maxTLSReplies {
		return fmt.Errorf("%w: %d bytes of answers to the other end's TLS are not read", errProtocol, n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.signalWriterLocked()
	}
	return nil
}

// take hands a frame to its lane.
func (s *Session) handleFrame(f frame) error {
	switch {
	case f.typ == frameGoAway && s.accept != nil:
		return fmt.Errorf("%w: a last lane of the end that opens them", errProtocol)
	case f.typ == frameGoAway:
		return s.handleGoAway(f.stream)
	case f.typ == framePing:
		_ = s.enqueue(framePong, 0, nil) // where that fails, so does all else
		return nil
	case f.typ == framePong:
		s.handlePong()
		return nil
	}
	st, fresh, err := s.streamFor(f)
	if st == nil || err != nil {
		return err
	}
	if fresh {
		if !s.accept(st) {
			return s.refuseStream(st)
		}
		return nil
	}
	switch f.typ {
	case frameData:
		return st.receive(f.data)
	case frameWindowUpdate:
		return st.addSendCredit(binary.BigEndian.Uint32(f.data))
	case frameEndStream:
		st.handleEnd(false)
	case frameClose: // first it ends, for the trunk may, with its last lane
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

// lane returns the lane that a frame is for, nil if the other end has closed that or it has
// ended here; fresh: it begins with this one.
func (s *Session) streamFor(f frame) (st *Stream, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st = s.streams[f.stream]
	switch {
	case s.err != nil:
		return nil, false, nil
	case f.typ == frameOpen:
		if s.accept == nil || f.stream <= s.lastID {
			return nil, false, fmt.Errorf("%w: lane %d opened after %d", errProtocol, f.stream, s.lastID)
		}
		s.lastID = f.stream
		if s.goingAway {
			return nil, false, nil
		}
		if !s.budget.acquire(1) {
			return nil, false, s.enqueueRefusalLocked(f.stream)
		}
		return s.addStreamLocked(f.stream), true, nil
	case f.stream > s.lastID:
		return nil, false, fmt.Errorf("%w: lane %d has not been opened", errProtocol, f.stream)
	}
	s.maxPeerID = max(s.maxPeerID, f.stream)
	if st == nil || st.peerClosed {
		return nil, false, nil
	}
	if f.typ == frameRefuse && (s.accept != nil || st.heardFromPeer) {
		return nil, false, fmt.Errorf("%w: lane %d is refused that was opened by the other end, or taken", errProtocol, f.stream)
	}
	st.heardFromPeer = true
	return st, false, nil
}
