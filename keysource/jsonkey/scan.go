package jsonkey

import (
	"bytes"
	"errors"
	"hash/maphash"
	"math"
	"slices"
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

// find implements Find and FindValue. mayBeBatch is set if an array is a batch.
func find(dst, document []byte, pointer string, mayBeBatch bool) ([]byte, error) {
	s := scanner{text: document, key: dst}
	if bytes.HasPrefix(s.text, []byte("\ufeff")) {
		return nil, errBOM
	}
	if !utf8.Valid(s.text) {
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
	text    []byte
	pos     int    // offset of the next byte in text
	depth   int    // number of arrays and objects around the current value
	key     []byte // the key, if it was found; empty means that it was not
	decoded []byte // memory of the last name with an escape sequence

	// hashes contains a hash of each member name in the objects around the current value. The names of an
	// object are after the names of the objects around it, and are removed at its end.
	hashes []uint64
}

// hashSeed prevents clients from finding two names with the same hash.
var hashSeed = maphash.MakeSeed()

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
	var common []byte
	elements := 0
	err := s.scanElements(func(int) error {
		s.key = s.key[:0]
		if err := s.scanValue(pointer, true); err != nil {
			return err
		}
		isFirst := elements == 0
		if len(s.key) == 0 || !isFirst && !bytes.Equal(s.key, common) {
			return errBatch
		}
		if isFirst {
			common = bytes.Clone(s.key)
		}
		elements++
		return nil
	})
	if err == nil && elements == 0 {
		err = errEmptyBatch
	}
	return err
}

// scanValue reads one value, with the white space before it. onPath is set if the pointer leads to this value or
// below it, and rest is the path below it.
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
	if !bytes.HasPrefix(s.text[s.pos:], []byte(word)) {
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
	text, hasEscape, err := s.scanString()
	if err != nil || !isKey {
		return err
	}
	if hasEscape {
		s.key = appendDecoded(s.key, text)
	} else {
		s.key = append(s.key, text...)
	}
	if bytes.IndexByte(s.key, 0) >= 0 {
		return errNUL
	}
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

// scanObject reads an object. onPath is set if the pointer leads to one of its members.
func (s *scanner) scanObject(rest path, onPath bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	firstName := len(s.hashes)
	var wanted string
	var below path
	if onPath {
		wanted, below = rest.next()
	}
	for isFirst := true; ; isFirst = false {
		if s.skipSpace(); s.peek() == '}' && isFirst {
			break
		}
		name, err := s.scanName()
		if err != nil {
			return err
		}
		isWanted := onPath && string(name) == wanted
		if onPath && !isWanted && bytes.EqualFold(name, []byte(wanted)) {
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
	if hasDuplicate(s.hashes[firstName:]) {
		return errDuplicate
	}
	s.hashes = s.hashes[:firstName]
	return s.expect('}')
}

// hasDuplicate reports whether two hashes are equal, and sorts them. Two equal names always have the same hash.
// Among a million different names, two have the same hash with a probability of 3e-8. The document is then rejected.
func hasDuplicate(hashes []uint64) bool {
	slices.Sort(hashes)
	for i := 1; i < len(hashes); i++ {
		if hashes[i] == hashes[i-1] {
			return true
		}
	}
	return false
}

// scanName reads the name of a member and its colon, and records the name. The name is valid until the next
// call.
func (s *scanner) scanName() ([]byte, error) {
	name, hasEscape, err := s.scanString()
	if err != nil {
		return nil, err
	}
	if hasEscape {
		s.decoded = appendDecoded(s.decoded[:0], name)
		name = s.decoded
	}
	if bytes.IndexByte(name, 0) >= 0 {
		return nil, errNUL
	}
	if len(s.hashes) == cap(s.hashes) { // append would grow a large slice by a quarter, and so copy it more often
		s.hashes = slices.Grow(s.hashes, max(len(s.hashes), minHashes))
	}
	s.hashes = append(s.hashes, maphash.Bytes(hashSeed, name))
	return name, s.expect(':')
}

// minHashes is the number of member names for which the scanner first allocates memory.
const minHashes = 16

// scanArray reads an array. onPath is set if the pointer leads to one of its elements.
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

// scanString reads a string, and returns the text between its quotes. hasEscape reports whether the text has valid
// escape sequences, which appendDecoded decodes.
func (s *scanner) scanString() (text []byte, hasEscape bool, err error) {
	if s.peek() != '"' {
		return nil, false, errSyntax
	}
	s.pos++
	start := s.pos
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		s.pos++
		switch {
		case c == '"':
			return s.text[start : s.pos-1], hasEscape, nil
		case c == '\\':
			hasEscape = true
			_, size, err := readEscape(s.text[s.pos:])
			if err != nil {
				return nil, false, err
			}
			s.pos += size
		case c < ' ':
			return nil, false, errSyntax
		}
	}
	return nil, false, errSyntax
}

// appendDecoded appends the text between the quotes of a string that scanString has read.
func appendDecoded(dst, text []byte) []byte {
	dst = slices.Grow(dst, len(text))
	for len(text) > 0 {
		c := text[0]
		text = text[1:]
		if c != '\\' {
			dst = append(dst, c)
			continue
		}
		r, size, _ := readEscape(text)
		dst, text = utf8.AppendRune(dst, r), text[size:]
	}
	return dst
}

// readEscape reads the escape sequence after a backslash. size is its number of bytes.
func readEscape(text []byte) (r rune, size int, err error) {
	if len(text) == 0 {
		return 0, 0, errSyntax
	}
	switch c := text[0]; c {
	case '"', '\\', '/':
		return rune(c), 1, nil
	case 'b':
		return '\b', 1, nil
	case 'f':
		return '\f', 1, nil
	case 'n':
		return '\n', 1, nil
	case 'r':
		return '\r', 1, nil
	case 't':
		return '\t', 1, nil
	case 'u':
	default:
		return 0, 0, errSyntax
	}
	const unitLen = len("u0000")
	high, err := readHex(text[1:])
	if err != nil || !utf16.IsSurrogate(high) {
		return high, unitLen, err
	}
	rest := text[unitLen:]
	if !bytes.HasPrefix(rest, []byte(`\u`)) {
		return 0, 0, errSurrogate
	}
	low, err := readHex(rest[len(`\u`):])
	if err != nil {
		return 0, 0, err
	}
	if r = utf16.DecodeRune(high, low); r == utf8.RuneError {
		return 0, 0, errSurrogate
	}
	return r, unitLen + len(`\`) + unitLen, nil
}

// readHex reads four hexadecimal digits.
func readHex(text []byte) (rune, error) {
	const digits = 4
	if len(text) < digits {
		return 0, errSyntax
	}
	value, err := strconv.ParseUint(string(text[:digits]), 16, 16)
	if err != nil {
		return 0, errSyntax
	}
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
	number := string(s.text[start:s.pos])
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
