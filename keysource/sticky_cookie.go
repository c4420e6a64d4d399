package keysource

import (
	"net/netip"
	"strings"
	"time"

	"shardway/internal/fieldname"
	"shardway/internal/valueerr"
)

// DefaultCookieName is the name of the sticky cookie unless the configuration has another one.
const DefaultCookieName = "Shardway-Key"

// maxCookieAttrLen is the maximum length of the sticky cookie's name, path and domain.
const maxCookieAttrLen = 255

// CookieScope contains the sticky cookie's name and the attributes that determine in which requests a client sends it.
// It is part of the key configuration, because a node that reads a different cookie would derive a different key. The
// zero value stands for the defaults.
type CookieScope struct {
	Name   string `json:"name,omitempty"`   // empty means DefaultCookieName
	Path   string `json:"path,omitempty"`   // empty means /
	Domain string `json:"domain,omitempty"` // lowercase; empty means only the host of the request
}

// SameSite is the value of a cookie's SameSite attribute.
type SameSite string

// The values of SameSite.
const (
	SameSiteLax    SameSite = "lax"
	SameSiteStrict SameSite = "strict"
	SameSiteNone   SameSite = "none"
)

// StickyCookie describes the cookie that MissingCookie sets. The zero value stands for the defaults.
type StickyCookie struct {
	CookieScope
	SameSite     SameSite      // empty means SameSiteLax
	MaxAge       time.Duration // zero means that the cookie expires with the browser session
	AlwaysSecure bool          // set Secure even if the client does not use TLS
	AllowScripts bool          // omit HttpOnly, so that scripts in the browser can read the cookie
}

// withoutDefaults returns the scope in canonical form: default values are empty.
func (scope CookieScope) withoutDefaults() CookieScope {
	if scope.Name == DefaultCookieName {
		scope.Name = ""
	}
	if scope.Path == "/" {
		scope.Path = ""
	}
	scope.Domain = strings.ToLower(scope.Domain)
	return scope
}

// WithDefaults returns the scope with empty values replaced by the defaults.
func (scope CookieScope) WithDefaults() CookieScope {
	if scope.Name == "" {
		scope.Name = DefaultCookieName
	}
	if scope.Path == "" {
		scope.Path = "/"
	}
	return scope
}

// RequiresSecure reports whether browsers accept the cookie only with the attribute Secure, because of
// its name (RFC 6265bis, section 4.1.3).
func (scope CookieScope) RequiresSecure() bool {
	return hasPrefixFold(scope.Name, "__Secure-") || scope.isHostOnlyName()
}

// isHostOnlyName reports whether browsers accept the cookie only without a domain and for all paths.
func (scope CookieScope) isHostOnlyName() bool { return hasPrefixFold(scope.Name, "__Host-") }

// hasPrefixFold reports whether text begins with prefix, without regard to the case of letters.
func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

// Check returns the first error found, a *valueerr.Error whose Key names the parameter.
func (scope CookieScope) Check() error {
	scope = scope.WithDefaults()
	wrong := func(key, value, wrong, remedy string) error {
		return &valueerr.Error{Key: key, Value: value, Wrong: wrong, Remedy: remedy}
	}
	switch {
	case len(scope.Name) > maxCookieAttrLen || !fieldname.IsToken(scope.Name):
		return wrong("name", scope.Name, "not the name of a cookie (RFC 6265, section 4.1.1)", "use letters, digits and signs like - and _, such as app-key")
	case len(scope.Path) > maxCookieAttrLen || !isCookiePath(scope.Path):
		return wrong("path", scope.Path, "not a plain path", "write it like /app, without %, empty segments, . and ..")
	case scope.Domain != "" && !isCookieDomain(scope.Domain):
		return wrong("domain", scope.Domain, "not a domain that a cookie can have", "write it like example.com, without a dot in front, a port or an address")
	case scope.isHostOnlyName() && scope.Domain != "":
		return wrong("domain", scope.Domain, "browsers refuse a cookie whose name begins with __Host- and that has a domain", "remove the domain, or use another name")
	case scope.isHostOnlyName() && scope.Path != "/":
		return wrong("path", scope.Path, "browsers refuse a cookie whose name begins with __Host- and that has another path than /", "remove the path, or use another name")
	}
	return nil
}

// isCookiePath reports whether all clients and apps interpret the path alike.
func isCookiePath(path string) bool {
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "//") {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`%;\?#",`, r) })
}

// isCookieDomain reports whether domain is a host name of at least two labels.
func isCookieDomain(domain string) bool {
	if _, err := netip.ParseAddr(domain); err == nil || len(domain) > maxCookieAttrLen || !strings.Contains(domain, ".") {
		return false
	}
	for label := range strings.SplitSeq(domain, ".") {
		hasOuterHyphen := strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-")
		if label == "" || len(label) > 63 || hasOuterHyphen || strings.ContainsFunc(label, isNotInLabel) {
			return false
		}
	}
	return true
}

// isNotInLabel reports whether r is not allowed in a host name label.
func isNotInLabel(r rune) bool {
	isAllowed := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-'
	return !isAllowed
}

// findCookieSource returns the first source that reads the cookie with the given name. Names that differ only in case
// count as equal, because some apps do not distinguish them.
func findCookieSource(sources []string, name string) (found string, isFound bool) {
	for _, text := range sources {
		source, err := Parse(text)
		if err != nil {
			continue
		}
		for _, single := range source.Single() {
			cookie := ""
			switch {
			case single.Kind == Cookie, single.Kind == Wrap && single.Wrapped == Cookie:
				cookie = single.Name
			case single.Kind == JWT && single.Token.Kind == InCookie:
				cookie = single.Token.Name
			}
			if strings.EqualFold(cookie, name) {
				return text, true
			}
		}
	}
	return "", false
}

// CheckCookie returns the first error in Cookie, a *valueerr.Error whose Key names the parameter.
func (c Config) CheckCookie() error {
	if err := c.Cookie.Check(); err != nil {
		return err
	}
	name := c.Cookie.withoutDefaults().Name
	if source, isFound := findCookieSource(c.allSources(), name); isFound && name != "" {
		return &valueerr.Error{
			Key: "name", Value: name, Wrong: "the key source " + source + " reads the same cookie, which the app sets", Remedy: "use a name that no app uses, such as app-key",
		}
	}
	return nil
}
