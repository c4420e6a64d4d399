package jsonkey

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the maximum number of arrays and objects around a value. All common parsers accept it.
const maxDepth = 64

// Errors of Find. Each text completes the sentence "the request is refused because of …".
var (
	errSyntax     = errors.New("a body that is not valid JSON")
	errUTF8       = errors.New("a JSON body that is not valid UTF-8")
	errBOM        = errors.New("a JSON body that begins with a byte order mark")
	errSurrogate  = errors.New("half of a surrogate pair in a JSON string")
	errNUL        = errors.New("a NUL in a name or key of the JSON body")
	errDuplicate  = errors.New("two members with the same name in the JSON body")
	errCase       = errors.New("a JSON name that differs in upper and lower case only")
	errDepth      = errors.New("a JSON body that is nested deeper than 64 levels")
	errTrailing   = errors.New("data after the end of the JSON body")
	errNumber     = errors.New("a number with several common spellings, such as 1.0, 1e3 or more than 2^53, which must be sent as a string")
	errBatch      = errors.New("a JSON batch whose elements do not all have one key")
	errEmptyBatch = errors.New("an empty JSON batch")
)

// Find returns the value to which pointer refers, appended to dst, which must be empty. The value of
// a string is decoded, and a number or a boolean is used as it is written. Find returns nil if there
// is no such value, or if it is an empty string, null, an array or an object.
//
// If the document is an array, it is a batch: the pointer applies to each element, and all elements
// must have the same key.
//
// Find returns an error if two parsers could read different keys from the document. pointer must have
// passed CheckPointer.
func Find(dst, document []byte, pointer string) ([]byte, error) {
	return find(dst, document, pointer, true)
}

// FindValue is like Find, but a document that is an array is not a batch: the pointer leads into it.
func FindValue(dst, document []byte, pointer string) ([]byte, error) {
	return find(dst, document, pointer, false)
}

// find implements Find and FindValue. mayBeBatch means that an array is a batch.
func find(dst, document []byte, pointer string, mayBeBatch bool) ([]byte, error) {
	s := scanner{text: string(document), key: dst}
	if strings.HasPrefix(s.text, "\ufeff") {
		return nil, errBOM
	}
	if !utf8.ValidString(s.text) {
		return nil, errUTF8
	}
	s.skipSpace()
	var err error
	if mayBeBatch && s.peek() == '[' {
		err = s.scanBatch(path(pointer))
	} else {
		err = s.scanValue(path(pointer), true)
	}
	if err != nil {
		return nil, err
	}
	if s.skipSpace(); s.pos < len(s.text) {
		return nil, errTrailing
	}
	if len(s.key) == 0 {
		return nil, nil
	}
	return s.key, nil
}

// scanner reads one document from its start to its end.
type scanner struct {
	text  string
	pos   int    // offset of the next byte in text
	depth int    // number of arrays and objects around the current value
	key   []byte // the key, if it was found; empty means that it was not

	// Names of the members of all objects.

	names   map[member]struct{}
	objects int // number of objects so far
}

// member is the name of a member, decoded, in one object of the document.
type member struct {
	object int
	name   string
}

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// skipSpace skips white space.
func (s *scanner) skipSpace() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// expect skips white space and then the byte c.
func (s *scanner) expect(c byte) error {
	if s.skipSpace(); s.peek() != c {
		return errSyntax
	}
	s.pos++
	return nil
}

// scanBatch reads the top-level array of a batch.
func (s *scanner) scanBatch(pointer path) error {
	var common string
	elements := 0
	err := s.scanElements(func(int) error {
		s.key = s.key[:0]
		if err := s.scanValue(pointer, true); err != nil {
			return err
		}
		isFirst := elements == 0
		if len(s.key) == 0 || !isFirst && string(s.key) != common {
			return errBatch
		}
		common = string(s.key)
		elements++
		return nil
	})
	if err == nil && elements == 0 {
		err = errEmptyBatch
	}
	return err
}

// scanValue reads one value, with the white space before it. onPath means that the pointer leads to
// this value or below it, and rest is the path below it.
func (s *scanner) scanValue(rest path, onPath bool) error {
	s.skipSpace()
	isKey := onPath && rest == ""
	switch c := s.peek(); c {
	case '{':
		return s.scanObject(rest, onPath && !isKey)
	case '[':
		return s.scanArray(rest, onPath && !isKey)
	case '"':
		return s.scanStringValue(isKey)
	case 't':
		return s.scanWord("true", isKey)
	case 'f':
		return s.scanWord("false", isKey)
	case 'n':
		return s.scanWord("null", false) // null gives no key
	default:
		return s.scanNumber(isKey)
	}
}

// scanWord reads true, false or null.
func (s *scanner) scanWord(word string, isKey bool) error {
	if !strings.HasPrefix(s.text[s.pos:], word) {
		return errSyntax
	}
	s.pos += len(word)
	if isKey {
		s.key = append(s.key, word...)
	}
	return nil
}

// scanStringValue reads a string that is a value.
func (s *scanner) scanStringValue(isKey bool) error {
	text, err := s.scanString()
	if err != nil {
		return err
	}
	if !isKey {
		return nil
	}
	if strings.IndexByte(text, 0) >= 0 {
		return errNUL
	}
	s.key = append(s.key, text...)
	return nil
}

// enter records the start of an array or object.
func (s *scanner) enter() error {
	s.pos++
	s.depth++
	if s.depth > maxDepth {
		return errDepth
	}
	return nil
}

// scanObject reads an object. onPath means that the pointer leads to one of its members.
func (s *scanner) scanObject(rest path, onPath bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	s.objects++
	object := s.objects
	var wanted string
	var below path
	if onPath {
		wanted, below = rest.next()
	}
	for isFirst := true; ; isFirst = false {
		if s.skipSpace(); s.peek() == '}' && isFirst {
			break
		}
		name, err := s.scanName(object)
		if err != nil {
			return err
		}
		isWanted := onPath && name == wanted
		if onPath && !isWanted && strings.EqualFold(name, wanted) {
			return errCase
		}
		if err := s.scanValue(below, isWanted); err != nil {
			return err
		}
		if s.skipSpace(); s.peek() != ',' {
			break
		}
		s.pos++
	}
	s.depth--
	return s.expect('}')
}

// scanName reads the name of a member and its colon. It returns an error if the object already has a
// member with this name.
func (s *scanner) scanName(object int) (name string, err error) {
	if name, err = s.scanString(); err != nil {
		return "", err
	}
	if strings.IndexByte(name, 0) >= 0 {
		return "", errNUL
	}
	if s.names == nil {
		s.names = make(map[member]struct{})
	}
	key := member{object, name}
	if _, isDuplicate := s.names[key]; isDuplicate {
		return "", errDuplicate
	}
	s.names[key] = struct{}{}
	return name, s.expect(':')
}

// scanArray reads an array. onPath means that the pointer leads to one of its elements.
func (s *scanner) scanArray(rest path, onPath bool) error {
	var wanted string
	var below path
	if onPath {
		wanted, below = rest.next()
	}
	return s.scanElements(func(index int) error {
		return s.scanValue(below, onPath && strconv.Itoa(index) == wanted)
	})
}

// scanElements reads an array, and calls scan to read each element.
func (s *scanner) scanElements(scan func(index int) error) error {
	if err := s.enter(); err != nil {
		return err
	}
	for index := 0; ; index++ {
		if s.skipSpace(); s.peek() == ']' && index == 0 {
			break
		}
		if err := scan(index); err != nil {
			return err
		}
		if s.skipSpace(); s.peek() != ',' {
			break
		}
		s.pos++
	}
	s.depth--
	return s.expect(']')
}

// scanString reads a string and decodes it.
func (s *scanner) scanString() (string, error) {
	if s.peek() != '"' {
		return "", errSyntax
	}
	s.pos++
	start := s.pos
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; {
		case c == '"':
			s.pos++
			return s.text[start : s.pos-1], nil
		case c == '\\':
			return s.scanEscaped(start)
		case c < ' ':
			return "", errSyntax
		}
		s.pos++
	}
	return "", errSyntax
}

// scanEscaped continues scanString at the first backslash of a string that begins at start.
func (s *scanner) scanEscaped(start int) (string, error) {
	decoded := []byte(s.text[start:s.pos])
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		s.pos++
		switch {
		case c == '"':
			return string(decoded), nil
		case c < ' ':
			return "", errSyntax
		case c != '\\':
			decoded = append(decoded, c)
		default:
			r, err := s.scanEscape()
			if err != nil {
				return "", err
			}
			decoded = utf8.AppendRune(decoded, r)
		}
	}
	return "", errSyntax
}

// scanEscape reads an escape sequence after its backslash.
func (s *scanner) scanEscape() (rune, error) {
	c := s.peek()
	s.pos++
	if plain := strings.IndexByte(`"\/bfnrt`, c); plain >= 0 {
		return rune("\"\\/\b\f\n\r\t"[plain]), nil
	}
	if c != 'u' {
		return 0, errSyntax
	}
	high, err := s.scanHex()
	if err != nil || !utf16.IsSurrogate(high) {
		return high, err
	}
	if !strings.HasPrefix(s.text[s.pos:], `\u`) {
		return 0, errSurrogate
	}
	s.pos += 2
	low, err := s.scanHex()
	if err != nil {
		return 0, err
	}
	r := utf16.DecodeRune(high, low)
	if r == utf8.RuneError {
		return 0, errSurrogate
	}
	return r, nil
}

// scanHex reads four hexadecimal digits.
func (s *scanner) scanHex() (rune, error) {
	const digits = 4
	if len(s.text)-s.pos < digits {
		return 0, errSyntax
	}
	value, err := strconv.ParseUint(s.text[s.pos:s.pos+digits], 16, 16)
	if err != nil {
		return 0, errSyntax
	}
	s.pos += digits
	return rune(value), nil
}

// scanNumber reads a number.
func (s *scanner) scanNumber(isKey bool) error {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	startsWithZero := s.peek() == '0'
	if digits := s.scanDigits(); digits == 0 || startsWithZero && digits > 1 {
		return errSyntax
	}
	if s.peek() == '.' {
		s.pos++
		if s.scanDigits() == 0 {
			return errSyntax
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if s.scanDigits() == 0 {
			return errSyntax
		}
	}
	if !isKey {
		return nil
	}
	number := s.text[start:s.pos]
	if !isPlainNumber(number) {
		return errNumber
	}
	s.key = append(s.key, number...)
	return nil
}

// scanDigits skips decimal digits, and returns their number.
func (s *scanner) scanDigits() int {
	start := s.pos
	for s.peek() >= '0' && s.peek() <= '9' {
		s.pos++
	}
	return s.pos - start
}

// isPlainNumber reports whether all parsers print a number as it is written, also if they convert it
// to a 64-bit floating-point number.
func isPlainNumber(number string) bool {
	if number == "-0" || strings.ContainsAny(number, "eE") {
		return false
	}
	const maxExact, minDecimal = 1 << 53, 1e-4 // smaller numbers are printed with an exponent
	value, err := strconv.ParseFloat(number, 64)
	size := math.Abs(value)
	if err != nil || size >= maxExact || size < minDecimal && size > 0 {
		return false
	}
	return strconv.FormatFloat(value, 'f', -1, 64) == number
}
