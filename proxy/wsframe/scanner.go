package wsframe

import (
	"encoding/binary"
	"errors"
	"math"
	"unicode/utf8"
)

// Opcodes (RFC 6455 section 11.8).
const (
	OpContinuation = 0x0
	OpText         = 0x1
	OpBinary       = 0x2
	OpClose        = 0x8
	OpPing         = 0x9
	OpPong         = 0xa
)

// Errors for invalid frames. Each is a reason for close code 1002 (protocol error).
var (
	ErrReserved   = errors.New("wsframe: a reserved bit or opcode is used")
	ErrMasking    = errors.New("wsframe: a frame is masked that must not be, or the other way round")
	ErrControl    = errors.New("wsframe: a control frame is fragmented or longer than 125 bytes")
	ErrLength     = errors.New("wsframe: a length takes more bytes than it needs, or more than 63 bits")
	ErrFragments  = errors.New("wsframe: a message begins inside another one, or continues without a beginning")
	ErrClose      = errors.New("wsframe: a Close has a bad code or reason")
	ErrAfterClose = errors.New("wsframe: something follows a Close")
)

// NoCode is the code of a close frame without a code (RFC 6455 section 7.4.1).
const NoCode = 1005

// maxControlPayload is the maximum payload of a control frame, in bytes.
const maxControlPayload = 125

// Scanner parses one direction. The zero value parses frames of a server, which are not masked.
// Client returns a Scanner for frames of a client.
type Scanner struct {
	expectMasked bool
	// ExtraOpcode, if not zero, is a reserved control opcode that is accepted: both ends must have
	// agreed on its meaning.
	ExtraOpcode byte

	// The current frame, or the last one between two frames.
	header           header
	payloadLen       uint64                  // length of the payload
	payloadRemaining uint64                  // bytes of the payload that have not arrived
	inPayload        bool                    // the header is complete, and the payload is not
	payload          [maxControlPayload]byte // payload of a control frame

	// The stream of frames so far.
	inMessage bool  // a data frame without FIN has passed, but the last frame of its message has not
	closeSeen bool  // a close frame has passed
	err       error // result of all further steps; nil if no frame was invalid
}

// Client returns a Scanner for frames of a client, which are masked.
func Client() Scanner { return Scanner{expectMasked: true} }

// Step parses bytes up to the end of the frame in which p begins, or all of p. The bytes p[:n]
// belong to one frame. If it returns an error, n is the number of bytes before the invalid header,
// possibly 0. No byte of the invalid frame may be passed on.
func (s *Scanner) Step(p []byte) (n int, err error) {
	if s.err != nil {
		return 0, s.err
	}
	if !s.inPayload {
		n, err = s.beginFrame(p)
		if err != nil || !s.inPayload {
			return n, err
		}
	}
	n += s.addPayload(p[n:])
	if s.payloadRemaining > 0 {
		return n, nil
	}
	return n, s.endFrame()
}

// addPayload records the start of p as payload of the current frame, and returns its length. It
// stores the payload of a control frame.
func (s *Scanner) addPayload(p []byte) int {
	n := min(s.payloadRemaining, uint64(len(p)))
	if s.IsControl() {
		received := s.payloadLen - s.payloadRemaining
		copy(s.payload[received:], p[:n])
	}
	s.payloadRemaining -= n
	return int(n)
}

// beginFrame parses bytes of a header until it is complete, and returns their number.
func (s *Scanner) beginFrame(p []byte) (n int, err error) {
	for n < len(p) {
		if s.closeSeen {
			return n, s.fail(ErrAfterClose)
		}
		complete := s.header.add(p[n])
		n++
		if err := s.checkHeader(complete); err != nil {
			return n, err
		}
		if complete {
			s.inPayload = true
			return n, nil
		}
	}
	return n, nil
}

// checkHeader validates the part of the header that the last byte has completed. complete is set if
// that was the header's last byte.
func (s *Scanner) checkHeader(complete bool) error {
	switch s.header.n {
	case 1:
		return s.checkFirstByte()
	case 2:
		switch length := s.header.shortLen(); {
		case s.header.isMasked() != s.expectMasked:
			return s.fail(ErrMasking)
		case s.IsControl() && length > maxControlPayload:
			return s.fail(ErrControl)
		}
	}
	if !complete {
		return nil
	}
	// A length must use the shortest encoding.
	payloadLen, minLen := s.header.payloadLen(), uint64(0)
	switch s.header.shortLen() {
	case length16Bits:
		minLen = length16Bits
	case length64Bits:
		minLen = math.MaxUint16 + 1
	}
	if payloadLen < minLen || payloadLen > math.MaxInt64 {
		return s.fail(ErrLength)
	}
	s.payloadRemaining, s.payloadLen = payloadLen, payloadLen
	return nil
}

// checkFirstByte validates the first byte of a frame.
func (s *Scanner) checkFirstByte() error {
	fin, op := s.header.isFinal(), s.header.opcode()
	isControl := op == OpClose || op == OpPing || op == OpPong
	isExtra := s.ExtraOpcode != 0 && op == s.ExtraOpcode
	switch {
	case s.header.bytes[0]&0x70 != 0:
		return s.fail(ErrReserved)
	case op == OpContinuation:
		if !s.inMessage {
			return s.fail(ErrFragments)
		}
	case op == OpText || op == OpBinary:
		if s.inMessage {
			return s.fail(ErrFragments)
		}
	case isControl || isExtra:
		if !fin {
			return s.fail(ErrControl)
		}
	default:
		return s.fail(ErrReserved)
	}
	return nil
}

// endFrame ends the frame. It unmasks the payload of a control frame, and validates that of a close
// frame.
func (s *Scanner) endFrame() error {
	fin, op := s.header.isFinal(), s.header.opcode()
	s.inPayload, s.header.n = false, 0
	switch {
	case op < OpClose:
		s.inMessage = !fin
	case op == OpClose:
		s.unmask()
		s.closeSeen = true
		if !validClose(s.payload[:s.payloadLen]) {
			return s.fail(ErrClose)
		}
	default:
		s.unmask()
	}
	return nil
}

// unmask removes the masking from the stored payload.
func (s *Scanner) unmask() {
	if !s.expectMasked {
		return
	}
	key := s.header.bytes[2:6]
	for i := range s.payload[:s.payloadLen] {
		s.payload[i] ^= key[i&3]
	}
}

// validClose validates the payload of a close frame (RFC 6455 sections 5.5.1 and 7.4).
func validClose(p []byte) bool {
	if len(p) == 0 {
		return true
	}
	if len(p) == 1 || !utf8.Valid(p[2:]) {
		return false
	}
	return ValidCode(int(binary.BigEndian.Uint16(p)))
}

// ValidCode reports whether a close frame may contain code.
func ValidCode(code int) bool {
	isRegisteredOrPrivate := code >= 3000 && code <= 4999
	if isRegisteredOrPrivate {
		return true
	}
	isDefined := code >= 1000 && code <= 1014 && code != 1004
	onlyReported := code == NoCode || code == 1006 // reported by an endpoint, but never sent
	return isDefined && !onlyReported
}

func (s *Scanner) fail(err error) error {
	s.err = err
	return err
}

// Opcode returns the opcode of the frame to which the last byte belonged.
func (s *Scanner) Opcode() byte { return s.header.opcode() }

// IsControl reports whether the frame to which the last byte belonged is a control frame.
func (s *Scanner) IsControl() bool { return s.header.bytes[0]&0x08 != 0 }

// BetweenFrames reports whether the last byte was the last one of a frame, or no byte has passed.
func (s *Scanner) BetweenFrames() bool { return !s.inPayload && s.header.n == 0 }

// BetweenMessages reports whether no frame and no message is incomplete.
func (s *Scanner) BetweenMessages() bool { return s.BetweenFrames() && !s.inMessage }

// InMessage reports whether a message has begun and not ended. It begins with the first byte of its
// first frame.
func (s *Scanner) InMessage() bool { return s.inMessage || !s.BetweenFrames() && !s.IsControl() }

// Closed reports whether a close frame has passed. Nothing may follow it.
func (s *Scanner) Closed() bool { return s.closeSeen }

// CloseCode returns the code of the close frame that has passed, or NoCode.
func (s *Scanner) CloseCode() int {
	if s.payloadLen < 2 {
		return NoCode
	}
	return int(binary.BigEndian.Uint16(s.payload[:]))
}

// Payload returns the unmasked payload of the control frame that has just ended. It is valid until
// the next Step.
func (s *Scanner) Payload() []byte { return s.payload[:s.payloadLen] }

// Err returns the error that has ended the Scanner, or nil.
func (s *Scanner) Err() error { return s.err }
