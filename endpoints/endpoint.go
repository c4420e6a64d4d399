package endpoints

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Names of the endpoints that each node announces itself.
const (
	HTTP  = "http"  // app traffic
	Peer  = "peer"  // the port between nodes
	Admin = "admin" // operations
)

const (
	maxName = 32
	maxHost = 253 // RFC 1035, section 2.3.4, as text
)

// ErrEndpoint reports an unusable name or address. Check wraps it.
var ErrEndpoint = errors.New("endpoints: unusable endpoint")

// Endpoint is one announced address.
type Endpoint struct {
	ID     string // of the node, or the Serf name of a member that is none
	IsNode bool
	Name   string // without "ep."
	Addr   string // host:port
}

// Check reports why name or addr cannot be announced. A name is up to 32 small
// letters, digits, dots, dashes and underscores, with a letter or digit at both
// ends. An address is host:port, as others can dial it.
func Check(name, addr string) error {
	if !goodName(name) {
		return fmt.Errorf("%w: name %q: use up to %d small letters, digits, dots, dashes and underscores, a letter or digit at both ends", ErrEndpoint, name, maxName)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%w: address %q of %q: write host:port, like 10.0.0.5:9000 or [2001:db8::5]:9000", ErrEndpoint, addr, name)
	}
	if n, e := strconv.ParseUint(port, 10, 16); e != nil || n == 0 {
		return fmt.Errorf("%w: port %q of %q: use a number from 1 to 65535", ErrEndpoint, port, name)
	}
	ip, err := netip.ParseAddr(host)
	if host == "" || err == nil && ip.IsUnspecified() {
		return fmt.Errorf("%w: address %q of %q has no host that others can dial", ErrEndpoint, addr, name)
	}
	// ParseAddr takes any text for a zone.
	if err != nil && !goodHost(host) || ip.Zone() != "" && !goodHost(ip.Zone()) {
		return fmt.Errorf("%w: host %q of %q is neither an IP address nor a DNS name", ErrEndpoint, host, name)
	}
	return nil
}

func goodName(s string) bool {
	if s == "" || len(s) > maxName || !smallOrDigit(s[0]) || !smallOrDigit(s[len(s)-1]) {
		return false
	}
	for _, c := range []byte(s) {
		if !smallOrDigit(c) && !strings.ContainsRune("._-", rune(c)) {
			return false
		}
	}
	return true
}

func smallOrDigit(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// goodHost reports whether s may be a DNS name. Underscores are allowed, as DNS
// and container networks have them.
func goodHost(s string) bool {
	if len(s) > maxHost || s[0] == '-' || s[0] == '.' || s[len(s)-1] == '-' {
		return false
	}
	for _, c := range []byte(s) {
		if !smallOrDigit(c) && (c < 'A' || c > 'Z') && !strings.ContainsRune("._-", rune(c)) {
			return false
		}
	}
	return true
}
