package keysource

import (
	"strconv"
	"strings"

	"shardway/internal/valueerr"
	"shardway/keysource/jsonkey"
)

// Subprotocol is the kind of a Place for a token in the header Sec-WebSocket-Protocol. It is not the kind
// of a source.
const Subprotocol Kind = Joined - 1

// tokenWord returns the name of the kind of a Place in the configuration.
func (k Kind) tokenWord() string {
	if k == Subprotocol {
		return "subprotocol"
	}
	return k.String()
}

// parseJWT parses a source of kind JWT. text is the whole source, and name is the part after "jwt:": a
// claim or a JSON pointer, and optionally the place of the token.
func parseJWT(text, name string) (Source, error) {
	invalid := func(wrong, remedy string) (Source, error) {
		return Source{}, &valueerr.Error{Value: text, Wrong: wrong, Remedy: remedy}
	}
	source := Source{Kind: JWT, Name: name}
	if at := strings.LastIndexByte(name, '@'); at >= 0 {
		var isValid bool
		source.Name = name[:at]
		if source.Token, isValid = parsePlace(name[at+1:]); !isValid {
			return invalid("the place of the token after @ is unknown", "write "+strconv.Quote("jwt:sub@cookie:NAME")+", @query:NAME or @subprotocol:PREFIX")
		}
	}
	if source.Name == "" || strings.ContainsAny(source.Name, blanks) {
		return invalid("the source \"jwt\" needs a claim without blanks", "write jwt:sub")
	}
	if source.HasPointer() && (jsonkey.CheckPointer(source.Name) != nil || len(source.Name) > maxPointer) {
		return invalid("the source \"jwt\" needs a valid JSON pointer after the slash", "write jwt:/tenant/id for a nested claim, ~1 for a slash and ~0 for ~ (RFC 6901), and at most 256 bytes")
	}
	return source, nil
}

// parsePlace parses the place of a token.
func parsePlace(text string) (place Place, isValid bool) {
	word, name, _ := strings.Cut(text, ":")
	place.Name = name
	switch word {
	case "cookie":
		place.Kind = Cookie
		return place, isToken(name)
	case "query":
		place.Kind = Query
		return place, name != "" && !strings.ContainsAny(name, blanks+"@")
	case "subprotocol":
		place.Kind = Subprotocol
		return place, isToken(name)
	}
	return Place{}, false
}

// HasPointer reports whether the claim of a token is a JSON pointer, such as /tenant/id, and not the name
// of a claim.
func (s Source) HasPointer() bool { return strings.HasPrefix(s.Name, "/") }
