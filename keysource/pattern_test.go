package keysource_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"shardway/keysource"
)

func TestPatternsFindKeys(t *testing.T) {
	const ambiguous, none = "<ambiguous>", ""
	for pattern, keys := range map[string]map[string]string{
		"/rooms/{key}": {
			"/rooms/tea": "tea", "/rooms/%74ea": "tea", "/%72ooms/tea": "tea", "/rooms/tea/": "tea", "/rooms/a%20b%2B+": "a b++", "/rooms/%C3%A9": "é", "/rooms/%zz": "%zz",
			"/rooms": none, "/rooms/": none, "/": none, "*": none, "": none, "/room/tea": none, "/roomsx/tea": none, "/rooms/tea/x": none, "/x/rooms/tea": none,
			"/Rooms/tea": ambiguous, "/rooms//tea": ambiguous, "//rooms/tea": ambiguous, "/rooms/tea//": ambiguous, "/rooms/a%2Fb": ambiguous, "/rooms%2Ftea": ambiguous,
			`/rooms\tea`: ambiguous, "/rooms/a%5Cb": ambiguous, "/rooms/tea;v=1": ambiguous, "/rooms/tea%3b": ambiguous, "/rooms/tea/;x": ambiguous, "/rooms/tea/%2f": ambiguous,
			"/rooms/.": ambiguous, "/rooms/../rooms/tea": ambiguous, "/rooms/tea/x/..": ambiguous, "/rooms/tea/%2e%2E/x": ambiguous, "/rooms/..;/x": ambiguous, "/x/.": ambiguous,
			"/files//x": none, "/files/a%2Fb;c": none,
		},
		"/api/v4/projects/{key%}/*": {
			"/api/v4/projects/42": "42", "/api/v4/projects/42/": "42", "/api/v4/projects/group%2Fapp": "group/app", "/api/v4/projects/group%2fsub%2Fapp/issues/1": "group/sub/app",
			"/api/v4/projects/42/files/a%2Fb//c;d": "42", "/api/v4/projects": none, "/api/v4/projects/": none, "/api/v4/users/1": none,
			"/api/v4/projects/%2Fapp": ambiguous, "/api/v4/projects/group%2F": ambiguous, "/api/v4/projects/a%2F%2Fb": ambiguous, "/api/v4/projects/a%2F..%2Fb": ambiguous,
			"/api/v4/projects/a%2F.%2Fb": ambiguous, "/api/v4/projects/a%5Cb": ambiguous, "/api/v4/projects/a%2F..%5Cb": ambiguous, "/api/v4/projects/a;b%2Fc": ambiguous, "/api/v4/projects//a": ambiguous,
			"/api/v4%2Fprojects/a": ambiguous, "/api/v4/projects/a%252Fb": "a%2Fb", "/api/V4/projects/1": ambiguous, "/api/v4/projects/1/../2": ambiguous,
		},
		"/{key:[^/]+}.git/…": {
			"/app.git": "app", "/app.git/info/refs": "app", "/app.git.git/HEAD": "app.git", "/%61pp%2Egit": "app",
			"/.git": none, "/app": none, "/app/x.git": none, "/app.gitx": none,
			"/app.GIT": ambiguous, "/group%2Fapp.git": ambiguous, "/app.git;x": ambiguous, "/app.git/..": ambiguous,
		},
		"/{key*}.git/*": {
			"/app.git": "app", "/group/sub/app.git/info/refs": "group/sub/app", "/group/%73ub/app.git/": "group/sub/app", "/group/app": none, "/.git": none, "/a/.git": ambiguous,
			"/a.git/b.git": ambiguous, "/a/b.Git": ambiguous, "/a//b.git": ambiguous, "/a%2Fb.git": ambiguous,
		},
		"/{key*}/-/*": {
			"/group/app/-/issues": "group/app", "/group/app/-": "group/app", "/group/app": none, "/-": none,
			"/a/-/b/-/c": ambiguous, "/group/app/-/blob/main/a%2Fb": ambiguous, "/-/-/x": "-", "/-/-/-": ambiguous,
		},
		"/files/{key*}":                     {"/files/a": "a", "/files/a/b c/d": "a/b c/d", "/files/a/b/": "a/b", "/files": none, "/files/": none, "/files/a//b": ambiguous, "/files/a/b%2Fc": ambiguous},
		"/{any}/v{version:[0-9]+}/x-{key}":  {"/a/v1/x-k": "k", "/a/v/x-k": none, "/a/va/x-k": none, "/a/v1/x-": none, "/a/v1/X-k": ambiguous, "/v1/x-k": none},
		"/a%2Ab%7Bc%7D/{key:[a-z]{2,3}|%d}": {"/a*b{c}/ab": "ab", "/a%2ab{c}/%25d": "%d", "/a*b{c}/abcd": none, "/a*b{c}/Ab": none},
		"/café/{key:(?i)x.y}":               {"/caf%c3%a9/X%0aY": "X\nY", "/caf%C3%A9/xy": none, "/CAFÉ/xzy": ambiguous},
	} {
		p, err := keysource.ParsePattern(pattern)
		if err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
		for path, want := range keys {
			key, unambiguous := p.Key(make([]byte, 0, len(path)), []byte(path))
			if unambiguous != (want != ambiguous) || unambiguous && string(key) != want || key != nil && len(key) == 0 {
				t.Errorf("%s of %q is %q, %v, want %q", pattern, path, key, unambiguous, want)
			}
		}
	}
}

func TestInvalidPatternsAreRejected(t *testing.T) {
	for pattern, remedy := range map[string]string{
		"rooms/{key}": "begin it with a slash", "/rooms": "exactly once", "/*": "exactly once", "/{key}/{key}": "exactly once", "/{any}": "exactly once",
		"/{key}{any}": "one placeholder", "/{Key}": "one placeholder", "/{}": "one placeholder", "/{key%*}": "one placeholder", "/{key": "close each brace", "/key}": "close each brace", "/{key:[a-z]{2}": "close each brace",
		"/{key:}": "after the colon", "/{key:[}": "regular expression", "/{key:a)(b}": "regular expression", "/{key*:a}": "without a regular expression", "/{any*}/{key}": "several segments",
		"/a//{key}": "empty segments", "/{key}/": "empty segments", "/a/../{key}": "without ., ..", "/a;b/{key}": "without ., ..", `/a\b/{key}`: "without ., ..", "/a%2Fb/{key}": "without ., ..",
		"/a b/{key}": "percent-encoded", "/*/{key}": "percent-encoded", "/a?b/{key}": "percent-encoded", "/{key*}/*": "a literal between", "/{key*}/{any}/*": "a literal between",
		"/{key}" + strings.Repeat("/x", 64): "at most 64 segments", "/{key}/" + strings.Repeat("x", 1024): "at most 1024 bytes",
	} {
		if p, err := keysource.ParsePattern(pattern); err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%s is %v, %v, want %q", pattern, p, err, remedy)
		}
	}
}

func TestPatternsHaveACanonicalForm(t *testing.T) {
	for text, want := range map[string]string{
		"/%72ooms/{key}": "/rooms/{key}", "/{key}/…": "/{key}/*", "/a%2a%7b/{any%}/{key:[^/]+}.%67it": "/a%2A%7B/{any%}/{key:[^/]+}.git", "/é/{key*}": "/%C3%A9/{key*}", "/a+b%2Cc/{key}": "/a%2Bb%2Cc/{key}",
	} {
		p, err := keysource.ParsePattern(text)
		if err != nil || p.String() != want {
			t.Errorf("%s is %v, %v, want %s", text, p, err, want)
		}
	}
}

// A key in many segments must not cost more than the path is long.
func TestPatternsLimitSegments(t *testing.T) {
	p, err := keysource.ParsePattern("/{key*}/x/*")
	if err != nil {
		t.Fatal(err)
	}
	path := []byte(strings.Repeat("/a", 64) + "/x")
	if key, unambiguous := p.Key(nil, path); unambiguous {
		t.Errorf("%q", key)
	}
	path = path[2:]
	if key, unambiguous := p.Key(nil, path); !unambiguous || len(key) != 125 {
		t.Errorf("%q, %v", key, unambiguous)
	}
}

// FuzzPattern verifies that a pattern has one canonical form, that it does not change the path, and that
// every app finds the same key if Key reports it as unambiguous.
func FuzzPattern(f *testing.F) {
	for _, pattern := range []string{"/rooms/{key}", "/p/{key%}/*", "/{key:[^/]+}.git/*", "/{key*}.git/*", "/{key*}/-/*", "/{any}/{key*}/x", "/a%2A/{key:a|b}"} {
		for _, path := range []string{"/rooms/tea", "/p/a%2Fb/c", "/a.git/b", "/a/b.git", "/a/b/-/c//d", "/x/a/b/x/", "/rooms/a;b", "/a*/b", `/rooms/a\..\b`} {
			f.Add(pattern, []byte(path))
		}
	}
	f.Fuzz(func(t *testing.T, text string, path []byte) {
		pattern, err := keysource.ParsePattern(text)
		if err != nil {
			return
		}
		again, err := keysource.ParsePattern(pattern.String())
		if err != nil || again.String() != pattern.String() {
			t.Fatalf("%q is %q, which is %v, %v", text, pattern, again, err)
		}
		before := string(path)
		key, sure := pattern.Key(make([]byte, 0, len(path)), path)
		otherKey, otherSure := again.Key(nil, path)
		if !bytes.Equal(key, otherKey) || sure != otherSure || key != nil && len(key) == 0 || string(path) != before {
			t.Fatalf("%q of %q is %q %v, canonical %q %v, path %q", text, before, key, sure, otherKey, otherSure, path)
		}
		mayHaveSlash := strings.Contains(text, "%}") || strings.Contains(text, "%:")
		if !sure || mayHaveSlash || len(path) == 0 || path[0] != '/' {
			return
		}
		for _, reader := range pathReaders {
			segments := reader(string(path))
			if len(segments) > 0 && segments[0] == "" {
				segments = segments[1:]
			}
			if len(segments) > 0 && segments[len(segments)-1] == "" {
				segments = segments[:len(segments)-1]
			}
			for _, greedy := range []bool{false, true} {
				if got, ok := keyOfRegexp(pattern.String(), segments, greedy); ok && got != string(key) {
					t.Fatalf("the key of %q in %q is %q, and %q for another reader", text, path, key, got)
				}
			}
		}
	})
}

// keyOfRegexp returns the key that a pattern finds in the segments of a path, or an empty string. It
// translates the pattern to a regular expression, as the router of an app does. ok is false if it cannot
// translate the pattern.
func keyOfRegexp(pattern string, segments []string, greedy bool) (key string, ok bool) {
	pattern, below := strings.CutSuffix(pattern, "/*")
	var b strings.Builder
	b.WriteString("^")
	for literalText := pattern; literalText != ""; {
		start := strings.IndexByte(literalText, '{')
		if start < 0 {
			b.WriteString(regexp.QuoteMeta(percentDecode(literalText)))
			break
		}
		b.WriteString(regexp.QuoteMeta(percentDecode(literalText[:start])))
		depth, end := 0, start
		for ; end < len(literalText); end++ {
			switch literalText[end] {
			case '{':
				depth++
			case '}':
				depth--
			}
			if depth == 0 {
				break
			}
		}
		name, _, hasExpression := strings.Cut(literalText[start+1:end], ":")
		if hasExpression {
			return "", false
		}
		expression := "[^/]+"
		if name == "key*" {
			expression = "[^/]*(?:/[^/]+)*"
			if !greedy {
				expression += "?"
			}
		}
		if strings.TrimRight(name, "*") == "key" {
			b.WriteString("(?P<key>" + expression + ")")
		} else {
			b.WriteString("(?:" + expression + ")")
		}
		literalText = literalText[end+1:]
	}
	if below {
		b.WriteString("(?:/.*)?")
	}
	b.WriteString("$")
	compiled, err := regexp.Compile("(?s)" + b.String())
	if err != nil {
		return "", false
	}
	match := compiled.FindStringSubmatch("/" + strings.Join(segments, "/"))
	if match == nil {
		return "", true
	}
	return match[compiled.SubexpIndex("key")], true
}
