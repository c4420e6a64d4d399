package keysource

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxPattern is the maximum length of a pattern in bytes.
const maxPattern = 1024

// Pattern finds a key in a path, such as the project in /projects/{key}/*. It matches the whole path, with
// or without a slash at the end. After /* at the end of a pattern, a path may have more segments.
//
// A Pattern is immutable and safe for concurrent use.
type Pattern struct {
	segments []patternSegment
	// matchesBelow is set if the pattern ends in /*.
	matchesBelow bool
}

// segmentMode defines which text a segment of a pattern matches.
type segmentMode uint8

const (
	literal        segmentMode = iota
	oneSegment                 // {name}
	manySegments               // {key*}: one or more segments of the path
	escapedSlashes             // {name%}: one segment, in which a slash may be encoded
)

// patternSegment is one segment of a pattern: a literal, or a placeholder between two literals.
type patternSegment struct {
	mode       segmentMode
	prefix     string // decoded; the whole text of a literal
	suffix     string // decoded; empty for a literal
	name       string // of the placeholder; "key" means that its text is the key
	expression string // regular expression of the placeholder, as it is configured; empty means any text
	compiled   *regexp.Regexp
}

// outcome is the result of matching a path.
type outcome uint8

const (
	noMatch   outcome = iota
	matched           // every app reads the path in the same way
	ambiguous         // apps may disagree
)

// ParsePattern parses a pattern. The error is a remedy for the operator.
func ParsePattern(text string) (*Pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("use at most %d bytes", maxPattern)
	}
	texts, err := splitPattern(text)
	if err != nil {
		return nil, err
	}
	pattern := &Pattern{}
	if last := texts[len(texts)-1]; last == "*" || last == "…" {
		pattern.matchesBelow = true
		texts = texts[:len(texts)-1]
	}
	if len(texts) > maxSegment {
		return nil, fmt.Errorf("use at most %d segments", maxSegment)
	}
	keys := 0
	for _, text := range texts {
		segment, err := parsePatternSegment(text)
		if err != nil {
			return nil, err
		}
		if segment.isKey() {
			keys++
		}
		pattern.segments = append(pattern.segments, segment)
	}
	if keys != 1 {
		return nil, errors.New("write {key} exactly once")
	}
	if pattern.hasUnclearEnd() {
		return nil, errors.New("write a literal between {key*} and /*, because otherwise the end of the key is unclear")
	}
	return pattern, nil
}

// splitPattern returns the segments of a pattern. A slash in braces belongs to a regular expression.
func splitPattern(text string) ([]string, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, errors.New("begin it with a slash")
	}
	var segments []string
	depth, start := 0, 1
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '{':
			depth++
		case '}':
			depth--
		case '/':
			if depth == 0 {
				segments = append(segments, text[start:i])
				start = i + 1
			}
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return nil, errors.New("close each brace; write a pattern with a comma in the configuration file, because flags split lists at commas")
	}
	return append(segments, text[start:]), nil
}

// parsePatternSegment parses one segment of a pattern.
func parsePatternSegment(text string) (patternSegment, error) {
	start, end := strings.IndexByte(text, '{'), strings.LastIndexByte(text, '}')
	if start < 0 {
		prefix, err := parseLiteral(text)
		if err == nil && prefix == "" {
			err = errors.New("leave out empty segments: a slash at the end of a path never counts")
		}
		return patternSegment{prefix: prefix}, err
	}
	segment, err := parsePlaceholder(text[start+1 : end])
	if err != nil {
		return patternSegment{}, err
	}
	if segment.prefix, err = parseLiteral(text[:start]); err != nil {
		return patternSegment{}, err
	}
	segment.suffix, err = parseLiteral(text[end+1:])
	return segment, err
}

// parsePlaceholder parses the text between the braces of a placeholder.
func parsePlaceholder(text string) (patternSegment, error) {
	name, expression, hasExpression := strings.Cut(text, ":")
	segment := patternSegment{mode: oneSegment, expression: expression}
	if before, found := strings.CutSuffix(name, "*"); found {
		name, segment.mode = before, manySegments
	} else if before, found := strings.CutSuffix(name, "%"); found {
		name, segment.mode = before, escapedSlashes
	}
	segment.name = name
	isLowerCase := func(r rune) bool { return r >= 'a' && r <= 'z' || r == '_' }
	switch {
	case name == "" || strings.TrimFunc(name, isLowerCase) != "":
		return segment, errors.New("write one placeholder in a segment, such as {key}, {key:[0-9]+}, {key*} or {key%}, and name other placeholders in lower case")
	case segment.mode == manySegments && (!segment.isKey() || hasExpression):
		return segment, errors.New("write {key*} for several segments, without a regular expression")
	case !hasExpression:
		return segment, nil
	case expression == "":
		return segment, errors.New("write a regular expression after the colon, or remove the colon")
	}
	compiled, err := regexp.Compile("^(?s:" + expression + ")$")
	if err != nil {
		return segment, fmt.Errorf("correct the regular expression: %w", err)
	}
	if _, err := regexp.Compile(expression); err != nil { // such as a)(b
		return segment, fmt.Errorf("correct the regular expression: %w", err)
	}
	segment.compiled = compiled
	return segment, nil
}

// parseLiteral parses the literal text of a segment, in the same way as ParsePath parses a path.
func parseLiteral(text string) (string, error) {
	if strings.ContainsAny(text, " \t\r\n#?*{}") {
		return "", errors.New("write blanks, #, ?, *, { and } of a path percent-encoded, such as %20; write * or … only as the last segment")
	}
	path := ParsePath(nil, []byte("/"+text))
	if path.hasDotSegment || path.agreed <= len(text) {
		return "", errors.New("write it without ., .., \\ and ;: paths with them are refused")
	}
	return string(path.decoded[1:]), nil
}

// isKey reports whether the text of the placeholder is the key.
func (s *patternSegment) isKey() bool { return s.mode != literal && s.name == "key" }

// hasUnclearEnd reports whether each segment below {key*} could be a part of the key or of the rest.
func (p *Pattern) hasUnclearEnd() bool {
	if !p.matchesBelow {
		return false
	}
	hasLiteral := true
	for _, segment := range p.segments {
		if segment.mode == manySegments {
			hasLiteral = segment.suffix != ""
		}
		hasLiteral = hasLiteral || segment.mode == literal
	}
	return !hasLiteral
}

// String returns the pattern in canonical form.
func (p *Pattern) String() string {
	var b strings.Builder
	for i := range p.segments {
		segment := &p.segments[i]
		b.WriteString("/" + escapeLiteral(segment.prefix))
		if segment.mode == literal {
			continue
		}
		b.WriteString("{" + segment.name + [...]string{oneSegment: "", manySegments: "*", escapedSlashes: "%"}[segment.mode])
		if segment.expression != "" {
			b.WriteString(":" + segment.expression)
		}
		b.WriteString("}" + escapeLiteral(segment.suffix))
	}
	if p.matchesBelow {
		b.WriteString("/*")
	}
	return b.String()
}

// escapeLiteral escapes a decoded literal. It is the inverse of parseLiteral.
func escapeLiteral(text string) string {
	return strings.NewReplacer("?", "%3F", "*", "%2A", "{", "%7B", "}", "%7D", "+", "%2B", ",", "%2C").Replace(escapePrefix(text))
}

// MayMatchBelow reports whether the pattern may match a path that is equal to a path prefix of the
// configuration, or below it. An invalid prefix matches.
func (p *Pattern) MayMatchBelow(prefix string) bool {
	decoded, err := parsePrefix(prefix)
	if err != nil {
		return true
	}
	for i, text := range strings.Split(strings.Trim(decoded, "/"), "/") {
		switch {
		case i >= len(p.segments):
			return p.matchesBelow
		case p.segments[i].mode == manySegments || text == "":
			return true
		}
		if _, result := p.segments[i].match([]byte(text)); result != matched {
			return false
		}
	}
	return true
}

// Key returns the key in a path, or nil if the pattern does not match. It uses dst, which should have the
// capacity of the path, as the buffer. unambiguous is false if an app may find a different key:
//
//   - The path contains a dot segment.
//   - The path contains an empty segment, an encoded slash, a backslash or a semicolon where it matters.
//   - A literal matches only if the case of letters is ignored, as some apps do.
//   - The pattern matches in several ways.
func (p *Pattern) Key(dst, path []byte) (key []byte, unambiguous bool) {
	if parsed := ParsePath(dst, path); parsed.hasDotSegment {
		return nil, false
	}
	key, result := p.match(p.segments, segmentReader{rest: path, decoded: dst[:0]}, nil)
	if result != matched {
		return nil, result == noMatch
	}
	return key, true
}

// match matches the segments of the pattern with the rest of a path. key is the key in earlier segments.
func (p *Pattern) match(segments []patternSegment, reader segmentReader, key []byte) ([]byte, outcome) {
	for i := range segments {
		segment := &segments[i]
		if segment.mode == manySegments {
			return p.matchMany(segment, segments[i+1:], reader)
		}
		if !reader.next(segment.mode == escapedSlashes) {
			return nil, noMatch
		}
		if reader.isUnusual {
			return nil, ambiguous
		}
		text, result := segment.match(reader.text())
		if result != matched {
			return nil, result
		}
		if segment.isKey() {
			key = text
		}
	}
	if p.matchesBelow || !reader.next(false) {
		return key, matched
	}
	switch {
	case reader.isUnusual:
		return nil, ambiguous
	case len(reader.text()) > 0:
		return nil, noMatch
	}
	return key, matched // a slash at the end
}

// matchMany matches a placeholder for up to 64 segments and the segments of the pattern after it. It
// finds all ways to match, because apps may choose any of them.
func (p *Pattern) matchMany(many *patternSegment, after []patternSegment, reader segmentReader) (key []byte, result outcome) {
	start := len(reader.decoded) + 1
	for count := 1; reader.next(false); count++ {
		switch {
		case reader.isUnusual || count > maxSegment:
			return nil, ambiguous
		case len(reader.text()) == 0: // a slash at the end
			return key, result
		}
		text, textResult := many.match(reader.decoded[start:])
		if textResult == matched {
			_, textResult = p.match(after, reader, nil)
		}
		switch {
		case textResult == ambiguous || textResult == matched && result == matched:
			return nil, ambiguous
		case textResult == matched:
			key, result = text, matched
		}
	}
	return key, result
}

// match matches a segment with decoded text of a path, and returns the text of the placeholder.
func (s *patternSegment) match(text []byte) ([]byte, outcome) {
	fits := len(text) >= len(s.prefix)+len(s.suffix) && (s.mode != literal || len(text) == len(s.prefix))
	if !fits {
		return nil, noMatch
	}
	end := len(text) - len(s.suffix)
	before, middle, after := text[:len(s.prefix)], text[len(s.prefix):end], text[end:]
	if string(before) != s.prefix || string(after) != s.suffix {
		if strings.EqualFold(string(before), s.prefix) && strings.EqualFold(string(after), s.suffix) {
			return nil, ambiguous
		}
		return nil, noMatch
	}
	switch {
	case s.mode == literal:
		return nil, matched
	case len(middle) == 0 || s.compiled != nil && !s.compiled.Match(middle):
		return nil, noMatch
	case s.mode != oneSegment && hasEmptySegment(middle):
		return nil, ambiguous
	}
	return middle, matched
}

// hasEmptySegment reports whether a decoded text with slashes begins or ends with a slash, or
// contains two of them in a row.
func hasEmptySegment(text []byte) bool {
	return text[0] == '/' || text[len(text)-1] == '/' || bytes.Contains(text, []byte("//"))
}

// segmentReader reads and decodes the segments of a path. A copy reads the same segments again.
type segmentReader struct {
	rest      []byte // not read yet; empty, or begins with a slash
	decoded   []byte // the segments that were read, decoded, each after a slash
	start     int    // start of the last segment in decoded
	isUnusual bool   // apps may split or change the last segment
}

// text returns the last segment, decoded.
func (r *segmentReader) text() []byte { return r.decoded[r.start:] }

// next reads the next segment. It returns false at the end of the path. mayHaveSlash is set if an encoded slash is
// a part of the segment.
func (r *segmentReader) next(mayHaveSlash bool) bool {
	if len(r.rest) == 0 || r.rest[0] != '/' {
		return false
	}
	raw := r.rest[1:]
	isLast := true
	if end := bytes.IndexByte(raw, '/'); end >= 0 {
		isLast = false
		raw = raw[:end]
	}
	r.rest = r.rest[1+len(raw):]
	r.decoded = append(r.decoded, '/')
	r.start = len(r.decoded)
	r.decoded = unescape(r.decoded, raw)
	text := r.text()
	r.isUnusual = len(text) == 0 && !isLast || bytes.IndexByte(text, '\\') >= 0 || bytes.IndexByte(text, ';') >= 0 || !mayHaveSlash && bytes.IndexByte(text, '/') >= 0
	return true
}
