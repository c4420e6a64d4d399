package peer_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"testing"
	"time"

	"shardway/peer"
)

const alpn = "shardway/1"

// tlsConfig returns a configuration for both sides, with a self-signed certificate that it trusts.
func tlsConfig(t *testing.T) *tls.Config {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"shardway"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, pub, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{alpn}, ServerName: "shardway",
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		RootCAs:      pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
}

func overTLS(o peer.Options, c *tls.Config) peer.Options {
	shake := func(ctx context.Context, tc *tls.Conn) (net.Conn, error) {
		if err := tc.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		if got := tc.ConnectionState().NegotiatedProtocol; got != alpn {
			return nil, fmt.Errorf("protocol %q", got)
		}
		return tc, nil
	}
	o.WrapClient = func(ctx context.Context, conn net.Conn, _ string) (net.Conn, error) {
		return shake(ctx, tls.Client(conn, c))
	}
	o.WrapServer = func(ctx context.Context, conn net.Conn) (net.Conn, error) {
		return shake(ctx, tls.Server(conn, c))
	}
	return o
}

func TestTLSSlipsInBeneath(t *testing.T) {
	b := &book{}
	c := tlsConfig(t)
	p := echoes(t, b, overTLS(peer.Options{Node: "a"}, c))
	s, err := p.Dial(t.Context(), "a", peer.Forward)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	wantEcho(t, s, "secret")
	if _, ok := s.NetConn().(*tls.Conn); !ok {
		t.Errorf("beneath is %T, want *tls.Conn", s.NetConn())
	}
	if _, err := s.SyscallConn(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("SyscallConn = %v, want ErrUnsupported", err)
	}
	// A refusal is transmitted over TLS as well.
	b.set("x", b.addrs["a"])
	var re *peer.RefusedError
	if _, err := p.Dial(t.Context(), "x", peer.Forward); !errors.As(err, &re) {
		t.Errorf("dial of the wrong node = %v, want a RefusedError", err)
	}
}

func TestPlainDialerDoesNotGetThroughTLS(t *testing.T) {
	b := &book{}
	p := echoes(t, b, overTLS(peer.Options{Node: "a"}, tlsConfig(t)))
	for name, o := range map[string]peer.Options{
		"plain":             {Node: "z", Cluster: in("c1"), Lookup: b.lookup},
		"other certificate": overTLS(peer.Options{Node: "z", Cluster: in("c1"), Lookup: b.lookup}, tlsConfig(t)),
	} {
		if _, err := peer.New(o).Dial(t.Context(), "a", peer.Forward); err == nil || peer.IsRefused(err) {
			t.Errorf("%s: dial = %v, want an error that is no evidence of a crash", name, err)
		}
	}
	if s := p.Stats(); s.Accepted != 0 {
		t.Errorf("%d accepted, want 0", s.Accepted)
	}
}

// staleError is the error of a lower layer for a session that the other end does not know.
type staleError struct{ again bool }

func (staleError) Error() string     { return "stale" }
func (e staleError) DialAgain() bool { return e.again }

// The lower layer can request that a node is dialed again, a limited number of times.
func TestDialRepeatsForStaleLowerLayer(t *testing.T) {
	for _, test := range []struct {
		stale, dials int
		again        bool
	}{{0, 1, true}, {1, 2, true}, {3, 4, true}, {4, 4, true}, {1, 1, false}} {
		b := &book{}
		o := overTLS(peer.Options{Node: "a"}, tlsConfig(t))
		wrap, dials := o.WrapClient, 0
		o.WrapClient = func(ctx context.Context, conn net.Conn, node string) (net.Conn, error) {
			c, err := wrap(ctx, conn, node)
			if dials++; err == nil && dials <= test.stale {
				return nil, staleError{test.again}
			}
			return c, err
		}
		s, err := echoes(t, b, o).Dial(t.Context(), "a", peer.Forward)
		if served := test.stale < test.dials; dials != test.dials || (err == nil) != served {
			t.Errorf("%+v: %d dials, %v", test, dials, err)
		}
		if err == nil {
			wantEcho(t, s, "once more")
			_ = s.Close()
		}
	}
}
