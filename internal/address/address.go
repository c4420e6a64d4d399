// Package address parses network addresses in the syntax of the configuration. It is pure:
// it resolves no names.
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
		return ip.Zone() == "" || IsHost(ip.Zone()) // ParseAddr accepts any text as a zone
	}
	return len(s) <= 253 && regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`).MatchString(s)
}

// IsLoopback reports whether only this machine can reach a bind address of the form
// host:port. The only accepted name is localhost, because other names may resolve to any
// address.
func IsLoopback(bind string) bool {
	host, _, err := net.SplitHostPort(bind)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost"
}

// IsPort reports whether s is a fixed port number. Zero is not: with zero, the system
// chooses a different port at every start, so clients could not find it.
func IsPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n != 0
}
