package eventstream

import "unicode/utf8"

// MaxID is the maximum length in bytes of an event id with which a stream can be resumed.
const MaxID = 1 << 10

// Scanner parses the bytes of one event stream, over all its connections. The zero Scanner is at
// the start of the first connection.
type Scanner struct {
	position position
	match    uint8 // bytes of a byte order mark, or of "id", that have arrived
	cr       bool  // the last byte was a CR
	inEvent  bool  // an event has begun: a line that is not a comment
	ids      *ids  // nil until an ID has arrived
}

// position is the position of the next byte within a line.
type position uint8

const (
	inBOM     position = iota // at the start of the stream, which may begin with a byte order mark
	lineStart                 // at the first byte of a line
	inID                      // the line has begun like "id"
	idStart                   // after "id:"
	idValue
	inComment
	inOther // another field
)

// byteOrderMark is the UTF-8 byte order mark.
var byteOrderMark = [...]byte{0xef, 0xbb, 0xbf}

// ids are the event IDs of a stream.
type ids struct {
	last, next, line id   // of the last complete event, of the event that has begun, and of the current line
	seen             bool // a non-empty ID has arrived
	invalid          bool // an ID has arrived that no request can contain
}

// id is the value of an id field.
type id struct {
	text    []byte
	invalid bool // no request can contain it
	hasNUL  bool // it contains a NUL, and is ignored
}

// Next parses the next bytes. It returns the number of bytes up to the last boundary between
// events, or 0 if there is no boundary after the first byte.
func (s *Scanner) Next(p []byte) (whole int) {
	for i := 0; i < len(p); i++ {
		if i += s.skipIrrelevant(p[i:]); i == len(p) {
			break
		}
		if s.step(p[i]); s.Between() {
			whole = i + 1
		}
	}
	return whole
}

// skipIrrelevant returns how many of the next bytes can be skipped, because they belong to a line
// that is not an id field.
func (s *Scanner) skipIrrelevant(p []byte) int {
	if s.position != inComment && s.position != inOther {
		return 0
	}
	for i, b := range p {
		if b == '\n' || b == '\r' {
			return i
		}
	}
	return len(p)
}

// NextBoundary parses up to the first boundary between events, or nothing if the scanner is already
// at one. It returns the number of parsed bytes, and whether a boundary was reached.
func (s *Scanner) NextBoundary(p []byte) (n int, over bool) {
	if s.Between() {
		return 0, true
	}
	for i, b := range p {
		if s.step(b); s.Between() && (b == '\n' || i+1 == len(p) || p[i+1] != '\n') {
			return i + 1, true
		}
	}
	return len(p), false
}

// Between reports whether no event and no line has begun.
func (s *Scanner) Between() bool {
	return !s.inEvent && (s.position == lineStart || s.position == inBOM && s.match == 0)
}

// ID returns the last event id at the end of the last complete event: what a browser would send as
// Last-Event-ID, or nothing if it is empty. ok is false if the stream cannot be resumed. In that
// case there was no ID, or no request can contain it because it exceeds MaxID, contains control
// bytes or is not UTF-8. The ID is valid until the next call.
func (s *Scanner) ID() ([]byte, bool) {
	if s.ids == nil || !s.ids.seen || s.ids.invalid {
		return nil, false
	}
	return s.ids.last.text, true
}

// HasInvalidID reports whether a complete event had an id that no request can contain.
func (s *Scanner) HasInvalidID() bool { return s.ids != nil && s.ids.invalid }

// Resume continues the stream at the start of another connection. It drops an incomplete event, and
// keeps the last id.
func (s *Scanner) Resume() {
	*s = Scanner{ids: s.ids}
	if s.ids != nil {
		s.ids.next.set(&s.ids.last)
	}
}

// step parses one byte.
func (s *Scanner) step(b byte) {
	if b == '\n' && s.cr {
		s.cr = false // it belongs to the CR that ended the line
		return
	}
	s.cr = b == '\r'
	if b == '\n' || b == '\r' {
		s.endLine()
		return
	}
	switch s.position {
	case inBOM:
		s.stepBOM(b)
	case lineStart:
		s.beginLine(b)
	case inID:
		s.stepID(b)
	case idStart:
		s.position = idValue
		if b != ' ' {
			s.ids.line.add(b)
		}
	case idValue:
		s.ids.line.add(b)
	case inComment, inOther:
	}
}

// stepBOM parses a byte where a byte order mark is possible.
func (s *Scanner) stepBOM(b byte) {
	switch {
	case b == byteOrderMark[s.match] && s.match+1 == uint8(len(byteOrderMark)):
		s.position, s.match = lineStart, 0
	case b == byteOrderMark[s.match]:
		s.match++
	case s.match > 0:
		s.position, s.match, s.inEvent = inOther, 0, true
	default:
		s.beginLine(b)
	}
}

// beginLine parses the first byte of a line.
func (s *Scanner) beginLine(b byte) {
	switch b {
	case ':':
		s.position = inComment
		return
	case 'i':
		s.position, s.match = inID, 1
	default:
		s.position = inOther
	}
	s.inEvent = true
}

// stepID parses a byte of a line that has begun like "id".
func (s *Scanner) stepID(b byte) {
	switch {
	case s.match == 1 && b == 'd':
		s.match = 2
	case s.match == 2 && b == ':':
		s.beginID()
		s.position = idStart
	default:
		s.position = inOther
	}
}

// beginID begins the value of an id field.
func (s *Scanner) beginID() {
	if s.ids == nil {
		s.ids = &ids{}
	}
	s.ids.line = id{text: s.ids.line.text[:0]}
}

// endLine ends a line.
func (s *Scanner) endLine() {
	at, match := s.position, s.match
	s.position, s.match = lineStart, 0
	switch at {
	case inBOM, lineStart:
		if at == inBOM && match > 0 {
			s.inEvent = true // a line with a part of a byte order mark
			return
		}
		s.inEvent = false
		if s.ids != nil {
			s.ids.dispatch()
		}
	case inID:
		if match == 2 { // a field name without a colon has an empty value
			s.beginID()
			s.ids.endField()
		}
	case idStart, idValue:
		s.ids.endField()
	case inComment, inOther:
	}
}

// add adds a byte to the value.
func (v *id) add(b byte) {
	switch {
	case b == 0:
		v.hasNUL = true
	case b < ' ' || b == 0x7f || len(v.text) == MaxID:
		v.invalid = true
	default:
		v.text = append(v.text, b)
	}
}

// set sets v to the value of from.
func (v *id) set(from *id) {
	v.text, v.invalid = append(v.text[:0], from.text...), from.invalid
}

// endField ends an id field.
func (i *ids) endField() {
	if i.line.hasNUL {
		return
	}
	i.line.invalid = i.line.invalid || !utf8.Valid(i.line.text)
	i.next.set(&i.line)
}

// dispatch ends an event, whose id becomes the last one.
func (i *ids) dispatch() {
	i.last.set(&i.next)
	i.seen = i.seen || len(i.last.text) > 0
	i.invalid = i.invalid || i.last.invalid
}
