package secret_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"testing"
	"time"

	"shardway/internal/secret"
)

// Error messages quote the certificate of an untrusted peer and end up in the log, so the
// quoted text must be short.
func TestRefusalLimitsQuotedCertificateText(t *testing.T) {
	p := newPKI(t)
	names := make([]string, 500)
	for i := range names {
		names[i] = strings.Repeat("n", 60) + "." + strings.Repeat("x", 60)
	}
	untrusted := newPKI(t)
	untrusted.key, untrusted.ca = untrusted.sign(strings.Repeat("issuer", 40), &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	by := func(p *pki) wrapFunc {
		key, cert := p.sign("leaf", &x509.Certificate{DNSNames: names, ExtKeyUsage: clientAndServer()}, p)
		return plainTLS(&tls.Config{
			MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{secret.ALPN},
			Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}},
		})
	}
	for name, server := range map[string]*secret.TLSWrapper{
		"secret":           newWrapper(t, newList(), "b"),
		"own certificates": secret.NewTLSWrapper(newPKI(t).load("b", &x509.Certificate{DNSNames: []string{"b"}, ExtKeyUsage: clientAndServer()})),
	} {
		_, _, _, err := connect(t, by(untrusted), server.Server)
		if err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "497 more") {
			t.Errorf("%s: error %.2000v", name, err)
		}
	}
	// The same limit applies to a trusted peer that claims to be another node.
	_, s, clientErr, serverErr := connect(t, by(p), secret.NewTLSWrapper(p.load("b", &x509.Certificate{DNSNames: []string{"b"}, ExtKeyUsage: clientAndServer()})).Server)
	if clientErr != nil || serverErr != nil {
		t.Fatal(clientErr, serverErr)
	}
	if err := secretConn(t, s).VerifyNode("c"); err == nil || len(err.Error()) > 1000 {
		t.Errorf("VerifyNode = %.2000v", err)
	}
}

// The certificates of an untrusted peer can name each other as issuers, and the peer
// chooses how expensive their signatures are expensive.
func TestKeysOfUntrustedIssuersAreNotUsed(t *testing.T) {
	p, untrusted := newPKI(t), newPKI(t)
	longLived := func(x x509.Certificate) *x509.Certificate { // at any verification time
		x.NotBefore, x.NotAfter = time.Unix(1, 0), time.Now().AddDate(100, 0, 0)
		return &x
	}
	authority := longLived(x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	_, another := untrusted.sign("issuer", authority, nil)
	untrusted.key, untrusted.ca = untrusted.sign("issuer", authority, nil)
	key, leaf := untrusted.sign("leaf", longLived(x509.Certificate{DNSNames: []string{"a"}, ExtKeyUsage: clientAndServer()}), untrusted)
	by := plainTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{secret.ALPN},
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw, another.Raw}, PrivateKey: key}},
	})
	for name, server := range map[string]*secret.TLSWrapper{
		"secret":           newWrapper(t, newList(), "b"),
		"own certificates": secret.NewTLSWrapper(p.load("b", &x509.Certificate{DNSNames: []string{"b"}, ExtKeyUsage: clientAndServer()})),
	} {
		_, _, _, err := connect(t, by, server.Server)
		if err == nil || strings.Contains(err.Error(), "because of") { // crypto/x509 reports this after it has verified a signature
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// delayedConn blocks the second write until resume is closed.
type delayedConn struct {
	net.Conn
	writes  int
	blocked chan struct{}
	resume  chan struct{}
}

func (c *delayedConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes == 2 {
		close(c.blocked)
		<-c.resume
	}
	return c.Conn.Write(p)
}

// A handshake that begins while the old secret is accepted and ends after its retirement
// must not produce a stream: the retirement has already checked the open streams, so it
// would never close this one.
func TestHandshakeDuringRetirementIsRefused(t *testing.T) {
	old, next := secret.Generate(time.Unix(1e9, 0)), secret.Generate(time.Unix(1.1e9, 0))
	a, b := newWrapper(t, secret.List{old, next}, "a"), newWrapper(t, secret.List{next, old}, "b")
	b.SetGrace(time.Hour)
	blocked, resume := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(resume)
		<-blocked
		b.Replace(derive(t, secret.List{next}, "b"))
	}()
	client := func(ctx context.Context, c net.Conn) (net.Conn, error) {
		return a.Client(ctx, &delayedConn{Conn: c, blocked: blocked, resume: resume}, "b")
	}
	_, _, clientErr, serverErr := connect(t, client, b.Server)
	if serverErr == nil || !strings.Contains(serverErr.Error(), "retired during the handshake") || clientErr == nil {
		t.Errorf("server %v, client %v: want errors", serverErr, clientErr)
	}
}
