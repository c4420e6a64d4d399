package keysource

import (
	"slices"
	"strconv"
	"strings"

	"shardway/internal/fieldname"
	"shardway/internal/valueerr"
	"shardway/keysource/jsonkey"
)

// Place is where the token is in a request. The zero value means the Authorization header.
type Place struct {
	Kind PlaceKind
	Name string // of the cookie or parameter, or the prefix of the subprotocol
}

// PlaceKind is the part of a request that contains a token.
type PlaceKind uint8

// Parts of a request that can contain a token.
const (
	InAuthorization PlaceKind = iota // the bearer token of the Authorization header
	InCookie
	InQuery
	InSubprotocol // a subprotocol in the header Sec-WebSocket-Protocol
)

// placeKinds returns the words after @ in the configuration, in the order of the constants. The
// Authorization header is the default and has no word.
func placeKinds() []string { return []string{"", "cookie", "query", "subprotocol"} }

// String returns the place as parsePlace accepts it.
func (p Place) String() string { return placeKinds()[p.Kind] + ":" + p.Name }

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

// parsePlace parses the text after @, such as cookie:NAME.
func parsePlace(text string) (place Place, isValid bool) {
	word, name, hasName := strings.Cut(text, ":")
	kind := slices.Index(placeKinds(), word)
	if !hasName || word == "" || kind < 0 {
		return Place{}, false
	}
	place = Place{Kind: PlaceKind(kind), Name: name}
	if place.Kind == InQuery {
		return place, name != "" && !strings.ContainsAny(name, blanks+"@")
	}
	return place, fieldname.IsToken(name)
}

// HasPointer reports whether the claim of a token is a JSON pointer, such as /tenant/id, and not the name
// of a claim.
func (s Source) HasPointer() bool { return strings.HasPrefix(s.Name, "/") }
