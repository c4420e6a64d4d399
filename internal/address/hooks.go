package address

import (
	"net/url"
	"strings"

	"shardway/internal/valueerr"
)

// Hooks is the address at which an app receives hook calls.
type Hooks struct {
	// Upstream is the host and port, or the socket. An empty Network means that hook calls
	// use the same address as the requests for the app.
	Upstream Upstream
	// Path is the prefix of the hook names in the URL. It is empty, or begins with a slash
	// and does not end with one.
	Path string
}

// HasSeparateAddress reports whether the hooks have a different address than the app.
func (h Hooks) HasSeparateAddress() bool { return h.Upstream.Network != "" }

// maxHookPath is the maximum length of the path in bytes. It limits how much of each
// request path must be compared with the hook path.
const maxHookPath = 128

// ParseHooks parses the address of hooks: http://HOST:PORT/PATH or unix:/SOCKET. A /PATH
// alone is a path of the app itself. The error is a *valueerr.Error without its key.
func ParseHooks(text string) (Hooks, error) {
	const remedy = "write an address of its own, like http://127.0.0.1:9001 or unix:/path, or a path of the app, like /hooks"
	invalid := func(invalid, remedy string) (Hooks, error) {
		return Hooks{}, &valueerr.Error{Value: text, Wrong: invalid, Remedy: remedy}
	}
	upstream, path := text, ""
	switch {
	case strings.HasPrefix(text, "/"):
		upstream, path = "", text
	case strings.Contains(text, "://"):
		parsed, err := url.Parse(text)
		if err != nil {
			return invalid("not a URL", remedy)
		}
		if parsed.RawQuery != "" || parsed.Fragment != "" || parsed.ForceQuery {
			return invalid("only a host, a port and a path have a place here", remedy)
		}
		scheme, rest, _ := strings.Cut(text, "://")
		host, pathText, found := strings.Cut(rest, "/")
		if upstream = scheme + "://" + host; found && pathText != "" {
			path = "/" + pathText
		}
	case !strings.HasPrefix(text, "unix:"):
		return invalid("neither a URL nor a path", remedy)
	}
	if pathProblem := checkHookPath(path); pathProblem != "" {
		return invalid(pathProblem, "write it like /hooks, of letters, digits, -, _ and single slashes between them")
	}
	if upstream == "" {
		if path == "" {
			return invalid("there is no path", remedy)
		}
		return Hooks{Path: path}, nil
	}
	parsed, err := ParseUpstream(upstream)
	if err != nil {
		return Hooks{}, err
	}
	return Hooks{parsed, path}, nil
}

// checkHookPath returns why a path is not permitted, or an empty string. The proxy blocks client
// requests for hook paths, so a path must have only one spelling, apart from letter case.
// Percent-encoding, dot segments and empty segments would permit several.
func checkHookPath(path string) string {
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
