package config

import (
	"strconv"
	"strings"
)

// checkKeySource judges one key source: header:NAME, path:N, query:NAME,
// cookie:NAME, jwt:CLAIM, host or ip. Package proxy reads the same strings.
func checkKeySource(s string) *flaw {
	kind, name, has := strings.Cut(s, ":")
	switch kind {
	case "host", "ip":
		if has {
			return &flaw{"the source " + strconv.Quote(kind) + " takes no name", "write " + kind}
		}
		return nil
	case "path":
		n, err := strconv.Atoi(name)
		if err != nil || n < 1 || n > 64 {
			return &flaw{"the source \"path\" needs the number of a segment, 1 to 64", "write path:1 for the first segment of the path"}
		}
		return nil
	case "header", "cookie":
		if !token(name) {
			return &flaw{"the source " + strconv.Quote(kind) + " needs the name of a " + kind, "write " + example(kind)}
		}
		return nil
	case "query", "jwt":
		if name == "" || strings.ContainsAny(name, " \t\r\n") {
			return &flaw{"the source " + strconv.Quote(kind) + " needs a name without blanks", "write " + example(kind)}
		}
		return nil
	}
	remedy := "known sources: header:NAME, path:N, query:NAME, cookie:NAME, jwt:CLAIM, host, ip"
	if near := nearest(kind, []string{"header", "path", "query", "cookie", "jwt", "host", "ip"}); near != "" {
		remedy = "did you mean " + strconv.Quote(near) + "? " + remedy
	}
	return &flaw{strconv.Quote(kind) + " is no key source", remedy}
}

// example shows a source of the kind as somebody would write it.
func example(kind string) string {
	switch kind {
	case "header":
		return "header:X-Shard-Key"
	case "cookie":
		return "cookie:sid"
	case "query":
		return "query:user"
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
