package address

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"shardway/internal/valueerr"
)

// Upstream is the address of an app, as the arguments of net.Dial.
type Upstream struct {
	Network string // tcp or unix
	Address string // host:port, or the path of the socket
}

// ParseUpstream parses the address of an app: http://HOST, http://HOST:PORT or
// unix:/PATH. The error is a *valueerr.Error without its key.
func ParseUpstream(text string) (Upstream, error) {
	const remedy = "write http://host:port, like http://127.0.0.1:9000, or unix:/path"
	invalid := func(invalid, remedy string) (Upstream, error) {
		return Upstream{}, &valueerr.Error{Value: text, Wrong: invalid, Remedy: remedy}
	}
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		const longest = 107 // sun_path has 108 bytes, including the final zero
		switch {
		case !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//"):
			return invalid("the path of the socket does not begin at the root", "write unix:/path, like unix:/run/app.sock")
		case len(path) > longest || strings.ContainsRune(path, 0):
			return invalid("no system knows sockets of that name", "choose a path of at most "+strconv.Itoa(longest)+" bytes")
		}
		return Upstream{"unix", path}, nil
	}
	parsed, err := url.Parse(text)
	switch {
	case err != nil || !strings.Contains(text, "://"):
		return invalid("not a URL", remedy)
	case parsed.Scheme == "https":
		return invalid("apps behind TLS are not supported in this version", remedy)
	case parsed.Scheme != "http":
		return invalid(strconv.Quote(parsed.Scheme)+" is not supported", remedy)
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" || parsed.Path != "" && parsed.Path != "/":
		return invalid("only a host and a port have a place here", remedy)
	case parsed.Hostname() == "" || !IsHost(parsed.Hostname()):
		return invalid("the host is missing", remedy)
	}
	port := parsed.Port()
	if port == "" {
		port = "80"
	}
	if !IsPort(port) {
		return invalid(strconv.Quote(port)+" is not a port", "give a fixed port from 1 to 65535")
	}
	return Upstream{"tcp", net.JoinHostPort(parsed.Hostname(), port)}, nil
}
