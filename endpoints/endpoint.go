package endpoints

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Names of the endpoints that every node announces for itself.
const (
	HTTP  = "http"  // HTTP port for app traffic
	Peer  = "peer"  // port for connections between nodes
	Admin = "admin" // admin port
)

const (
	maxNameBytes = 32  // bytes
	maxHostBytes = 253 // bytes of a DNS name in text form: RFC 1035, section 2.3.4
)

// ErrInvalid reports a name or address that cannot be announced. Check wraps it.
var ErrInvalid = errors.New("endpoints: invalid endpoint")

// Endpoint is one announced address.
type Endpoint struct {
	ID     string // node id, or the Serf name of a member that is not a node
	IsNode bool   // whether the member is a Shardway node
	Name   string // endpoint name without "ep."
	Addr   string // host:port
}

// Check returns an error that wraps ErrInvalid if name or addr cannot be announced. A name has 1 to 32
// lowercase letters, digits, dots, dashes and underscores, with a letter or digit at both ends. An
// address is a host:port that other members can dial.
func Check(name, addr string) error {
	if !isValidName(name) {
		return fmt.Errorf("%w: name %q: use up to %d lowercase letters, digits, dots, dashes and underscores, with a letter or digit at both ends", ErrInvalid, name, maxNameBytes)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%w: address %q of %q: write host:port, like 10.0.0.5:9000 or [2001:db8::5]:9000", ErrInvalid, addr, name)
	}
	if n, e := strconv.ParseUint(port, 10, 16); e != nil || n == 0 {
		return fmt.Errorf("%w: port %q of %q: use a number from 1 to 65535", ErrInvalid, port, name)
	}
	ip, parseErr := netip.ParseAddr(host)
	isIP := parseErr == nil
	if host == "" || isIP && ip.IsUnspecified() {
		return fmt.Errorf("%w: address %q of %q has no host that other members can dial", ErrInvalid, addr, name)
	}
	isName := !isIP && isValidHost(host)
	hasValidZone := ip.Zone() == "" || isValidHost(ip.Zone()) // netip.ParseAddr accepts any text as the zone
	if !isIP && !isName || !hasValidZone {
		return fmt.Errorf("%w: host %q of %q is neither an IP address nor a DNS name", ErrInvalid, host, name)
	}
	return nil
}

// isValidName reports whether name can be the name of an endpoint; see Check.
func isValidName(name string) bool {
	if name == "" || len(name) > maxNameBytes {
		return false
	}
	if !isLowerOrDigit(name[0]) || !isLowerOrDigit(name[len(name)-1]) {
		return false
	}
	for _, char := range []byte(name) {
		if !isLowerOrDigit(char) && !strings.ContainsRune("._-", rune(char)) {
			return false
		}
	}
	return true
}

func isLowerOrDigit(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }

// isValidHost reports whether the non-empty host can be a DNS name. Underscores are allowed, because
// names in DNS and in container networks contain them.
func isValidHost(host string) bool {
	if len(host) > maxHostBytes || host[0] == '-' || host[0] == '.' || host[len(host)-1] == '-' {
		return false
	}
	for _, char := range []byte(host) {
		if !isLowerOrDigit(char) && (char < 'A' || char > 'Z') && !strings.ContainsRune("._-", rune(char)) {
			return false
		}
	}
	return true
}
