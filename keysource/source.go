package keysource

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"shardway/internal/fieldname"
	"shardway/internal/suggest"
	"shardway/internal/valueerr"
	"shardway/keysource/jsonkey"
)

// Default is the source if none is configured.
const Default = "header:X-Shard-Key"

// maxSegment is the maximum number of a path segment or of a label of the host.
const maxSegment = 64

// Kind is the part of a request that contains the key. A new kind also needs:
//   - an entry in kinds, and a case in Parse and example, in this package
//   - a case in adviseMissing (config/advice.go) and checkKeySource (config/validate.go)
//   - a case in Extractor.keyFromSource (proxy/shardkey/extract.go)
//   - for a key in the body: a case in Source.ReadsBody and in Extractor.bodyKey (proxy/shardkey/body.go)
type Kind uint8

// The kinds of sources, as described in the package comment.
const (
	Header Kind = iota + 1
	Path
	Query
	Cookie
	JWT
	Host
	IP
	Mint
	Wrap
	None
	JSON
	Form
	WSJSON
	WSFirst
	WSProtocol
)

// Joined is the kind of a source that joins the keys of several sources. It has no name in the
// configuration.
const Joined Kind = math.MaxUint8

// kinds returns the names of the kinds in the order of the constants.
func kinds() []string {
	return []string{"header", "path", "query", "cookie", "jwt", "host", "ip", "mint", "wrap", "none", "json", "form", "ws-json", "ws-first", "ws-protocol"}
}

// String returns the name of the kind in the configuration.
func (k Kind) String() string {
	if words := kinds(); k > 0 && int(k) <= len(words) {
		return words[k-1]
	}
	if k == Joined {
		return "joined"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Source is a part of a request that may contain the key.
type Source struct {
	Kind    Kind
	Name    string   // of the header, parameter, cookie, claim, form field or subprotocol; a JSON pointer; of Mint, the only method or empty for all; empty for other kinds
	Segment int      // number of the path segment or of the label of the host, from 1; 0 for other kinds and for the whole host
	Wrapped Kind     // for Wrap: the kind of the wrapped field, Header or Cookie; 0 for other kinds
	Pattern *Pattern // for Path: a pattern instead of a segment, or nil
	Token   Place    // for JWT: the place of the token
	Parts   []Source // for Joined: the joined sources, in order; nil for other kinds
}

// canonical returns the source with header names in lower case.
func (s Source) canonical() Source {
	if s.Kind == Header || s.Wrapped == Header {
		s.Name = strings.ToLower(s.Name)
	}
	s.Parts = slices.Clone(s.Parts)
	for i, part := range s.Parts {
		s.Parts[i] = part.canonical()
	}
	return s
}

// String returns the source as Parse accepts it.
func (s Source) String() string {
	switch {
	case s.Kind == Joined:
		texts := make([]string, len(s.Parts))
		for i, part := range s.Parts {
			texts[i] = part.String()
		}
		return strings.Join(texts, "+")
	case s.Pattern != nil:
		return "path:" + s.Pattern.String()
	case s.Token.Kind != InAuthorization:
		return "jwt:" + s.Name + "@" + s.Token.String()
	case s.Segment > 0:
		return s.Kind.String() + ":" + strconv.Itoa(s.Segment)
	case s.Kind == Wrap:
		return "wrap:" + s.Wrapped.String() + ":" + s.Name
	case s.Name != "":
		return s.Kind.String() + ":" + s.Name
	}
	return s.Kind.String()
}

// ReadsBody reports whether the source, or a part of it, is in the request body.
func (s Source) ReadsBody() bool {
	return s.Kind == JSON || s.Kind == Form || s.Kind == Joined && slices.ContainsFunc(s.Parts, Source.ReadsBody)
}

// Parse parses one source. The error is a *valueerr.Error without Key, which the caller sets.
func Parse(text string) (Source, error) {
	word, name, hasName := strings.Cut(text, ":")
	invalid := func(invalid, remedy string) (Source, error) {
		return Source{}, &valueerr.Error{Value: text, Wrong: invalid, Remedy: remedy}
	}
	if !utf8.ValidString(text) {
		return invalid("the source is not valid UTF-8", "write names in UTF-8")
	}
	if parts := splitJoined(text); len(parts) > 1 {
		return parseJoined(text, parts)
	}
	source := Source{Name: name}
	for i, w := range kinds() {
		if w == word {
			source.Kind = Kind(i + 1)
		}
	}
	switch source.Kind {
	case Host:
		if hasName {
			return parseSegment(source, text, "the source \"host\" needs the number of a label, 1 to 64", "write host:1 for the first label of the host name, or host for all labels")
		}
	case IP, None, WSFirst:
		if hasName {
			return invalid("the source "+strconv.Quote(word)+" takes no name", "write "+word)
		}
	case Mint:
		if hasName && !isMethod(name) {
			return invalid("the source \"mint\" accepts only a request method in upper case", "write mint:POST, or mint for all methods")
		}
	case Path:
		if strings.HasPrefix(name, "/") {
			pattern, err := ParsePattern(name)
			if err != nil {
				return invalid("the source \"path\" needs a valid pattern", err.Error())
			}
			return Source{Kind: Path, Pattern: pattern}, nil
		}
		return parseSegment(source, text, "the source \"path\" needs the number of a segment, 1 to 64, or a pattern", "write path:1 for the first segment of the path, or path:/rooms/{key}/* for a pattern")
	case Header, Cookie, WSProtocol:
		if !fieldname.IsToken(name) {
			return invalid("the source "+strconv.Quote(word)+" needs the name of a "+nameOf(source.Kind), "write "+example(source.Kind))
		}
	case JSON, WSJSON:
		if err := jsonkey.CheckPointer(name); err != nil || strings.ContainsAny(name, blanks) {
			return invalid("the source "+strconv.Quote(word)+" needs a JSON pointer (RFC 6901) without blanks", "write "+example(source.Kind)+" for the member \"id\" of the member \"user\"")
		}
	case JWT:
		return parseJWT(text, name)
	case Query, Form:
		if name == "" || strings.ContainsAny(name, blanks) {
			return invalid("the source "+strconv.Quote(word)+" needs a name without blanks", "write "+example(source.Kind))
		}
	case Wrap:
		return parseWrap(text, name)
	case Joined: // has no name, see splitJoined
		fallthrough
	default:
		remedy := "known sources: header:NAME, path:N, path:/PATTERN, query:NAME, cookie:NAME, wrap:cookie:NAME, wrap:header:NAME, jwt:CLAIM, json:/POINTER, form:FIELD, ws-json:/POINTER, ws-first, host, host:N, ip, several of these joined by +, and mint, mint:METHOD or none as the last one"
		if near := suggest.Word(word, kinds()); near != "" {
			remedy = "did you mean " + strconv.Quote(near) + "? " + remedy
		}
		return invalid(strconv.Quote(word)+" is not a key source", remedy)
	}
	return source, nil
}

// parseSegment returns the source with the number that its name contains. wrong and remedy describe an
// invalid number.
func parseSegment(source Source, text, wrong, remedy string) (Source, error) {
	number, err := strconv.Atoi(source.Name)
	if err != nil || number < 1 || number > maxSegment {
		return Source{}, &valueerr.Error{Value: text, Wrong: wrong, Remedy: remedy}
	}
	source.Name, source.Segment = "", number
	return source, nil
}

// blanks are the characters that the name of a source must not contain.
const blanks = " \t\r\n"

// example returns an example of a source with a name, for error messages.
func example(kind Kind) string {
	switch kind {
	case Header:
		return Default
	case Cookie:
		return "cookie:sid"
	case Query:
		return "query:user"
	case Form:
		return "form:user"
	case JSON:
		return "json:/user/id"
	case Wrap:
		return "wrap:cookie:sid"
	case WSJSON:
		return "ws-json:/user/id"
	case WSProtocol:
		return "ws-protocol:graphql-transport-ws"
	case JWT, Path, Host, IP, Mint, None, Joined, WSFirst:
	}
	return "jwt:sub"
}

// isMethod reports whether text is a request method without lower-case letters. Methods are
// case-sensitive, and all registered methods are in upper case (RFC 9110, section 9.1).
func isMethod(text string) bool { return fieldname.IsToken(text) && strings.ToUpper(text) == text }

// nameOf returns what the name of a source denotes, for error messages.
func nameOf(kind Kind) string {
	if kind == WSProtocol {
		return "subprotocol"
	}
	return kind.String()
}

// ReadsFirstMessage reports whether the source is a part of the first message of a WebSocket.
func (s Source) ReadsFirstMessage() bool { return s.Kind == WSJSON || s.Kind == WSFirst }
