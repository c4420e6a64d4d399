package admin

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// What a token may look like. Those of 22 characters of base64 cannot be
// guessed, however often one may try; shorter ones are somebody's word.
const (
	minToken     = 22
	maxToken     = 512
	maxTokens    = 1024
	bearerPrefix = "Bearer "
)

// Tokens is a set of tokens with the names of whom they belong to. It keeps none
// of them, only what they are recognized by.
type Tokens []token

type token struct {
	name string
	hash [sha256.Size]byte
}

// ParseTokens reads a file of tokens: one a line, or NAME TOKEN, so that the log
// can say who it was. Empty lines and those that begin with # are skipped. Its
// errors name lines and never repeat them.
func ParseTokens(b []byte) (Tokens, error) {
	var all Tokens
	n := 0
	for line := range bytes.Lines(b) {
		n++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		text := fields[len(fields)-1]
		switch {
		case len(fields) > 2:
			return nil, fmt.Errorf("line %d: write TOKEN, or NAME TOKEN", n)
		case len(text) < minToken:
			return nil, fmt.Errorf("line %d: the token has %d characters, at least %d are needed: `shardway keygen --token` makes one", n, len(text), minToken)
		case len(text) > maxToken || !isPrintableASCII(text) || !isPrintableASCII(fields[0]):
			return nil, fmt.Errorf("line %d: a token has at most %d characters, all printable ASCII", n, maxToken)
		case len(all) == maxTokens:
			return nil, fmt.Errorf("line %d: more than %d tokens", n, maxTokens)
		}
		t := token{name: fmt.Sprintf("of line %d", n), hash: sha256.Sum256([]byte(text))}
		if len(fields) == 2 {
			t.name = fields[0]
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, errors.New("it contains no token: `shardway keygen --token` makes one")
	}
	return all, nil
}

func isPrintableASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// find compares a text with every token, in a time that depends on neither.
func (t Tokens) lookup(text string) (name string, ok bool) {
	sum := sha256.Sum256([]byte(text))
	at := -1
	for i := range t {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], t[i].hash[:]), i, at)
	}
	if at < 0 {
		return "", false
	}
	return t[at].name, true
}

// takesKey reports whether key= is that of an app's requests here, and no token.
func allowsKeyParam(r *http.Request) bool {
	switch r.URL.Path {
	case "/v1/locate":
		return true
	case "/v1/pin", "/v1/unpin", "/v1/quarantine", "/v1/lift", "/v1/sockets":
		return len(r.Header.Values("Authorization")) > 0 // who shows no token may mean one
	}
	return false
}

// bearer returns the token that a request shows. There is one place for it, so
// that it stands in no log or history.
func bearerToken(r *http.Request) (text string, shown bool, err error) {
	const where = "a token has its place in the header, as in Authorization: Bearer TOKEN, and nowhere else"
	for name := range r.URL.Query() {
		switch strings.ToLower(name) {
		case "token", "access_token", "authorization", "auth", "key", "api_key":
			if name != "key" || !allowsKeyParam(r) {
				return "", false, errors.New(where)
			}
		}
	}
	switch values := r.Header.Values("Authorization"); {
	case len(values) == 0:
		return "", false, nil
	case len(values) > 1:
		return "", false, errors.New("more than one Authorization header")
	case len(values[0]) < len(bearerPrefix) || !strings.EqualFold(values[0][:len(bearerPrefix)], bearerPrefix):
		return "", false, errors.New(where)
	default:
		return strings.TrimSpace(values[0][len(bearerPrefix):]), true, nil
	}
}
