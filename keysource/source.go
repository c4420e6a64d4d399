package keysource

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"shardway/internal/suggest"
	"shardway/internal/valueerr"
)

// Default is the source when none is configured.
const Default = "header:X-Shard-Key"

// maxSegment bounds the number of a path's segment.
const maxSegment = 64

// Kind says what part of a request a key is taken from.
type Kind uint8

// The parts of a request.
const (
	Header Kind = iota + 1
	Path
	Query
	Cookie
	JWT
	Host
	IP
	Mint
)

// kinds returns the words of the kinds, in their order.
func kinds() []string {
	return []string{"header", "path", "query", "cookie", "jwt", "host", "ip", "mint"}
}

// String is the kind's word.
func (k Kind) String() string {
	if words := kinds(); k > 0 && int(k) <= len(words) {
		return words[k-1]
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Source is one place a key may be found in.
type Source struct {
	Kind    Kind
	Name    string // of the header, parameter, cookie or claim; of others empty
	Segment int    // of a path, from 1; of others zero
}

// String is the source as somebody would write it; Parse reads it.
func (s Source) String() string {
	switch {
	case s.Kind == Path:
		return "path:" + strconv.Itoa(s.Segment)
	case s.Name != "":
		return s.Kind.String() + ":" + s.Name
	}
	return s.Kind.String()
}

// Parse reads one source. The error is a *valueerr.Error without its key.
func Parse(text string) (Source, error) {
	word, name, named := strings.Cut(text, ":")
	wrong := func(wrong, remedy string) (Source, error) {
		return Source{}, &valueerr.Error{Value: text, Wrong: wrong, Remedy: remedy}
	}
	if !utf8.ValidString(text) {
		return wrong("the source is not valid UTF-8", "write names in UTF-8")
	}
	s := Source{Name: name}
	for i, w := range kinds() {
		if w == word {
			s.Kind = Kind(i + 1)
		}
	}
	switch s.Kind {
	case Host, IP, Mint:
		if named {
			return wrong("the source "+strconv.Quote(word)+" takes no name", "write "+word)
		}
	case Path:
		n, err := strconv.Atoi(name)
		if err != nil || n < 1 || n > maxSegment {
			return wrong("the source \"path\" needs the number of a segment, 1 to 64", "write path:1 for the first segment of the path")
		}
		s.Name, s.Segment = "", n
	case Header, Cookie:
		if !token(name) {
			return wrong("the source "+strconv.Quote(word)+" needs the name of a "+word, "write "+example(s.Kind))
		}
	case Query, JWT:
		if name == "" || strings.ContainsAny(name, " \t\r\n") {
			return wrong("the source "+strconv.Quote(word)+" needs a name without blanks", "write "+example(s.Kind))
		}
	default:
		remedy := "known sources: header:NAME, path:N, query:NAME, cookie:NAME, jwt:CLAIM, host, ip, and mint on a route of its own"
		if near := suggest.Word(word, kinds()); near != "" {
			remedy = "did you mean " + strconv.Quote(near) + "? " + remedy
		}
		return wrong(strconv.Quote(word)+" is not a key source", remedy)
	}
	return s, nil
}

// example shows a source that has a name as somebody would write it.
func example(k Kind) string {
	switch k {
	case Header:
		return Default
	case Cookie:
		return "cookie:sid"
	case Query:
		return "query:user"
	case JWT, Path, Host, IP, Mint:
	}
	return "jwt:sub"
}

// token reports whether s is a token of RFC 9110, section 5.6.2: a header's or
// a cookie's name.
func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
