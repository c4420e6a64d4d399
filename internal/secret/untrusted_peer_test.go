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

// What a refusal quotes of a stranger's certificate ends up in the log.
func TestRefusalQuotesLittleOfAStranger(t *testing.T) {
	p := newPKI(t)
	names := make([]string, 500)
	for i := range names {
		names[i] = strings.Repeat("n", 60) + "." + strings.Repeat("x", 60)
	}
	stranger := newPKI(t)
	stranger.key, stranger.ca = stranger.sign(strings.Repeat("issuer", 40), &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	by := func(p *pki) wrapFunc {
		key, cert := p.sign("leaf", &x509.Certificate{DNSNames: names, ExtKeyUsage: both()}, p)
		return plainTLS(&tls.Config{
			MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{secret.ALPN},
			Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}},
		})
	}
	for name, server := range map[string]*secret.TLSWrapper{
		"secret":           seal(t, fresh(), "b"),
		"own certificates": secret.NewTLSWrapper(newPKI(t).load("b", &x509.Certificate{DNSNames: []string{"b"}, ExtKeyUsage: both()})),
	} {
		_, _, _, err := meet(t, by(stranger), server.Server)
		if err == nil || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "497 more") {
			t.Errorf("%s: the refusal is %.2000v", name, err)
		}
	}
	// The same of one who is believed, and says to be somebody else.
	_, s, cerr, serr := meet(t, by(p), secret.NewTLSWrapper(p.load("b", &x509.Certificate{DNSNames: []string{"b"}, ExtKeyUsage: both()})).Server)
	if cerr != nil || serr != nil {
		t.Fatal(cerr, serr)
	}
	if err := sealed(t, s).Vouch("c"); err == nil || len(err.Error()) > 1000 {
		t.Errorf("Vouch = %.2000v", err)
	}
}

// A stranger's certificates name each other as issuers, a hundred of them, and what it costs
// to look at the signatures is his choice.
func TestKeysOfAStrangerVouchForNobody(t *testing.T) {
	p, stranger := newPKI(t), newPKI(t)
	lasts := func(x x509.Certificate) *x509.Certificate { // whenever it is judged
		x.NotBefore, x.NotAfter = time.Unix(1, 0), time.Now().AddDate(100, 0, 0)
		return &x
	}
	authority := lasts(x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	_, another := stranger.sign("issuer", authority, nil)
	stranger.key, stranger.ca = stranger.sign("issuer", authority, nil)
	key, leaf := stranger.sign("leaf", lasts(x509.Certificate{DNSNames: []string{"a"}, ExtKeyUsage: both()}), stranger)
	by := plainTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{secret.ALPN},
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf.Raw, another.Raw}, PrivateKey: key}},
	})
	for name, server := range map[string]*secret.TLSWrapper{
		"secret":           seal(t, fresh(), "b"),
		"own certificates": secret.NewTLSWrapper(p.load("b", &x509.Certificate{DNSNames: []string{"b"}, ExtKeyUsage: both()})),
	} {
		_, _, _, err := meet(t, by, server.Server)
		if err == nil || strings.Contains(err.Error(), "because of") { // x509 says so when it has looked at a signature
			t.Errorf("%s: the refusal is %v", name, err)
		}
	}
}

// held holds back what is written after the first message until it is let go.
type held struct {
	net.Conn
	writes int
	begun  chan struct{}
	let    chan struct{}
}

func (c *held) Write(p []byte) (int, error) {
	if c.writes++; c.writes == 2 {
		close(c.begun)
		<-c.let
	}
	return c.Conn.Write(p)
}

// A handshake that began while the old secret was accepted and ended after its
// retirement gave a stream for ever: the retirement had looked at the open ones,
// and this was none yet.
func TestHandshakeHeldOverARetirementIsRefused(t *testing.T) {
	old, next := secret.Generate(time.Unix(1e9, 0)), secret.Generate(time.Unix(1.1e9, 0))
	a, b := seal(t, secret.List{old, next}, "a"), seal(t, secret.List{next, old}, "b")
	b.SetGrace(time.Hour)
	begun, let := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(let)
		<-begun
		b.Replace(trust(t, secret.List{next}, "b"))
	}()
	client := func(ctx context.Context, c net.Conn) (net.Conn, error) {
		return a.Client(ctx, &held{Conn: c, begun: begun, let: let}, "b")
	}
	_, _, cerr, serr := meet(t, client, b.Server)
	if serr == nil || !strings.Contains(serr.Error(), "retired during the handshake") || cerr == nil {
		t.Errorf("server %v, client %v: want the stream refused", serr, cerr)
	}
}
