// Package address parses network addresses in the syntax of the configuration. It is pure:
// it resolves no names.
package address

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
)

// IsHost reports whether text is an IP address or looks like a DNS name.
func IsHost(text string) bool {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Zone() == "" || IsHost(ip.Zone()) // ParseAddr accepts any text as a zone
	}
	return len(text) <= 253 && regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`).MatchString(text)
}

// IsLoopback reports whether a bind address of the form host:port can be reached only from this machine. localhost
// is the only accepted name, because other names may resolve to any address.
func IsLoopback(bind string) bool {
	host, _, err := net.SplitHostPort(bind)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost"
}

// IsPort reports whether text is a fixed port number. Zero is not, because the system would choose a different port
// at every start and clients could not find it.
func IsPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n != 0
}
