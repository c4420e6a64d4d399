package wsframe

import (
	"errors"
	"unicode/utf8"
)

// Errors for messages that an Assembler does not accept.
var (
	ErrTooLong = errors.New("wsframe: the message exceeds the limit")
	ErrUTF8    = errors.New("wsframe: a text message is not valid UTF-8")
)

// Assembler collects one message of a client. Unlike a Scanner, it stores and unmasks the payload.
type Assembler struct {
	scanner  *Scanner
	maxBytes int
	op       byte   // opcode of the message; zero means that it has not begun
	data     []byte // payload of the message so far
	maskPos  int    // bytes of the current frame's payload that are in data
}

// NewAssembler returns an Assembler for a message of up to maxBytes. scanner must be a Client scanner
// between two messages. After the message, it continues with the next frame.
func NewAssembler(scanner *Scanner, maxBytes int) *Assembler {
	return &Assembler{scanner: scanner, maxBytes: maxBytes, data: []byte{}}
}

// Step parses bytes up to the end of the frame in which p begins, or all of p, and returns their
// number. done reports whether the last frame of the message has ended. Control frames do not
// belong to the message: the caller finds them with the Scanner, which describes the bytes p[:n].
//
// Step returns an error as soon as the header of a frame announces too many bytes, so the memory of
// the Assembler grows only with bytes that have arrived, up to maxBytes.
func (a *Assembler) Step(p []byte) (n int, done bool, err error) {
	n, err = a.scanner.Step(p)
	s := a.scanner
	headerIsComplete := s.inPayload || s.header.n == 0
	if err != nil || s.IsControl() || !headerIsComplete {
		return n, false, err
	}
	if a.op == 0 {
		a.op = s.Opcode()
	}
	arrived := int(s.payloadLen - s.payloadRemaining)
	if uint64(len(a.data)-a.maskPos)+s.payloadLen > uint64(a.maxBytes) {
		return n, false, s.fail(ErrTooLong)
	}
	a.unmask(p[n-(arrived-a.maskPos) : n])
	if s.inPayload {
		return n, false, nil
	}
	a.maskPos = 0
	if s.inMessage {
		return n, false, nil
	}
	if a.op == OpText && !utf8.Valid(a.data) {
		return n, false, s.fail(ErrUTF8)
	}
	return n, true, nil
}

// unmask appends the next part of the current frame's payload to data, without its mask.
func (a *Assembler) unmask(part []byte) {
	key := a.scanner.header.maskingKey()
	for _, c := range part {
		a.data = append(a.data, c^key[a.maskPos&3])
		a.maskPos++
	}
}

// IsText reports whether the message is a text message. Otherwise it is a binary message.
func (a *Assembler) IsText() bool { return a.op == OpText }

// Data returns the payload that has arrived.
func (a *Assembler) Data() []byte { return a.data }

// AppendMessage appends a message of a client as a single masked frame.
func AppendMessage(b []byte, isText bool, data []byte) []byte {
	op := byte(OpBinary)
	if isText {
		op = OpText
	}
	return appendMasked(b, op, data)
}
