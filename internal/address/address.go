// Package address reads network addresses as the configuration writes them. It is
// pure: no name is looked up.
package address

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
)

// IsHost reports whether s is an IP address or looks like a DNS name.
func IsHost(s string) bool {
	if ip, err := netip.ParseAddr(s); err == nil {
		return ip.Zone() == "" || IsHost(ip.Zone()) // ParseAddr takes any text for a zone
	}
	return len(s) <= 253 && regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`).MatchString(s)
}

// IsLoopback reports whether nobody beyond this machine can reach a bind address, as
// host:port. A name counts only if it is localhost: what others resolve to is not known.
func IsLoopback(bind string) bool {
	host, _, err := net.SplitHostPort(bind)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost"
}

// IsPort reports whether s is a port that others can know: zero would choose a new
// one at every start.
func IsPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n != 0
}
