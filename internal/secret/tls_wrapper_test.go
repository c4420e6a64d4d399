package secret_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"shardway/internal/secret"
)

// wrapFunc is one side's part of a handshake.
type wrapFunc func(ctx context.Context, c net.Conn) (net.Conn, error)

// meet lets two sides shake hands over a socket and exchange a byte each way,
// and returns what either met with.
func meet(t *testing.T, client, server wrapFunc) (c, s net.Conn, cerr, serr error) {
	t.Helper()
	return twice(func() (c, s net.Conn, cerr, serr error) { return meetOnce(t, client, server) })
}

// twice does it again if the client asks for that, as package peer does.
func twice(once func() (c, s net.Conn, cerr, serr error)) (c, s net.Conn, cerr, serr error) {
	c, s, cerr, serr = once()
	if e, ok := errors.AsType[interface {
		error
		DialAgain() bool
	}](cerr); ok && e.DialAgain() {
		return once()
	}
	return c, s, cerr, serr
}

func meetOnce(t *testing.T, client, server wrapFunc) (c, s net.Conn, cerr, serr error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		var raw net.Conn
		if raw, serr = ln.Accept(); serr != nil {
			return
		}
		t.Cleanup(func() { _ = raw.Close() })
		_ = raw.SetDeadline(time.Now().Add(30 * time.Second))
		if s, serr = server(ctx, raw); serr == nil {
			serr = swap(s)
		}
		if serr != nil {
			_ = raw.Close()
		}
	}()
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(30 * time.Second))
	if c, cerr = client(ctx, raw); cerr == nil {
		cerr = swap(c)
	}
	if cerr != nil {
		_ = raw.Close()
	}
	<-done
	return c, s, cerr, serr
}

func sealed(t *testing.T, c net.Conn) *secret.Conn {
	t.Helper()
	s, ok := c.(*secret.Conn)
	if !ok {
		t.Fatalf("the stream is a %T", c)
	}
	return s
}

func swap(c net.Conn) error {
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func dialing(s *secret.TLSWrapper, node string) wrapFunc {
	return func(ctx context.Context, c net.Conn) (net.Conn, error) { return s.Client(ctx, c, node) }
}

func accepting(s *secret.TLSWrapper) wrapFunc { return s.Server }

// plainTLS dials with a configuration of the test's own.
func plainTLS(config *tls.Config) wrapFunc {
	return func(ctx context.Context, c net.Conn) (net.Conn, error) {
		tc := tls.Client(c, config)
		return tc, tc.HandshakeContext(ctx)
	}
}

func seal(t *testing.T, l secret.List, node string) *secret.TLSWrapper {
	t.Helper()
	return secret.NewTLSWrapper(trust(t, l, node))
}

func trust(t *testing.T, l secret.List, node string) *secret.Trust {
	t.Helper()
	tr, err := secret.Derive(l, node)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func fresh() secret.List { return secret.List{secret.Generate(time.Now())} }

func TestNodesOfOneSecretMeet(t *testing.T) {
	l := fresh()
	// Ids that are no host names, and one that looks like an address.
	for _, id := range []string{"b", "B_1..x", "10.0.0.1", strings.Repeat("n", 64)} {
		c, s, cerr, serr := meet(t, dialing(seal(t, l, "a"), id), accepting(seal(t, l, id)))
		if cerr != nil || serr != nil {
			t.Fatalf("%s: client %v, server %v", id, cerr, serr)
		}
		v, ok := s.(interface{ Vouch(string) error })
		if !ok || v.Vouch("a") != nil {
			t.Errorf("%s: the server cannot tell that node a dialed", id)
		}
		if err := v.Vouch(id); err == nil || !strings.Contains(err.Error(), `good for node "a" and not for node`) {
			t.Errorf("%s: Vouch of another node = %v", id, err)
		}
		if got := sealed(t, s).ConnectionState(); got.Version != tls.VersionTLS13 || got.DidResume {
			t.Errorf("version %x, resumed %v", got.Version, got.DidResume)
		}
		if sc, ok := c.(syscall.Conn); !ok {
			t.Error("the socket cannot be looked at")
		} else if _, err := sc.SyscallConn(); err != nil {
			t.Errorf("SyscallConn = %v", err)
		}
	}
}

// Each door that must stay shut, with the words that whoever stands before it
// gets to read.
func TestDoorsStayShut(t *testing.T) {
	l, other := fresh(), fresh()
	own := trust(t, l, "a")
	good := tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{secret.ALPN}, Certificates: []tls.Certificate{secret.OwnOf(own)}}
	with := func(f func(*tls.Config)) wrapFunc {
		c := good.Clone()
		f(c)
		return plainTLS(c)
	}
	if _, _, cerr, serr := meet(t, with(func(*tls.Config) {}), accepting(seal(t, l, "b"))); cerr != nil || serr != nil {
		t.Fatalf("the key itself does not fit: %v, %v", cerr, serr)
	}
	foreign := trust(t, other, "a")
	for name, tt := range map[string]struct {
		client, server wrapFunc
		clientSays     string
		serverSays     string
	}{
		"no certificate": {with(func(c *tls.Config) { c.Certificates = nil }), accepting(seal(t, l, "b")), "", "didn't provide a certificate"},
		"another cluster's client": {
			with(func(c *tls.Config) { c.Certificates = []tls.Certificate{secret.OwnOf(foreign)} }), accepting(seal(t, l, "b")),
			"", "same secret (--secret-file)",
		},
		"another cluster's server": {dialing(seal(t, l, "a"), "b"), accepting(seal(t, other, "b")), "same secret (--secret-file)", ""},
		"another node than dialed": {dialing(seal(t, l, "a"), "b"), accepting(seal(t, l, "c")), `good for node "c" and not for node "b"`, ""},
		"no ALPN":                  {with(func(c *tls.Config) { c.NextProtos = nil }), accepting(seal(t, l, "b")), "", "does not name the protocol"},
		"another ALPN":             {with(func(c *tls.Config) { c.NextProtos = []string{"h2"} }), accepting(seal(t, l, "b")), "", "protocol"},
		"TLS 1.2": {
			with(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }), accepting(seal(t, l, "b")),
			"", "version",
		},
		"a server without ALPN": {
			dialing(seal(t, l, "a"), "b"), func(ctx context.Context, c net.Conn) (net.Conn, error) {
				tc := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{secret.OwnOf(trust(t, l, "b"))}})
				return tc, tc.HandshakeContext(ctx)
			}, "does not name the protocol", "",
		},
	} {
		_, _, cerr, serr := meet(t, tt.client, tt.server)
		if cerr == nil || !strings.Contains(cerr.Error(), tt.clientSays) {
			t.Errorf("%s: the client meets %v, want an error with %q", name, cerr, tt.clientSays)
		}
		if serr == nil || !strings.Contains(serr.Error(), tt.serverSays) {
			t.Errorf("%s: the server meets %v, want an error with %q", name, serr, tt.serverSays)
		}
	}
}

func TestRefusedDialerLearnsWhy(t *testing.T) {
	// b accepts a's secret no more, a accepts b's: only b refuses.
	old, next := secret.Generate(time.Now()), secret.Generate(time.Now())
	_, _, cerr, serr := meet(t, dialing(seal(t, secret.List{old, next}, "a"), "b"), accepting(seal(t, secret.List{next}, "b")))
	if cerr == nil || !strings.Contains(cerr.Error(), "the other node refused this one's certificate") {
		t.Errorf("the client meets %v", cerr)
	}
	if serr == nil || !strings.Contains(serr.Error(), `node "a"`) {
		t.Errorf("the server meets %v", serr)
	}
}

// Recorded bytes of a whole conversation, sent again, open nothing: both sides'
// keys are new each time.
func TestReplayedConversationIsRefused(t *testing.T) {
	l := fresh()
	var sent recording
	client := func(ctx context.Context, c net.Conn) (net.Conn, error) {
		return seal(t, l, "a").Client(ctx, &tap{Conn: c, to: &sent}, "b")
	}
	server := seal(t, l, "b")
	if _, _, cerr, serr := meet(t, client, server.Server); cerr != nil || serr != nil {
		t.Fatal(cerr, serr)
	}
	replay := func(_ context.Context, c net.Conn) (net.Conn, error) {
		_, err := c.Write(sent.b)
		return c, err
	}
	var got atomic.Int64
	_, _, _, serr := meet(t, replay, func(ctx context.Context, c net.Conn) (net.Conn, error) {
		s, err := server.Server(ctx, c)
		if err == nil {
			got.Add(1)
		}
		return s, err
	})
	if serr == nil || got.Load() != 0 {
		t.Errorf("the replay was taken: %v", serr)
	}
}

type recording struct{ b []byte }

// tap records what is written.
type tap struct {
	net.Conn
	to *recording
}

func (c *tap) Write(p []byte) (int, error) {
	c.to.b = append(c.to.b, p...)
	return c.Conn.Write(p)
}

// Every pair of states that two nodes can be in during a rotation can speak.
func TestRotationNeverParts(t *testing.T) {
	old, next := secret.Generate(time.Now()), secret.Generate(time.Now())
	steps := []secret.List{{old}, {old, next}, {next, old}, {next}}
	for i, a := range steps {
		for k, b := range steps {
			_, _, cerr, serr := meet(t, dialing(seal(t, a, "a"), "b"), accepting(seal(t, b, "b")))
			near := i-k <= 1 && k-i <= 1
			if ok := cerr == nil && serr == nil; ok != near {
				t.Errorf("step %d with step %d: %v, %v; want ok = %v", i, k, cerr, serr, near)
			}
		}
	}
}

func TestStreamsOfARetiredSecretEnd(t *testing.T) {
	old, next := secret.Generate(time.Now()), secret.Generate(time.Now())
	both := secret.List{next, old}
	a, b := seal(t, secret.List{old}, "a"), seal(t, secret.List{old}, "b")
	b.SetGrace(time.Millisecond)
	_, s, cerr, serr := meet(t, dialing(a, "b"), b.Server)
	if cerr != nil || serr != nil {
		t.Fatal(cerr, serr)
	}
	b.Replace(trust(t, both, "b"))
	a.Replace(trust(t, both, "a"))
	_, kept, cerr, serr := meet(t, dialing(a, "b"), b.Server)
	if cerr != nil || serr != nil {
		t.Fatal(cerr, serr)
	}
	b.Replace(trust(t, secret.List{next}, "b"))
	_ = s.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a stream of the retired secret: %v, want it closed", err)
	}
	_ = kept.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := kept.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stream of the new secret: %v, want it open", err)
	}
}

// pki makes files of a user's own authority.
type pki struct {
	t   *testing.T
	dir string
	ca  *x509.Certificate
	key *ecdsa.PrivateKey
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{t: t, dir: t.TempDir()}
	p.key, p.ca = p.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	return p
}

func (p *pki) sign(name string, tmpl *x509.Certificate, parent *pki) (*ecdsa.PrivateKey, *x509.Certificate) {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	tmpl.SerialNumber, tmpl.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	if tmpl.NotBefore.IsZero() {
		tmpl.NotBefore = time.Now().Add(-time.Hour)
	}
	if tmpl.NotAfter.IsZero() {
		tmpl.NotAfter = time.Now().Add(time.Hour)
	}
	by, signer := tmpl, key
	if parent != nil {
		by, signer = parent.ca, parent.key
	}
	b, err := x509.CreateCertificate(rand.Reader, tmpl, by, key.Public(), signer)
	if err != nil {
		p.t.Fatal(err)
	}
	p.pem(name+".pem", "CERTIFICATE", b, 0o644)
	if b, err = x509.MarshalPKCS8PrivateKey(key); err != nil {
		p.t.Fatal(err)
	}
	p.pem(name+".key", "PRIVATE KEY", b, 0o600)
	cert, err := x509.ParseCertificate(der(p.t, p.path(name+".pem")))
	if err != nil {
		p.t.Fatal(err)
	}
	return key, cert
}

// der reads a certificate back from its file.
func der(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(b)
	return block.Bytes
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) pem(name, kind string, der []byte, mode os.FileMode) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode); err != nil {
		p.t.Fatal(err)
	}
}

func both() []x509.ExtKeyUsage {
	return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
}

// files makes a node's certificate and returns its settings.
func (p *pki) files(name string, tmpl *x509.Certificate) secret.PKI {
	p.t.Helper()
	p.sign(name, tmpl, p)
	return secret.PKI{CA: p.path("ca.pem"), Cert: p.path(name + ".pem"), Key: p.path(name + ".key")}
}

func (p *pki) load(name string, tmpl *x509.Certificate) *secret.Trust {
	p.t.Helper()
	tr, err := p.files(name, tmpl).Load(name)
	if err != nil {
		p.t.Fatal(err)
	}
	return tr
}

func TestOwnCertificatesServeToo(t *testing.T) {
	p := newPKI(t)
	a := secret.NewTLSWrapper(p.load("a", &x509.Certificate{DNSNames: []string{"a"}, ExtKeyUsage: both()}))
	b := secret.NewTLSWrapper(p.load("b", &x509.Certificate{URIs: []*url.URL{{Scheme: "shardway", Host: "node", Path: "/b"}}, ExtKeyUsage: both()}))
	if _, s, cerr, serr := meet(t, dialing(a, "b"), b.Server); cerr != nil || serr != nil {
		t.Errorf("%v, %v", cerr, serr)
	} else if err := sealed(t, s).Vouch("a"); err != nil {
		t.Error(err)
	}
	if _, _, cerr, serr := meet(t, dialing(a, "c"), b.Server); cerr == nil || serr == nil {
		t.Errorf("another node than dialed: %v, %v", cerr, serr)
	}
	l := fresh()
	if _, _, cerr, serr := meet(t, dialing(a, "b"), seal(t, l, "b").Server); cerr == nil || serr == nil {
		t.Errorf("with a node of a secret: %v, %v", cerr, serr)
	}
}

func TestOwnCertificatesAreJudgedAtTheStart(t *testing.T) {
	p := newPKI(t)
	stranger := newPKI(t)
	good := p.files("good", &x509.Certificate{DNSNames: []string{"good"}, ExtKeyUsage: both()})
	open := p.files("open", &x509.Certificate{DNSNames: []string{"open"}, ExtKeyUsage: both()})
	if err := os.Chmod(open.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	for node, tt := range map[string]struct {
		files secret.PKI
		want  string
	}{
		"other":  {good, "needs the id as a DNS name"},
		"open":   {open, "can be read by others"},
		"past":   {p.files("past", &x509.Certificate{DNSNames: []string{"past"}, ExtKeyUsage: both(), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1e9, 0)}), "expired"},
		"server": {p.files("server", &x509.Certificate{DNSNames: []string{"server"}, ExtKeyUsage: both()[:1]}), "incompatible key usage"},
		"theirs": {secret.PKI{CA: stranger.path("ca.pem"), Cert: good.Cert, Key: good.Key}, "needs the id"},
		"good":   {secret.PKI{CA: stranger.path("ca.pem"), Cert: good.Cert, Key: good.Key}, "other nodes would not accept it"},
		"leaf":   {secret.PKI{CA: good.Cert, Cert: good.Cert, Key: good.Key}, "not a CA certificate"},
		"key":    {secret.PKI{CA: good.Key, Cert: good.Cert, Key: good.Key}, "only certificates"},
		"text":   {secret.PKI{CA: "tls_wrapper_test.go", Cert: good.Cert, Key: good.Key}, "not PEM"},
		"none":   {secret.PKI{CA: p.path("none"), Cert: good.Cert, Key: good.Key}, "no such file"},
	} {
		if _, err := tt.files.Load(node); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", node, err, tt.want)
		}
	}
}
