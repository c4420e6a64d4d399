package address

import (
	"net/url"
	"strings"

	"shardway/internal/valueerr"
)

// Hooks is where an app takes calls of its hooks.
type Hooks struct {
	// Upstream has an empty Network if the hooks are where the app's requests go.
	Upstream Upstream
	// Path is what their names are appended to; empty, or it begins with a slash and
	// ends without one.
	Path string
}

// Own reports whether the hooks have an address of their own.
func (h Hooks) Own() bool { return h.Upstream.Network != "" }

// maxHookPath bounds the path: no request needs a longer one to be compared.
const maxHookPath = 128

// ParseHooks reads where hooks are: http://HOST:PORT/PATH or unix:/SOCKET, or with
// /PATH alone that of the app itself. The error is a *valueerr.Error without its key.
func ParseHooks(text string) (Hooks, error) {
	const remedy = "write an address of its own, like http://127.0.0.1:9001 or unix:/path, or a path of the app, like /hooks"
	wrong := func(wrong, remedy string) (Hooks, error) {
		return Hooks{}, &valueerr.Error{Value: text, Wrong: wrong, Remedy: remedy}
	}
	at, path := text, ""
	switch {
	case strings.HasPrefix(text, "/"):
		at, path = "", text
	case strings.Contains(text, "://"):
		u, err := url.Parse(text)
		if err != nil {
			return wrong("not a URL", remedy)
		}
		if u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
			return wrong("only a host, a port and a path have a place here", remedy)
		}
		scheme, rest, _ := strings.Cut(text, "://")
		host, below, found := strings.Cut(rest, "/")
		if at = scheme + "://" + host; found && below != "" {
			path = "/" + below
		}
	case !strings.HasPrefix(text, "unix:"):
		return wrong("neither a URL nor a path", remedy)
	}
	if why := hookPath(path); why != "" {
		return wrong(why, "write it like /hooks, of letters, digits, -, _ and single slashes between them")
	}
	if at == "" {
		if path == "" {
			return wrong("there is no path", remedy)
		}
		return Hooks{Path: path}, nil
	}
	u, err := ParseUpstream(at)
	if err != nil {
		return Hooks{}, err
	}
	return Hooks{u, path}, nil
}

// hookPath says what speaks against a path, which everybody has to read alike: nothing
// in it may be written in two ways, but for the case of letters.
func hookPath(path string) string {
	if path == "" {
		return ""
	}
	if len(path) > maxHookPath {
		return "the path is too long"
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		if segment == "" {
			return "the path has an empty segment"
		}
		for i := range len(segment) {
			c := segment[i]
			plain := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_'
			if !plain {
				return "the path has a byte in it that some write in two ways"
			}
		}
	}
	return ""
}
