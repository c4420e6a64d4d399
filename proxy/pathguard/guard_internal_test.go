package pathguard

import (
	"encoding/hex"
	"math/bits"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reading is one step of a server that interprets a path.
type reading func(string) string

// readings returns the steps that a server may take, in any order and repeatedly.
func readings() []reading {
	parameters, tails, slashes := regexp.MustCompile(`;[^/]*`), regexp.MustCompile(`[?#\x00].*`), regexp.MustCompile(`/+`)
	ends := regexp.MustCompile(`([^/. ])[. ]+(/|$)`) // of files, on Windows
	return []reading{
		lenient,
		func(p string) string { return strings.ReplaceAll(p, `\`, "/") },
		func(p string) string { return parameters.ReplaceAllString(p, "") }, // servlet containers
		func(p string) string { return tails.ReplaceAllString(p, "") },
		func(p string) string { return slashes.ReplaceAllString(p, "/") },
		func(p string) string { return path.Clean(p) },
		resolved,
		func(p string) string { return strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(p) },
		func(p string) string { // a server that parses //host as an authority
			if u, err := url.Parse(p); err == nil {
				return u.EscapedPath()
			}
			return p
		},
		strings.ToLower,
		func(p string) string { return ends.ReplaceAllString(p, "$1$2") },
		overlong,
	}
}

// lenient returns s percent-decoded, with a space for +. It keeps invalid escapes.
func lenient(s string) string {
	var out []byte
	for s = strings.ReplaceAll(s, "+", " "); s != ""; {
		if len(s) > 2 && s[0] == '%' {
			if b, err := hex.DecodeString(s[1:3]); err == nil {
				out, s = append(out, b...), s[3:]
				continue
			}
		}
		out, s = append(out, s[0]), s[1:]
	}
	return string(out)
}

// overlong decodes ASCII characters that are encoded in more than one byte.
func overlong(p string) string {
	var out []byte
	for i := 0; i < len(p); {
		size := max(bits.LeadingZeros8(^p[i]), 1)
		if size > 6 || i+size > len(p) {
			size = 1
		}
		value := int(p[i] & (0xff >> size))
		for _, c := range []byte(p[i+1 : i+size]) {
			if c&0xc0 != 0x80 {
				size = 1
			}
			value = value<<6 | int(c&0x3f)
		}
		if size > 1 && value < 0x80 {
			out = append(out, byte(value))
		} else {
			out = append(out, p[i:i+size]...)
		}
		i += size
	}
	return string(out)
}

// resolved resolves dots as RFC 3986 does, where an empty segment counts as a segment.
func resolved(p string) string {
	var out []string
	for s := range strings.SplitSeq(p, "/") {
		switch s {
		case ".":
		case "..":
			out = out[:max(len(out)-1, 0)]
		default:
			out = append(out, s)
		}
	}
	return strings.Join(out, "/")
}

// FuzzGuard tests that no sequence of steps leads from a path that Matches does not report to the guarded
// path.
func FuzzGuard(f *testing.F) {
	for _, p := range []string{
		"/hooks/v1/release", "/%2568ooks/v1", "/x/..;/hooks/v1", "//h/hooks/v1", "/hooks/x/%2e%2e/v1", `/\hooks\.\v1`, "/;%2fx/hooks/v1", "/a/hooks/v1", "/hooks%00/v1",
		"/hoo%0aks/v1", "/%", "/%25%%%32%35", "/hooks/v1/../..", "/%5c%2e%252e/hooks/v1", "/hooks.%20/v1", "/%e0%81%a8ooks/v1", "/hooks%2fc0%25af/v1",
	} {
		f.Add(p, uint64(0))
		f.Add(p, uint64(0x123456789))
	}
	g, all := New("/Hooks/v1"), readings()
	f.Fuzz(func(t *testing.T, target string, steps uint64) {
		before := target
		covered := g.Matches(func(n int) []byte { return make([]byte, 0, n) }, []byte(target))
		read := target
		for range 8 {
			segments := slices.DeleteFunc(strings.Split(strings.ToLower(read), "/"), func(s string) bool { return s == "" })
			if len(segments) >= 2 && segments[0] == "hooks" && segments[1] == "v1" && !covered {
				t.Fatalf("%q reaches %q, with the steps %#x", before, read, steps)
			}
			read = all[steps%16%uint64(len(all))](read)
			steps >>= 4
		}
	})
}

// A path takes time in proportion to its length, however often it is escaped.
func TestNestedEscapesTakeLinearTime(t *testing.T) {
	g := New("/hooks")
	memory := make([]byte, 0, 1<<20)
	grow := func(int) []byte { return memory }
	for path, want := range map[string]bool{
		"/%" + strings.Repeat("25", 1<<18) + "68ooks": true, // one step for each escape
		"/" + strings.Repeat("%25", 1<<18) + "68ooks": false,
	} {
		if got := g.Matches(grow, []byte(path)); got != want {
			t.Errorf("%.20s…: %v, want %v", path, got, want)
		}
	}
}
