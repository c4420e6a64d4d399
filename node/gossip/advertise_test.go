package gossip

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"shardway/internal/raceflag"
)

// fixed is a resolver that has one name, and never responds for another.
type fixed struct{}

func (fixed) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	if host == "me.example" {
		return []netip.Addr{netip.MustParseAddr("2001:db8::7")}, nil
	}
	if host == "mute.example" {
		<-ctx.Done()
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func (fixed) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	return "", nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func TestAdvertise(t *testing.T) {
	for _, c := range []struct {
		bind, advertise string
		join            []string
		want            string
	}{
		{"127.0.0.1:7946", "", nil, "127.0.0.1:7946"},
		{"[::1]:7946", "", nil, "[::1]:7946"},
		{"localhost:7946", "", nil, "127.0.0.1:7946"},
		{"0.0.0.0:7946", "10.0.0.1", nil, "10.0.0.1:7946"},
		{":7946", "10.0.0.1:17946", nil, "10.0.0.1:17946"},
		{":7946", "[2001:db8::1]:1", nil, "[2001:db8::1]:1"},
		{":7946", "me.example", nil, "[2001:db8::7]:7946"},
		{":7946", "", []string{"nowhere.example", "127.0.0.1:9"}, "127.0.0.1:7946"},
		{"0.0.0.0:1", "", []string{"127.0.0.1"}, "127.0.0.1:1"},
	} {
		got, err := Advertise(t.Context(), c.bind, c.advertise, c.join, fixed{})
		if err != nil || got.String() != c.want {
			t.Errorf("Advertise(%q, %q, %v) = %v, %v, want %s", c.bind, c.advertise, c.join, got, err, c.want)
		}
	}
}

// An error about a port names the port and the address that contains it.
func TestAdvertiseRejectsInvalidPort(t *testing.T) {
	for _, c := range []struct{ bind, advertise, want string }{
		{"127.0.0.1", "", `gossip: the listening address "127.0.0.1" has no port`},
		{"127.0.0.1", "10.0.0.1", `gossip: the listening address "127.0.0.1" has no port`},
		{"127.0.0.1:x", "", `gossip: "x" in the listening address "127.0.0.1:x" is not a port: must be 0 to 65535`},
		{":99999", "10.0.0.1", `gossip: "99999" in the listening address ":99999" is not a port: must be 0 to 65535`},
		{":7946", "10.0.0.1:x", `gossip: "x" in the advertised address "10.0.0.1:x" is not a port: must be 0 to 65535`},
		{":x", "[2001:db8::1]:-1", `gossip: "-1" in the advertised address "[2001:db8::1]:-1" is not a port: must be 0 to 65535`},
	} {
		if got, err := Advertise(t.Context(), c.bind, c.advertise, nil, fixed{}); err == nil || err.Error() != c.want {
			t.Errorf("Advertise(%q, %q) = %v, %v, want %s", c.bind, c.advertise, got, err, c.want)
		}
	}
}

// Names without a response are resolved in parallel, and wait together.
func TestAdvertiseWaitsOnceForNames(t *testing.T) {
	defer raceflag.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		localAddrOfRoute(t.Context(), []string{"mute.example", "mute.example:7946", "mute.example:1"}, fixed{})
		if d := time.Since(start); d > lookupTimeout {
			t.Errorf("it took %v", d)
		}
	})
}

// An address that other machines reach is preferred. Once, a loopback address was used if it came first: a machine's own name may resolve
// to one (Debian writes 127.0.1.1 into /etc/hosts). The sockets only look up routes; nothing is sent.
func TestAdvertisePrefersWhatOthersReach(t *testing.T) {
	beyond, err := localAddrFor(t.Context(), netip.MustParseAddrPort("192.0.2.1:9"))
	if err != nil {
		t.Logf("this machine has no route beyond itself: %v", err)
		beyond = netip.MustParseAddr("127.0.0.1")
	}
	for _, join := range [][]string{{"127.0.1.1:9", "192.0.2.1:9"}, {"192.0.2.1:9", "127.0.1.1:9"}} {
		if got, ok := localAddrOfRoute(t.Context(), join, fixed{}); !ok || got != beyond {
			t.Errorf("towards %v: %v, want %v", join, got, beyond)
		}
	}
}

func TestAmbiguousAddressIsNotGuessed(t *testing.T) {
	nets := func(all ...string) []net.Addr {
		var out []net.Addr
		for _, s := range all {
			ip, n, err := net.ParseCIDR(s)
			if err != nil {
				t.Fatal(err)
			}
			n.IP = ip
			out = append(out, n)
		}
		return out
	}
	for _, c := range []struct {
		all  []net.Addr
		v4   bool
		want string
	}{
		{nets("127.0.0.1/8", "::1/128", "10.1.2.3/24", "fe80::1/64"), false, "10.1.2.3"},
		{nets("127.0.0.1/8", "10.1.2.3/24", "2001:db8::1/64"), false, "10.1.2.3"},
		{nets("127.0.0.1/8", "2001:db8::1/64"), false, "2001:db8::1"},
		{nets("127.0.0.1/8", "2001:db8::1/64"), true, ""},
		{nets("10.1.2.3/24", "192.168.1.1/24"), false, ""},
		{nets("127.0.0.1/8"), false, ""},
	} {
		got, err := selectAddress(c.all, c.v4)
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), "--gossip-advertise") {
				t.Errorf("pick(%v) = %v, %v, want a refusal that names the flag", c.all, got, err)
			}
			continue
		}
		if err != nil || got.String() != c.want {
			t.Errorf("pick(%v) = %v, %v, want %s", c.all, got, err, c.want)
		}
	}
}
