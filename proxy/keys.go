package proxy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// defaultKeyHeader is the source of keys when none is configured.
const defaultKeyHeader = "X-Shard-Key"

// KeySpec says where the keys of requests are found, in the words of the
// configuration.
type KeySpec struct {
	// Sources are tried in order: header:NAME, path:N (segment, from 1),
	// query:NAME, cookie:NAME, host, jwt:CLAIM, ip. Empty means
	// header:X-Shard-Key.
	Sources []string
	// Routes give requests below a path prefix sources of their own. The longest
	// prefix counts.
	Routes []KeyRoute
	// OnMissing says what a request without a key gets: reject (the default),
	// local, hash-path or cookie.
	OnMissing string
}

// KeyRoute is one line of KeySpec.Routes. /api covers /api and whatever is below
// /api/, not /apix.
type KeyRoute struct {
	Prefix  string
	Sources []string
}

// onMissing is what a request without a key gets.
type onMissing uint8

const (
	missingReject onMissing = iota + 1
	missingLocal
	missingHashPath
	missingCookie
)

// Keys finds the key of a request. It never changes once made.
type Keys struct {
	sources []source
	routes  []keyRoute // longest prefix first
	missing onMissing
	wants   string // what a request without a key is told
}

type keyRoute struct {
	prefix  string
	sources []source
	wants   string
}

// NewKeys reads a KeySpec. The error names every mistake in it.
func NewKeys(spec KeySpec) (*Keys, error) {
	var problems []error
	parse := func(where string, list []string) []source {
		parsed := make([]source, 0, len(list))
		for _, text := range list {
			s, err := parseSource(text)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", where, err))
				continue
			}
			parsed = append(parsed, s)
		}
		return parsed
	}
	k := &Keys{sources: parse("key", spec.Sources)}
	if len(spec.Sources) == 0 {
		k.sources = []source{{kind: sourceHeader, name: defaultKeyHeader}}
	}
	k.wants = describe(k.sources)
	for _, r := range spec.Routes {
		where := fmt.Sprintf("routes %q", r.Prefix)
		if !strings.HasPrefix(r.Prefix, "/") {
			problems = append(problems, fmt.Errorf("%s: prefix must start with /", where))
		}
		p := readPath(nil, []byte(r.Prefix))
		if p.dots || p.sure <= len(r.Prefix) {
			problems = append(problems, fmt.Errorf("%s: a prefix has no ., .., empty segment, \\ or ;: paths with them are refused", where))
		}
		if len(r.Sources) == 0 {
			problems = append(problems, fmt.Errorf("%s: no key sources", where))
		}
		route := keyRoute{prefix: string(p.path), sources: parse(where, r.Sources)}
		route.wants = describe(route.sources)
		k.routes = append(k.routes, route)
	}
	slices.SortStableFunc(k.routes, func(a, b keyRoute) int { return len(b.prefix) - len(a.prefix) })
	var err error
	if k.missing, err = parseOnMissing(spec.OnMissing); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return k, nil
}

func parseOnMissing(text string) (onMissing, error) {
	switch text {
	case "", "reject":
		return missingReject, nil
	case "local":
		return missingLocal, nil
	case "hash-path":
		return missingHashPath, nil
	case "cookie":
		return missingCookie, nil
	}
	return 0, fmt.Errorf("on-missing: unknown value %q: use reject, local, hash-path or cookie", text)
}

// choose returns the sources for a path, and their description for people. Not
// sure means that another reader of the path may find it below another prefix.
func (k *Keys) choose(p *reading) (sources []source, wants string, sure bool) {
	if p.dots {
		return nil, "", false
	}
	for i := range k.routes {
		if prefix := k.routes[i].prefix; covers(prefix, p.path) {
			sure = p.sure > len(prefix) || p.sure == len(prefix) && strings.HasSuffix(prefix, "/")
			return k.routes[i].sources, k.routes[i].wants, sure
		}
	}
	return k.sources, k.wants, true
}

// covers reports whether path is prefix or lies below it.
func covers(prefix string, path []byte) bool {
	if len(path) < len(prefix) || string(path[:len(prefix)]) != prefix {
		return false
	}
	return len(path) == len(prefix) || strings.HasSuffix(prefix, "/") || path[len(prefix)] == '/'
}

// sourceKind says what part of a request a key is taken from.
type sourceKind uint8

const (
	sourceHeader sourceKind = iota + 1
	sourcePath
	sourceQuery
	sourceCookie
	sourceHost
	sourceJWT
	sourceIP
)

// source is one place a key may be found in.
type source struct {
	kind    sourceKind
	name    string // header, query, cookie or claim name
	segment int    // path segment, from 1
	text    string // as configured
}

// parseSource reads one source as configured.
func parseSource(text string) (source, error) {
	kind, name, named := strings.Cut(text, ":")
	s := source{name: name, text: text}
	switch kind {
	case "header":
		s.kind = sourceHeader
		if named && !isToken(name) {
			return s, fmt.Errorf("source %q: %q is no header name", text, name)
		}
	case "path":
		s.kind = sourcePath
		n, err := strconv.Atoi(name)
		if err != nil || n < 1 || n > 64 {
			return s, fmt.Errorf("source %q: the segment must be a number from 1 to 64, as in path:2", text)
		}
		s.segment = n
	case "query":
		s.kind = sourceQuery
	case "cookie":
		s.kind = sourceCookie
	case "jwt":
		s.kind = sourceJWT
	case "host", "ip":
		if s.kind = sourceHost; kind == "ip" {
			s.kind = sourceIP
		}
		if named {
			return s, fmt.Errorf("source %q: %s takes no name", text, kind)
		}
		return s, nil
	default:
		return s, fmt.Errorf("unknown source %q: use header:NAME, path:N, query:NAME, cookie:NAME, host, jwt:CLAIM or ip", text)
	}
	if name == "" {
		return s, fmt.Errorf("source %q: a name is missing, as in %s:NAME", text, kind)
	}
	return s, nil
}

// describe lists sources for an error answer.
func describe(list []source) string {
	words := make([]string, len(list))
	for i, s := range list {
		if words[i] = s.text; s.text == "" {
			words[i] = "header:" + s.name
		}
	}
	return strings.Join(words, ", ")
}

// isToken reports whether name is an RFC 9110 token.
func isToken(name string) bool {
	for i := range len(name) {
		c := name[i]
		alnum := c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return name != ""
}
