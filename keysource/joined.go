package keysource

import (
	"slices"
	"strconv"
	"strings"

	"shardway/internal/valueerr"
)

// maxParts is the maximum number of parts of a joined source.
const maxParts = 8

// splitJoined returns the parts of a joined source, such as host and path:1 for host+path:1. A plus sign
// separates two parts if the name of a source follows it. Any other plus sign belongs to a name, and a
// plus sign in braces belongs to a pattern.
func splitJoined(text string) []string {
	var parts []string
	depth, start := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '{':
			depth++
		case '}':
			depth--
		case '+':
			if depth == 0 && startsWithKind(text[i+1:]) {
				parts = append(parts, text[start:i])
				start = i + 1
			}
		}
	}
	return append(parts, text[start:])
}

// startsWithKind reports whether text starts with the name of a kind, alone or before a colon or a plus
// sign.
func startsWithKind(text string) bool {
	word := text
	if end := strings.IndexAny(text, ":+"); end >= 0 {
		word = text[:end]
	}
	return slices.Contains(kinds(), word)
}

// parseJoined parses the parts of a joined source.
func parseJoined(text string, parts []string) (Source, error) {
	invalid := func(wrong, remedy string) (Source, error) {
		return Source{}, &valueerr.Error{Value: text, Wrong: wrong, Remedy: remedy}
	}
	if len(parts) > maxParts {
		return invalid("it joins "+strconv.Itoa(len(parts))+" sources", "join at most "+strconv.Itoa(maxParts))
	}
	joined := Source{Kind: Joined}
	for _, text := range parts {
		part, err := Parse(text)
		if err != nil {
			return Source{}, err
		}
		if !part.canBeJoined() {
			return invalid("the source "+strconv.Quote(part.Kind.String())+" cannot be joined with others", "join header, path, query, cookie, jwt, host, ip, json and form, such as host+path:1")
		}
		joined.Parts = append(joined.Parts, part)
	}
	return joined, nil
}

// canBeJoined reports whether the source may be a part of a joined source.
func (s Source) canBeJoined() bool {
	switch s.Kind { //nolint:exhaustive // all other kinds generate keys, change the request, or need a WebSocket message
	case Header, Path, Query, Cookie, JWT, Host, IP, JSON, Form:
		return true
	}
	return false
}

// Single returns the parts of a joined source, or the source itself.
func (s Source) Single() []Source {
	if s.Kind == Joined {
		return s.Parts
	}
	return []Source{s}
}

// AppendPart appends a part to a joined key. The parts of a joined key are separated by plus signs. In
// each part, % is written as %25, and + as %2B, so different parts always give different keys.
func AppendPart(key, part []byte) []byte {
	for _, char := range part {
		switch char {
		case '%':
			key = append(key, "%25"...)
		case '+':
			key = append(key, "%2B"...)
		default:
			key = append(key, char)
		}
	}
	return key
}
