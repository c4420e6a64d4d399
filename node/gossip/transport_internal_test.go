package gossip

import (
	"io"
	"log"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
)

// open opens a transport on a free port of an address. It skips the test if the address family is not available.
func open(t *testing.T, host string) *transport {
	t.Helper()
	s, err := openSockets(netip.MustParseAddr(host), 0, log.New(io.Discard, "", 0))
	if err != nil && strings.Contains(host, ":") {
		t.Skipf("no IPv6 here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// at returns the transport's port on another address of this machine.
func at(s *transport, host string) string { return net.JoinHostPort(host, strconv.Itoa(s.port())) }

// Each packet arrives whole, with its own bytes and its sender, over IPv4 and IPv6, and over IPv4 to and from a dual-stack socket.
func TestPacketsArriveWhole(t *testing.T) {
	for name, c := range map[string]struct{ from, fromAt, to, toAt string }{
		"IPv4":                {"127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.1"},
		"IPv6":                {"::1", "::1", "::1", "::1"},
		"IPv4 to both":        {"127.0.0.1", "127.0.0.1", "::", "127.0.0.1"},
		"both to IPv4":        {"::", "127.0.0.1", "127.0.0.1", "127.0.0.1"},
		"both to itself":      {"::", "::1", "::", "::1"},
		"IPv4 by a name":      {"127.0.0.1", "127.0.0.1", "127.0.0.1", "localhost"},
		"IPv4, all addresses": {"0.0.0.0", "127.0.0.1", "0.0.0.0", "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := open(t, c.from), open(t, c.to)
			texts := []string{"one", strings.Repeat("x", 1400), "three"}
			var got []string
			for _, text := range texts {
				if _, err := a.WriteTo([]byte(text), at(b, c.toAt)); err != nil {
					t.Fatal(err)
				}
				p := <-b.PacketCh()
				got = append(got, string(p.Buf))
				if p.From.String() != at(a, c.fromAt) {
					t.Errorf("from %v, want %s", p.From, at(a, c.fromAt))
				}
				if _, err := b.WriteTo([]byte(text), p.From.String()); err != nil {
					t.Fatal(err)
				}
				if back := <-a.PacketCh(); string(back.Buf) != text || string(p.Buf) != text {
					t.Errorf("%q came back, and what came first is %q now, want %q twice", back.Buf, p.Buf, text)
				}
			}
			for i, text := range texts {
				if got[i] != text {
					t.Errorf("got %q, want %q", got[i], text)
				}
			}
		})
	}
}

// Packets and streams that are no longer read do not delay a shutdown.
func TestSocketsShutDownWhileSomethingWaits(t *testing.T) {
	a, b := open(t, "127.0.0.1"), open(t, "127.0.0.1")
	for range 3 {
		if _, err := a.WriteTo([]byte("x"), at(b, "127.0.0.1")); err != nil {
			t.Fatal(err)
		}
		c, err := a.DialTimeout(at(b, "127.0.0.1"), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
	}
	<-b.PacketCh() // the others are in transit
	<-b.StreamCh()
	if err := b.Shutdown(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DialTimeout(at(b, "127.0.0.1"), time.Minute); err == nil {
		t.Error("the port is open after Shutdown")
	}
}
