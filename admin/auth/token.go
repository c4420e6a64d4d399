package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Limits on tokens. A random token of 22 base64 characters (132 bits) cannot be guessed. A shorter
// token is probably a chosen password.
const (
	minToken     = 22
	maxToken     = 512
	maxTokens    = 1024
	bearerPrefix = "Bearer "
)

// Tokens is a set of named tokens. It stores only their hashes.
type Tokens []token

// token is the SHA-256 hash of a token with the name of its user.
type token struct {
	name string
	hash [sha256.Size]byte
}

// ParseTokens parses a token file. Each line has the form TOKEN, or NAME TOKEN with a name for the
// log. Empty lines and lines that start with # are ignored. Errors contain line numbers but no
// text of the file.
func ParseTokens(b []byte) (Tokens, error) {
	var all Tokens
	lineNumber := 0
	for line := range bytes.Lines(b) {
		lineNumber++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		text := fields[len(fields)-1] // the token
		switch {
		case len(fields) > 2:
			return nil, fmt.Errorf("line %d: write TOKEN, or NAME TOKEN", lineNumber)
		case len(text) < minToken:
			return nil, fmt.Errorf("line %d: the token has %d characters, at least %d are needed: `shardway keygen --token` makes one", lineNumber, len(text), minToken)
		case len(text) > maxToken || !isPrintableASCII(text) || !isPrintableASCII(fields[0]):
			return nil, fmt.Errorf("line %d: a token has at most %d characters, all printable ASCII", lineNumber, maxToken)
		case len(all) == maxTokens:
			return nil, fmt.Errorf("line %d: more than %d tokens", lineNumber, maxTokens)
		}
		parsed := token{name: fmt.Sprintf("of line %d", lineNumber), hash: sha256.Sum256([]byte(text))}
		if len(fields) == 2 {
			parsed.name = fields[0]
		}
		all = append(all, parsed)
	}
	if len(all) == 0 {
		return nil, errors.New("it contains no token: `shardway keygen --token` makes one")
	}
	return all, nil
}

// isPrintableASCII reports whether s consists of printable ASCII characters other than space.
func isPrintableASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// lookup returns the name of the user of a token. It runs in constant time regardless of the match.
func (t Tokens) lookup(sent string) (name string, ok bool) {
	sum := sha256.Sum256([]byte(sent))
	found := -1
	for i := range t {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], t[i].hash[:]), i, found)
	}
	if found < 0 {
		return "", false
	}
	return t[found].name, true
}

// allowsKeyParam reports whether the query parameter "key" of r is the key of an app request.
// Otherwise it is treated as a misplaced token.
func allowsKeyParam(r *http.Request) bool {
	switch r.URL.Path {
	case "/v1/locate":
		return true
	case "/v1/pin", "/v1/unpin", "/v1/quarantine", "/v1/lift", "/v1/websockets":
		return len(r.Header.Values("Authorization")) > 0 // without this header, key= could be meant as a token
	}
	return false
}

// bearerToken returns the token of the Authorization header. It returns an error for a token in
// the query, which logs and browser histories would record.
func bearerToken(r *http.Request) (sent string, present bool, err error) {
	const tokenPlacementHint = "send the token only in the header: Authorization: Bearer TOKEN"
	for name := range r.URL.Query() {
		switch strings.ToLower(name) {
		case "token", "access_token", "authorization", "auth", "key", "api_key":
			if name != "key" || !allowsKeyParam(r) {
				return "", false, errors.New(tokenPlacementHint)
			}
		}
	}
	switch values := r.Header.Values("Authorization"); {
	case len(values) == 0:
		return "", false, nil
	case len(values) > 1:
		return "", false, errors.New("more than one Authorization header")
	case len(values[0]) < len(bearerPrefix) || !strings.EqualFold(values[0][:len(bearerPrefix)], bearerPrefix):
		return "", false, errors.New(tokenPlacementHint)
	default:
		return strings.TrimSpace(values[0][len(bearerPrefix):]), true, nil
	}
}
