package gossip

import (
	"net/netip"
	"strings"
	"testing"
)

// A node without a secret gossips on loopback only. Once, by names it joined nodes of other machines, which learned the address 127.0.0.1
// for it and dialed themselves.
func TestNodeOnLoopbackJoinsNoRemoteNode(t *testing.T) {
	for _, tt := range []struct {
		self, to string
		confined bool
	}{
		{"127.0.0.1:7946", "10.0.0.2:7946", true},
		{"[::1]:7946", "[2001:db8::1]:7946", true},
		{"127.0.0.1:7946", "127.0.0.2:7946", false},
		{"127.0.0.1:7946", "[::1]:7946", false},
		{"10.0.0.1:7946", "10.0.0.2:7946", false},
		{"10.0.0.1:7946", "127.0.0.1:7946", false},
	} {
		got := loopbackConflict(netip.MustParseAddrPort(tt.self), netip.MustParseAddrPort(tt.to))
		if (got != "") != tt.confined || tt.confined && !strings.Contains(got, "--secret-file") {
			t.Errorf("%s joins %s: %q", tt.self, tt.to, got)
		}
	}
}
