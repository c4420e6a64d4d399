package wrapkey

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"shardway/keysource"
	"shardway/proxy/h1"
)

// maxSetCookie is the maximum length of a Set-Cookie value with its suffix. Browsers discard longer cookies.
const maxSetCookie = 4096

// Response returns the header lines of a response with suffixes, for h1.Edit.Replace. oversized is the
// number of Set-Cookie lines that stay unchanged because they would be too long. Interim and 304
// responses stay unchanged.
func (r *Request) Response(res *h1.Response, now time.Time) (replace []h1.FieldValue, oversized int) {
	if res.Status() < http.StatusOK || res.Status() == http.StatusNotModified {
		return nil, 0
	}
	for i := range r.fields {
		field, state := &r.fields[i], &r.states[i]
		if state.responseKey == nil {
			continue
		}
		lineName := field.name
		if field.kind == keysource.Cookie {
			lineName = "Set-Cookie"
		}
		for line := res.Find(lineName, 0); line >= 0; line = res.Find(lineName, line+1) {
			_, value := res.Field(line)
			insertAt := len(value)
			text := value
			if field.kind == keysource.Cookie {
				text, insertAt = cookieToWrap(value, field.name, now)
			}
			if len(text) == 0 {
				continue
			}
			wrapped := make([]byte, 0, len(value)+SuffixLen)
			wrapped = append(wrapped, value[:insertAt]...)
			wrapped = r.codec.AppendSuffix(wrapped, field, state.responseKey, text)
			wrapped = append(wrapped, value[insertAt:]...)
			if field.kind == keysource.Cookie && len(wrapped) > maxSetCookie {
				oversized++
				continue
			}
			replace = append(replace, h1.FieldValue{Line: line, Value: wrapped})
		}
	}
	slices.SortFunc(replace, func(a, b h1.FieldValue) int { return cmp.Compare(a.Line, b.Line) })
	return replace, oversized
}

// blanks are the white space of RFC 9110.
const blanks = " \t"

// cookieToWrap returns the value of a Set-Cookie field without its quotes, and the offset in setCookie at which it
// ends. text is empty if the field sets a different cookie, sets no value, or removes the cookie.
func cookieToWrap(setCookie []byte, name string, now time.Time) (text []byte, end int) {
	pair, attributes, _ := bytes.Cut(setCookie, []byte(";"))
	cookieName, text, _ := bytes.Cut(pair, []byte("="))
	if string(bytes.Trim(cookieName, blanks)) != name || isExpired(attributes, now) {
		return nil, 0
	}
	trimmed := bytes.TrimLeft(text, blanks)
	start := len(pair) - len(trimmed)
	text = Unquote(bytes.TrimRight(trimmed, blanks))
	if isQuoted := len(trimmed) > len(text) && trimmed[0] == '"'; isQuoted {
		start++
	}
	return text, start + len(text)
}

// Unquote returns a cookie value without the quotes around it. A value without two quotes stays
// unchanged.
func Unquote(value []byte) []byte {
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		return value[1 : n-1]
	}
	return value
}

// isExpired reports whether the attributes of a Set-Cookie field remove the cookie (RFC 6265 section 5.3). The last
// valid attribute with a name counts, and Max-Age takes precedence over Expires.
func isExpired(attributes []byte, now time.Time) bool {
	var hasMaxAge, maxAgeIsOver, expiresIsOver bool
	for attribute := range bytes.SplitSeq(attributes, []byte(";")) {
		name, value, _ := bytes.Cut(attribute, []byte("="))
		text := string(bytes.Trim(value, blanks))
		switch strings.ToLower(string(bytes.Trim(name, blanks))) {
		case "max-age":
			if over, ok := parseMaxAge(text); ok {
				hasMaxAge, maxAgeIsOver = true, over
			}
		case "expires":
			if expires, ok := parseExpires(text); ok {
				expiresIsOver = !expires.After(now)
			}
		}
	}
	if hasMaxAge {
		return maxAgeIsOver
	}
	return expiresIsOver
}

// parseMaxAge parses the value of Max-Age. isOver reports whether it is zero or negative. ok is false if browsers
// ignore the value.
func parseMaxAge(text string) (isOver, ok bool) {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return false, false
	}
	return digits != text || strings.Trim(digits, "0") == "", true
}

// parseExpires parses the value of Expires in the formats that apps use.
func parseExpires(text string) (time.Time, bool) {
	if t, err := http.ParseTime(text); err == nil {
		return t, true
	}
	for _, layout := range []string{"Mon, 02-Jan-2006 15:04:05 MST", "Mon, 02-Jan-06 15:04:05 MST", "Mon, 2 Jan 2006 15:04:05 MST", time.RFC1123Z} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
