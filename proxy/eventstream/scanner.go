package eventstream

import "unicode/utf8"

// MaxID is how long the id of an event may be, in bytes, for its stream to go on.
const MaxID = 1 << 10

// Scanner follows the bytes of one event stream, over all its connections. The zero
// Scanner stands at the start of the first.
type Scanner struct {
	position position
	match    uint8 // bytes of a byte order mark, or of "id", that have come
	cr       bool  // the last byte was a CR
	inEvent  bool  // an event has begun: a line that is no comment
	ids      *ids  // nil: there was no id yet
}

// place is where in a line the next byte stands.
type position uint8

const (
	inBOM     position = iota // at the start of all: there may be a byte order mark
	lineStart                 // no byte of the line has come
	inID                      // the line has begun like "id"
	idStart                   // behind "id:"
	idValue
	inComment
	inOther // another field
)

// mark is the byte order mark.
var byteOrderMark = [...]byte{0xef, 0xbb, 0xbf}

// ids are the ids of a stream.
type ids struct {
	last, next, line id   // of the last whole event; of the one that has begun; of the present line
	seen             bool // there was one that is not empty
	invalid          bool // there was one that no request can carry
}

// id is the value of an id field.
type id struct {
	text    []byte
	invalid bool // no request can carry it
	hasNUL  bool // it has a NUL, and is none
}

// Next takes the bytes that come next and returns how many of them there are up to the
// last place between events; 0 if there is none behind the first byte.
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

// skipIrrelevant returns how many of the next bytes tell nothing: those of a line that is
// neither an id nor at its end.
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

// Until takes bytes up to the first place between events, none if it stands there, and
// returns how many, and whether there is one.
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

// Between reports whether no event is open, and no line.
func (s *Scanner) Between() bool {
	return !s.inEvent && (s.position == lineStart || s.position == inBOM && s.match == 0)
}

// ID returns the last event id as it was when the last event was whole: what a browser
// would send as Last-Event-ID, or nothing if it is empty. False means that the stream
// cannot go on elsewhere: no id has been shown, or one that no request can carry: longer
// than MaxID, with control bytes, not UTF-8. It is valid until the next call.
func (s *Scanner) ID() ([]byte, bool) {
	if s.ids == nil || !s.ids.seen || s.ids.invalid {
		return nil, false
	}
	return s.ids.last.text, true
}

// Spoilt reports whether an event that is whole has shown an id that no request can carry.
func (s *Scanner) HasInvalidID() bool { return s.ids != nil && s.ids.invalid }

// Again has the stream go on over another connection, from its start. What of an event
// has come is forgotten; the last id stays.
func (s *Scanner) Resume() {
	*s = Scanner{ids: s.ids}
	if s.ids != nil {
		s.ids.next.set(&s.ids.last)
	}
}

// next takes one byte.
func (s *Scanner) step(b byte) {
	if b == '\n' && s.cr {
		s.cr = false // it belongs to the line that CR ended
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

// inBOM takes a byte where a byte order mark may be.
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

// begin takes the first byte of a line.
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

// stepID takes a byte of a line that has begun like "id".
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

// value begins the value of an id field.
func (s *Scanner) beginID() {
	if s.ids == nil {
		s.ids = &ids{}
	}
	s.ids.line = id{text: s.ids.line.text[:0]}
}

// endLine takes the end of a line.
func (s *Scanner) endLine() {
	at, match := s.position, s.match
	s.position, s.match = lineStart, 0
	switch at {
	case inBOM, lineStart:
		if at == inBOM && match > 0 {
			s.inEvent = true // a line of half a mark
			return
		}
		s.inEvent = false
		if s.ids != nil {
			s.ids.dispatch()
		}
	case inID:
		if match == 2 { // the name alone: an empty value
			s.beginID()
			s.ids.endField()
		}
	case idStart, idValue:
		s.ids.endField()
	case inComment, inOther:
	}
}

// add takes a byte of the value.
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

// take makes v what from is.
func (v *id) set(from *id) {
	v.text, v.invalid = append(v.text[:0], from.text...), from.invalid
}

// end takes the end of an id field.
func (i *ids) endField() {
	if i.line.hasNUL {
		return
	}
	i.line.invalid = i.line.invalid || !utf8.Valid(i.line.text)
	i.next.set(&i.line)
}

// dispatch takes the end of an event: its id is the last one.
func (i *ids) dispatch() {
	i.last.set(&i.next)
	i.seen = i.seen || len(i.last.text) > 0
	i.invalid = i.invalid || i.last.invalid
}
