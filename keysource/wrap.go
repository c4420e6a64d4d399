package keysource

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"shardway/internal/fieldname"
	"shardway/internal/valueerr"
)

// parseWrap parses a source of kind Wrap. text is the whole source, and field is the part after
// "wrap:".
func parseWrap(text, field string) (Source, error) {
	invalid := func(wrong, remedy string) (Source, error) {
		return Source{}, &valueerr.Error{Value: text, Wrong: wrong, Remedy: remedy}
	}
	word, name, _ := strings.Cut(field, ":")
	source := Source{Kind: Wrap, Name: name, Wrapped: Cookie}
	switch word {
	case "cookie":
	case "header":
		source.Wrapped = Header
	default:
		return invalid("the source \"wrap\" needs a cookie or a header", "write wrap:cookie:sid or wrap:header:Mcp-Session-Id")
	}
	if !fieldname.IsToken(name) {
		return invalid("the source \"wrap\" needs the name of a "+word, "write wrap:"+word+":NAME, such as wrap:cookie:sid or wrap:header:Mcp-Session-Id")
	}
	if source.Wrapped == Header && !canWrapHeader(name) {
		return invalid("HTTP or Shardway itself uses the header "+strconv.Quote(name)+", so a suffix would change its meaning", "name the header in which the app returns the session id, or use wrap:cookie:NAME")
	}
	if source.Wrapped == Cookie && strings.EqualFold(name, "Shardway-Key") {
		return invalid("Shardway itself sets the cookie \"Shardway-Key\"", "name the session cookie of the app")
	}
	return source, nil
}

// canWrapHeader reports whether the values of a header may get a suffix. It excludes headers with a
// meaning for HTTP, proxies or caches.
func canWrapHeader(name string) bool {
	normal := fieldname.Normalize(name)
	for _, prefix := range []string{"shardway-", "x-forwarded-", "content-", "access-control-", "sec-", "proxy-", "if-", "accept-"} {
		if strings.HasPrefix(normal, prefix) {
			return false
		}
	}
	return !slices.Contains([]string{
		"accept", "age", "allow", "alt-svc", "authorization", "cache-control", "connection", "cookie", "date", "etag", "expect", "expires",
		"forwarded", "host", "keep-alive", "last-event-id", "last-modified", "link", "location", "origin", "pragma", "range", "referer",
		"retry-after", "server", "set-cookie", "strict-transport-security", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
		"vary", "via", "www-authenticate", "x-real-ip", "x-request-id",
	}, normal)
}

// checkWrapped returns an error for each field that one source wraps and another source reads as it is.
// The second source would read the suffix as a part of the key, while the app receives the value without
// it.
func (t *Table) checkWrapped() error {
	var problems []error
	for _, wrapped := range t.wrapped {
		for _, list := range t.lists() {
			for _, other := range list.Sources {
				if slices.ContainsFunc(other.Single(), func(single Source) bool { return single.readsField(wrapped) }) {
					problems = append(problems, &valueerr.Error{
						Key: "routes", Value: other.String(), Wrong: other.String() + " would read the suffix that " + wrapped.String() + " adds", Remedy: "use " + wrapped.String() + " in both places",
					})
				}
			}
		}
	}
	return errors.Join(problems...)
}

// readsField reports whether the source reads the field that wrapped wraps, without removing the
// suffix.
func (s Source) readsField(wrapped Source) bool {
	if s.Token.Kind == InCookie {
		s = Source{Kind: Cookie, Name: s.Token.Name}
	}
	if s.Kind != wrapped.Wrapped {
		return false
	}
	if s.Kind == Header {
		return fieldname.Normalize(s.Name) == fieldname.Normalize(wrapped.Name)
	}
	return s.Name == wrapped.Name
}

// addWrapped adds the wrapped fields of the list to t.wrapped, each once.
func (t *Table) addWrapped(list SourceList) {
	for _, source := range list.Sources {
		isKnown := slices.ContainsFunc(t.wrapped, func(known Source) bool {
			known.Kind = known.Wrapped
			return known.readsField(source)
		})
		if source.Kind == Wrap && !isKnown {
			t.wrapped = append(t.wrapped, source)
		}
	}
}

// Wrapped returns the sources of kind Wrap of the defaults and of all routes, each field once. Shardway removes the
// suffix of these fields on all routes, because clients send a cookie or header on all paths. It returns nil if
// there are none.
func (t *Table) Wrapped() []Source { return t.wrapped }
