package proxy

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"shardway/proxy/h1"
)

// A shared cache that stores a response with the sticky cookie gives one key, and so one state, to
// every client that gets the response from it: caches may keep Set-Cookie (RFC 9111 section 7.3).
// Section 3 defines which responses they may store. So:
//
//   - A response that allows shared caches to store it gets no cookie. The next other response of
//     the client sets it.
//   - A response that says nothing may be stored all the same (section 4.2.2). It gets the cookie and
//     Cache-Control: private.
//   - A response that forbids it (private, no-store) gets the cookie and nothing else.

// sharing is whether shared caches may store a response.
type sharing uint8

const (
	sharingUnsaid    sharing = iota // it does not say
	sharingForbidden                // private or no-store
	sharingAllowed                  // public, s-maxage, must-revalidate, proxy-revalidate, a max-age above 0, or Expires to come
)

// sharingOf returns whether the header fields of a response let shared caches store it. Those of a
// 304 apply to the stored response. A cache that a targeted field addresses ignores the general
// Cache-Control (RFC 9213 section 2.2). So one targeted field that does not forbid storing allows
// it, regardless of the other fields.
func sharingOf(res *h1.Response, now time.Time) sharing {
	if res.Status() == http.StatusNotModified {
		return sharingAllowed
	}
	general, expires := sharingUnsaid, false
	for i := range res.NumFields() {
		if res.IsConnectionOption(i) { // caches do not get it
			continue
		}
		name, value := res.Field(i)
		lower := strings.ToLower(string(name))
		if isTargeted(lower) {
			if !targetedForbids(lower, value) {
				return sharingAllowed
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
	if general == sharingUnsaid && expires {
		return sharingAllowed
	}
	return general
}

// isTargeted reports whether a field, in lower case, steers some shared caches only: those of a
// CDN (CDN-Cache-Control and the like, RFC 9213), surrogates (Surrogate-Control), Akamai
// (Edge-Control) or nginx (X-Accel-Expires).
func isTargeted(name string) bool {
	switch name {
	case "surrogate-control", "edge-control", "x-accel-expires":
		return true
	}
	return strings.HasSuffix(name, "-cache-control")
}

// targetedForbids reports whether a line of a targeted field certainly forbids its caches to store
// the response. A lifetime of 0 does not: the cache may store the response and revalidate it.
// X-Accel-Expires is the exception, because nginx does not store a response with 0.
func targetedForbids(name string, value []byte) bool {
	if name == "x-accel-expires" {
		return len(value) > 0 && len(bytes.Trim(value, "0")) == 0
	}
	noStore, private := false, false
	for list := value; len(list) > 0; {
		var directive []byte
		directive, list = cutDirective(list)
		directive, _, has := bytes.Cut(directive, []byte{'='})
		// The last one of a name counts, and name=?0 switches it off (RFC 8941 section 3.2).
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

// with adds the directives of one Cache-Control line. What forbids sharing counts more than what
// allows it. After a quote that does not end, a directive that Shardway adds would be part of the
// quoted text, so such a list allows sharing.
func (s sharing) with(list []byte) sharing {
	if endsQuoted(list) {
		s = allowed(s)
	}
	for len(list) > 0 {
		var directive []byte
		directive, list = cutDirective(list)
		name, argument, _ := bytes.Cut(directive, []byte{'='})
		switch strings.ToLower(string(bytes.TrimSpace(name))) {
		case "no-store":
			return sharingForbidden
		case "private":
			if len(argument) == 0 { // else it is of some fields only
				return sharingForbidden
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

func allowed(s sharing) sharing {
	if s == sharingForbidden {
		return s
	}
	return sharingAllowed
}

// cutDirective takes the first directive off a list. Commas in quotes part nothing.
func cutDirective(list []byte) (first, rest []byte) {
	n, _ := directiveLen(list)
	if n == len(list) {
		return bytes.TrimSpace(list), nil
	}
	return bytes.TrimSpace(list[:n]), list[n+1:]
}

// directiveLen returns the length of the first directive of a list, and whether a quote in it does
// not end.
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

// endsQuoted reports whether a list ends within a quote.
func endsQuoted(list []byte) bool {
	for {
		n, quoted := directiveLen(list)
		if n == len(list) {
			return quoted
		}
		list = list[n+1:]
	}
}

// appendSticky appends the sticky cookie for the response, if the response sets it.
func (r reply) appendSticky(b []byte, res *h1.Response) []byte {
	if r.x.Cookie == nil {
		return b
	}
	switch sharingOf(res, r.s.clock.at(r.s.clock.now())) {
	case sharingAllowed:
		return b
	case sharingUnsaid:
		if res.Status() >= http.StatusOK {
			b = append(b, "Cache-Control: private\r\n"...)
		}
	case sharingForbidden:
	}
	return r.appendCookie(b)
}
