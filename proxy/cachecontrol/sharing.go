package cachecontrol

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"shardway/proxy/h1"
)

// Sharing is whether shared caches may store a response.
type Sharing uint8

// The values of Sharing.
const (
	Unstated  Sharing = iota // the response contains no statement
	Forbidden                // private or no-store
	Allowed                  // public, s-maxage, must-revalidate, proxy-revalidate, a max-age above 0, or an Expires in the future
)

// SharingOf returns whether shared caches may store the response, according to its header. The
// fields of a 304 response apply to a stored response. A cache that is addressed by a targeted
// field ignores the general Cache-Control field (RFC 9213 section 2.2). Therefore a single targeted
// field that does not forbid storing permits it, regardless of the other fields.
func SharingOf(res *h1.Response, now time.Time) Sharing {
	if res.Status() == http.StatusNotModified {
		return Allowed
	}
	general, expires := Unstated, false
	for i := range res.NumFields() {
		if res.IsConnectionOption(i) { // the field is not forwarded to caches
			continue
		}
		name, value := res.Field(i)
		lower := strings.ToLower(string(name))
		if isTargeted(lower) {
			if !targetedForbids(lower, value) {
				return Allowed
			}
			continue
		}
		switch lower {
		case "cache-control":
			general = general.with(value)
		case "expires":
			at, err := http.ParseTime(string(value))
			expires = expires || err == nil && at.After(now)
		}
	}
	if general == Unstated && expires {
		return Allowed
	}
	return general
}

// isTargeted reports whether a field applies only to certain shared caches: to those of a CDN
// (CDN-Cache-Control and similar fields, RFC 9213), to surrogates (Surrogate-Control), to Akamai
// (Edge-Control) or to nginx (X-Accel-Expires). name must be in lower case.
func isTargeted(name string) bool {
	switch name {
	case "surrogate-control", "edge-control", "x-accel-expires":
		return true
	}
	return strings.HasSuffix(name, "-cache-control")
}

// targetedForbids reports whether a line of a targeted field reliably forbids its caches to store
// the response. A lifetime of 0 does not, because a cache may store the response and revalidate it.
// X-Accel-Expires: 0 does, because nginx does not store such a response.
func targetedForbids(name string, value []byte) bool {
	if name == "x-accel-expires" {
		return len(value) > 0 && len(bytes.Trim(value, "0")) == 0
	}
	noStore, private := false, false
	for list := value; len(list) > 0; {
		var directive []byte
		directive, list = cutDirective(list)
		directive, _, has := bytes.Cut(directive, []byte{'='})
		// The last directive of a name applies, and name=?0 disables it (RFC 8941 section 3.2).
		switch bare := !has; strings.ToLower(string(bytes.TrimSpace(directive))) {
		case "no-store":
			noStore = bare
		case "bypass-cache":
			noStore = noStore || bare && name == "edge-control"
		case "private":
			private = bare && strings.HasSuffix(name, "-cache-control")
		}
	}
	return noStore || private
}

// with returns s updated with the directives of one Cache-Control line. A directive that forbids
// storing takes precedence. If a quoted string does not end, a directive that Shardway appends
// would become part of it. Therefore such a line counts as permitting storing, so that no cookie is
// set.
func (s Sharing) with(list []byte) Sharing {
	if endsQuoted(list) {
		s = allowed(s)
	}
	for len(list) > 0 {
		var directive []byte
		directive, list = cutDirective(list)
		name, argument, _ := bytes.Cut(directive, []byte{'='})
		switch strings.ToLower(string(bytes.TrimSpace(name))) {
		case "no-store":
			return Forbidden
		case "private":
			if len(argument) == 0 { // with an argument, private applies to some fields only
				return Forbidden
			}
		case "public", "s-maxage", "must-revalidate", "proxy-revalidate":
			s = allowed(s)
		case "max-age":
			if n, err := strconv.Atoi(strings.Trim(string(argument), `" `)); err != nil || n > 0 {
				s = allowed(s)
			}
		}
	}
	return s
}

func allowed(s Sharing) Sharing {
	if s == Forbidden {
		return s
	}
	return Allowed
}

// cutDirective splits a list after its first directive. A comma in a quoted string does not
// separate directives.
func cutDirective(list []byte) (first, rest []byte) {
	n, _ := directiveLen(list)
	if n == len(list) {
		return bytes.TrimSpace(list), nil
	}
	return bytes.TrimSpace(list[:n]), list[n+1:]
}

// directiveLen returns the length of the first directive of a list. quoted means that a quoted
// string in it does not end.
func directiveLen(list []byte) (n int, quoted bool) {
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			return i, false
		}
	}
	return len(list), quoted
}

// endsQuoted reports whether a list ends within a quoted string.
func endsQuoted(list []byte) bool {
	for {
		n, quoted := directiveLen(list)
		if n == len(list) {
			return quoted
		}
		list = list[n+1:]
	}
}
