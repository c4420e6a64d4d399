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
	Unspecified Sharing = iota // the response does not say
	Forbidden                  // private or no-store
	Allowed                    // public, s-maxage, must-revalidate, proxy-revalidate, a max-age above 0, or an Expires in the future
)

// SharingOf returns whether shared caches may store the response, according to its header. The
// fields of a 304 response apply to a stored response. A cache that is addressed by a targeted
// field ignores the general Cache-Control field (RFC 9213 section 2.2). Therefore a single targeted
// field that does not forbid storing permits it, regardless of the other fields.
func SharingOf(res *h1.Response, now time.Time) Sharing {
	if res.Status() == http.StatusNotModified {
		return Allowed
	}
	sharing, expiresLater := Unspecified, false
	for i := range res.NumFields() {
		if res.IsConnectionOption(i) { // the field is not forwarded to caches
			continue
		}
		name, value := res.Field(i)
		lowerName := strings.ToLower(string(name))
		if isTargeted(lowerName) {
			if !targetedFieldForbids(lowerName, value) {
				return Allowed
			}
			continue
		}
		switch lowerName {
		case "cache-control":
			sharing = sharing.applyCacheControl(value)
		case "expires":
			expiry, err := http.ParseTime(string(value))
			expiresLater = expiresLater || err == nil && expiry.After(now)
		}
	}
	if sharing == Unspecified && expiresLater {
		return Allowed
	}
	return sharing
}

// isTargeted reports whether a field applies only to certain shared caches: to those of a CDN
// (CDN-Cache-Control and similar fields, RFC 9213), to surrogates (Surrogate-Control), to Akamai
// (Edge-Control) or to nginx (X-Accel-Expires). name must be lowercase.
func isTargeted(name string) bool {
	switch name {
	case "surrogate-control", "edge-control", "x-accel-expires":
		return true
	}
	return strings.HasSuffix(name, "-cache-control")
}

// targetedFieldForbids reports whether one line of a targeted field reliably forbids the addressed
// caches to store the response. A lifetime of 0 does not, because a cache may store the response and
// revalidate it. X-Accel-Expires: 0 does, because nginx does not store such a response.
func targetedFieldForbids(name string, value []byte) bool {
	if name == "x-accel-expires" {
		return len(value) > 0 && len(bytes.Trim(value, "0")) == 0
	}
	noStore, private := false, false
	for list := value; len(list) > 0; {
		var directive []byte
		directive, list = cutDirective(list)
		directive, _, hasValue := bytes.Cut(directive, []byte{'='})
		// The last directive of a name applies, and name=?0 disables it (RFC 8941 section 3.2).
		switch isBare := !hasValue; strings.ToLower(string(bytes.TrimSpace(directive))) {
		case "no-store":
			noStore = isBare
		case "bypass-cache":
			noStore = noStore || isBare && name == "edge-control"
		case "private":
			private = isBare && strings.HasSuffix(name, "-cache-control")
		}
	}
	return noStore || private
}

// applyCacheControl returns s updated with the directives of one Cache-Control line. A directive
// that forbids storing takes precedence. If a quoted string is unterminated, Shardway cannot safely
// append the directive private. It then treats the response as storable by shared caches and does
// not set its sticky cookie.
func (s Sharing) applyCacheControl(list []byte) Sharing {
	if endsInQuotes(list) {
		s = allowUnlessForbidden(s)
	}
	for len(list) > 0 {
		var directive []byte
		directive, list = cutDirective(list)
		name, value, _ := bytes.Cut(directive, []byte{'='})
		switch strings.ToLower(string(bytes.TrimSpace(name))) {
		case "no-store":
			return Forbidden
		case "private":
			if len(value) == 0 { // with an argument, private applies to some fields only
				return Forbidden
			}
		case "public", "s-maxage", "must-revalidate", "proxy-revalidate":
			s = allowUnlessForbidden(s)
		case "max-age":
			if maxAge, err := strconv.Atoi(strings.Trim(string(value), `" `)); err != nil || maxAge > 0 {
				s = allowUnlessForbidden(s)
			}
		}
	}
	return s
}

// allowUnlessForbidden returns Allowed, or Forbidden if s is Forbidden.
func allowUnlessForbidden(s Sharing) Sharing {
	if s == Forbidden {
		return s
	}
	return Allowed
}

// cutDirective splits a list after its first directive. A comma in a quoted string does not
// separate directives.
func cutDirective(list []byte) (first, rest []byte) {
	length, _ := directiveLen(list)
	if length == len(list) {
		return bytes.TrimSpace(list), nil
	}
	return bytes.TrimSpace(list[:length]), list[length+1:]
}

// directiveLen returns the length of the first directive of a list. inQuotes reports whether a
// quoted string in it is not terminated.
func directiveLen(list []byte) (length int, inQuotes bool) {
	for i := 0; i < len(list); i++ {
		switch c := list[i]; {
		case c == '\\' && inQuotes:
			i++
		case c == '"':
			inQuotes = !inQuotes
		case c == ',' && !inQuotes:
			return i, false
		}
	}
	return len(list), inQuotes
}

// endsInQuotes reports whether a list ends within a quoted string.
func endsInQuotes(list []byte) bool {
	for {
		length, inQuotes := directiveLen(list)
		if length == len(list) {
			return inQuotes
		}
		list = list[length+1:]
	}
}
