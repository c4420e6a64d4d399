package dnsserver_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"

	"shardway/e2e/kit/dnsserver"
)

// The resolver of Go understands the responses.
func TestServerReturnsConfiguredRecords(t *testing.T) {
	s, err := dnsserver.New(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", s.Addr().String())
	}}
	missing := func(err error) bool {
		var d *net.DNSError
		return errors.As(err, &d) && d.IsNotFound
	}
	if _, err := r.LookupNetIP(t.Context(), "ip", "nodes.test."); !missing(err) {
		t.Errorf("a name that was not set: %v", err)
	}
	one, two := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	s.SetAddrs("nodes.test", one, two)
	s.SetAddrs("a.nodes.test", two)
	s.AddService("_gossip._tcp.nodes.test", 7946)
	if all, err := r.LookupNetIP(t.Context(), "ip", "nodes.test."); err != nil || !slices.Equal(all, []netip.Addr{one, two}) {
		t.Errorf("nodes.test is %v, %v", all, err)
	}
	if _, all, err := r.LookupSRV(t.Context(), "", "", "_gossip._tcp.nodes.test."); err != nil || len(all) != 1 || all[0].Target != "a.nodes.test." || all[0].Port != 7946 {
		t.Errorf("the service is %v, %v", all, err)
	}
	s.SetAddrs("nodes.test")
	if _, err := r.LookupNetIP(t.Context(), "ip", "nodes.test."); !missing(err) {
		t.Errorf("a name that was taken back: %v", err)
	}
}
