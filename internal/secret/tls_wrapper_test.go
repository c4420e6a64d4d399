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

// wrapFunc performs one side of a handshake.
type wrapFunc func(ctx context.Context, c net.Conn) (net.Conn, error)

// connect performs a handshake over a TCP connection, exchanges one byte in each direction
// and returns the streams and errors of both sides.
func connect(t *testing.T, client, server wrapFunc) (c, s net.Conn, clientErr, serverErr error) {
	t.Helper()
	return withRedial(func() (c, s net.Conn, clientErr, serverErr error) { return connectOnce(t, client, server) })
}

// withRedial connects again if the error of the client asks for that, as package peer does.
func withRedial(once func() (c, s net.Conn, clientErr, serverErr error)) (c, s net.Conn, clientErr, serverErr error) {
	c, s, clientErr, serverErr = once()
	if e, ok := errors.AsType[interface {
		error
		DialAgain() bool
	}](clientErr); ok && e.DialAgain() {
		return once()
	}
	return c, s, clientErr, serverErr
}

func connectOnce(t *testing.T, client, server wrapFunc) (c, s net.Conn, clientErr, serverErr error) {
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
		if raw, serverErr = ln.Accept(); serverErr != nil {
			return
		}
		t.Cleanup(func() { _ = raw.Close() })
		_ = raw.SetDeadline(time.Now().Add(30 * time.Second))
		if s, serverErr = server(ctx, raw); serverErr == nil {
			serverErr = exchangeByte(s)
		}
		if serverErr != nil {
			_ = raw.Close()
		}
	}()
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(30 * time.Second))
	if c, clientErr = client(ctx, raw); clientErr == nil {
		clientErr = exchangeByte(c)
	}
	if clientErr != nil {
		_ = raw.Close()
	}
	<-done
	return c, s, clientErr, serverErr
}

func secretConn(t *testing.T, c net.Conn) *secret.Conn {
	t.Helper()
	s, ok := c.(*secret.Conn)
	if !ok {
		t.Fatalf("the stream is a %T", c)
	}
	return s
}

func exchangeByte(c net.Conn) error {
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func dialTo(s *secret.TLSWrapper, node string) wrapFunc {
	return func(ctx context.Context, c net.Conn) (net.Conn, error) { return s.Client(ctx, c, node) }
}

func accept(s *secret.TLSWrapper) wrapFunc { return s.Server }

// plainTLS dials with the given TLS configuration instead of a TLSWrapper.
func plainTLS(config *tls.Config) wrapFunc {
	return func(ctx context.Context, c net.Conn) (net.Conn, error) {
		tc := tls.Client(c, config)
		return tc, tc.HandshakeContext(ctx)
	}
}

func newWrapper(t *testing.T, l secret.List, node string) *secret.TLSWrapper {
	t.Helper()
	return secret.NewTLSWrapper(derive(t, l, node))
}

func derive(t *testing.T, l secret.List, node string) *secret.Trust {
	t.Helper()
	tr, err := secret.Derive(l, node)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func newList() secret.List { return secret.List{secret.Generate(time.Now())} }

func TestNodesWithSameSecretConnect(t *testing.T) {
	l := newList()
	// Ids that are not valid host names, and one that looks like an address.
	for _, id := range []string{"b", "B_1..x", "10.0.0.1", strings.Repeat("n", 64)} {
		c, s, clientErr, serverErr := connect(t, dialTo(newWrapper(t, l, "a"), id), accept(newWrapper(t, l, id)))
		if clientErr != nil || serverErr != nil {
			t.Fatalf("%s: client %v, server %v", id, clientErr, serverErr)
		}
		v, ok := s.(interface{ VerifyNode(string) error })
		if !ok || v.VerifyNode("a") != nil {
			t.Errorf("%s: the server does not identify the dialer as node a", id)
		}
		if err := v.VerifyNode(id); err == nil || !strings.Contains(err.Error(), `good for node "a" and not for node`) {
			t.Errorf("%s: VerifyNode for another node = %v", id, err)
		}
		if got := secretConn(t, s).ConnectionState(); got.Version != tls.VersionTLS13 || got.DidResume {
			t.Errorf("version %x, resumed %v", got.Version, got.DidResume)
		}
		if sc, ok := c.(syscall.Conn); !ok {
			t.Error("the stream has no SyscallConn")
		} else if _, err := sc.SyscallConn(); err != nil {
			t.Errorf("SyscallConn = %v", err)
		}
	}
}

// Every invalid handshake fails, and each side gets an error that explains the cause.
func TestHandshakeRefusesUntrustedPeers(t *testing.T) {
	l, other := newList(), newList()
	own := derive(t, l, "a")
	good := tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{secret.ALPN}, Certificates: []tls.Certificate{secret.CertificateOf(own)}}
	with := func(f func(*tls.Config)) wrapFunc {
		c := good.Clone()
		f(c)
		return plainTLS(c)
	}
	if _, _, clientErr, serverErr := connect(t, with(func(*tls.Config) {}), accept(newWrapper(t, l, "b"))); clientErr != nil || serverErr != nil {
		t.Fatalf("valid handshake failed: %v, %v", clientErr, serverErr)
	}
	foreign := derive(t, other, "a")
	for name, tt := range map[string]struct {
		client, server wrapFunc
		wantClient     string
		wantServer     string
	}{
		"no certificate": {with(func(c *tls.Config) { c.Certificates = nil }), accept(newWrapper(t, l, "b")), "", "didn't provide a certificate"},
		"another cluster's client": {
			with(func(c *tls.Config) { c.Certificates = []tls.Certificate{secret.CertificateOf(foreign)} }), accept(newWrapper(t, l, "b")),
			"", "same secret (--secret-file)",
		},
		"another cluster's server": {dialTo(newWrapper(t, l, "a"), "b"), accept(newWrapper(t, other, "b")), "same secret (--secret-file)", ""},
		"another node than dialed": {dialTo(newWrapper(t, l, "a"), "b"), accept(newWrapper(t, l, "c")), `good for node "c" and not for node "b"`, ""},
		"no ALPN":                  {with(func(c *tls.Config) { c.NextProtos = nil }), accept(newWrapper(t, l, "b")), "", "does not name the protocol"},
		"another ALPN":             {with(func(c *tls.Config) { c.NextProtos = []string{"h2"} }), accept(newWrapper(t, l, "b")), "", "protocol"},
		"TLS 1.2": {
			with(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }), accept(newWrapper(t, l, "b")),
			"", "version",
		},
		"a server without ALPN": {
			dialTo(newWrapper(t, l, "a"), "b"), func(ctx context.Context, c net.Conn) (net.Conn, error) {
				tc := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{secret.CertificateOf(derive(t, l, "b"))}})
				return tc, tc.HandshakeContext(ctx)
			}, "does not name the protocol", "",
		},
	} {
		_, _, clientErr, serverErr := connect(t, tt.client, tt.server)
		if clientErr == nil || !strings.Contains(clientErr.Error(), tt.wantClient) {
			t.Errorf("%s: client error %v, want one with %q", name, clientErr, tt.wantClient)
		}
		if serverErr == nil || !strings.Contains(serverErr.Error(), tt.wantServer) {
			t.Errorf("%s: server error %v, want one with %q", name, serverErr, tt.wantServer)
		}
	}
}

func TestRefusedDialerGetsReason(t *testing.T) {
	// b accepts a's secret no more, a accepts b's: only b refuses.
	old, next := secret.Generate(time.Now()), secret.Generate(time.Now())
	// b no longer accepts the secret that a uses, but a accepts that of b: only b rejects.
	_, _, clientErr, serverErr := connect(t, dialTo(newWrapper(t, secret.List{old, next}, "a"), "b"), accept(newWrapper(t, secret.List{next}, "b")))
	if clientErr == nil || !strings.Contains(clientErr.Error(), "the other node refused this one's certificate") {
		t.Errorf("client error %v", clientErr)
	}
	if serverErr == nil || !strings.Contains(serverErr.Error(), `node "a"`) {
		t.Errorf("server error %v", serverErr)
	}
}

// Replaying all recorded bytes of a client must fail, because both sides use new keys each
// time.
func TestReplayedHandshakeIsRefused(t *testing.T) {
	l := newList()
	var sent recording
	client := func(ctx context.Context, c net.Conn) (net.Conn, error) {
		return newWrapper(t, l, "a").Client(ctx, &tap{Conn: c, to: &sent}, "b")
	}
	server := newWrapper(t, l, "b")
	if _, _, clientErr, serverErr := connect(t, client, server.Server); clientErr != nil || serverErr != nil {
		t.Fatal(clientErr, serverErr)
	}
	replay := func(_ context.Context, c net.Conn) (net.Conn, error) {
		_, err := c.Write(sent.b)
		return c, err
	}
	var got atomic.Int64
	_, _, _, serverErr := connect(t, replay, func(ctx context.Context, c net.Conn) (net.Conn, error) {
		s, err := server.Server(ctx, c)
		if err == nil {
			got.Add(1)
		}
		return s, err
	})
	if serverErr == nil || got.Load() != 0 {
		t.Errorf("the replay was accepted: %v", serverErr)
	}
}

type recording struct{ b []byte }

// tap records all written bytes.
type tap struct {
	net.Conn
	to *recording
}

func (c *tap) Write(p []byte) (int, error) {
	c.to.b = append(c.to.b, p...)
	return c.Conn.Write(p)
}

// During a rotation nodes differ by at most one step. All such pairs of nodes must be able
// to connect.
func TestNodesOfAdjacentRotationStepsConnect(t *testing.T) {
	old, next := secret.Generate(time.Now()), secret.Generate(time.Now())
	steps := []secret.List{{old}, {old, next}, {next, old}, {next}}
	for i, a := range steps {
		for k, b := range steps {
			_, _, clientErr, serverErr := connect(t, dialTo(newWrapper(t, a, "a"), "b"), accept(newWrapper(t, b, "b")))
			adjacent := i-k <= 1 && k-i <= 1
			if ok := clientErr == nil && serverErr == nil; ok != adjacent {
				t.Errorf("step %d with step %d: %v, %v; want ok = %v", i, k, clientErr, serverErr, adjacent)
			}
		}
	}
}

func TestStreamsOfRetiredSecretAreClosed(t *testing.T) {
	old, next := secret.Generate(time.Now()), secret.Generate(time.Now())
	both := secret.List{next, old}
	a, b := newWrapper(t, secret.List{old}, "a"), newWrapper(t, secret.List{old}, "b")
	b.SetGrace(time.Millisecond)
	_, s, clientErr, serverErr := connect(t, dialTo(a, "b"), b.Server)
	if clientErr != nil || serverErr != nil {
		t.Fatal(clientErr, serverErr)
	}
	b.Replace(derive(t, both, "b"))
	a.Replace(derive(t, both, "a"))
	_, kept, clientErr, serverErr := connect(t, dialTo(a, "b"), b.Server)
	if clientErr != nil || serverErr != nil {
		t.Fatal(clientErr, serverErr)
	}
	b.Replace(derive(t, secret.List{next}, "b"))
	_ = s.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("stream of the retired secret: %v, want it closed", err)
	}
	_ = kept.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := kept.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("stream of the new secret: %v, want it open", err)
	}
}

// pki is a certificate authority whose files are in a temporary directory.
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

// der reads the first PEM block of a file.
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

func clientAndServer() []x509.ExtKeyUsage {
	return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
}

// files issues a certificate for a node and returns the settings that refer to it.
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

func TestNodesWithOwnCertificatesConnect(t *testing.T) {
	p := newPKI(t)
	a := secret.NewTLSWrapper(p.load("a", &x509.Certificate{DNSNames: []string{"a"}, ExtKeyUsage: clientAndServer()}))
	b := secret.NewTLSWrapper(p.load("b", &x509.Certificate{URIs: []*url.URL{{Scheme: "shardway", Host: "node", Path: "/b"}}, ExtKeyUsage: clientAndServer()}))
	if _, s, clientErr, serverErr := connect(t, dialTo(a, "b"), b.Server); clientErr != nil || serverErr != nil {
		t.Errorf("%v, %v", clientErr, serverErr)
	} else if err := secretConn(t, s).VerifyNode("a"); err != nil {
		t.Error(err)
	}
	if _, _, clientErr, serverErr := connect(t, dialTo(a, "c"), b.Server); clientErr == nil || serverErr == nil {
		t.Errorf("dialing node c reached node b: %v, %v", clientErr, serverErr)
	}
	l := newList()
	if _, _, clientErr, serverErr := connect(t, dialTo(a, "b"), newWrapper(t, l, "b").Server); clientErr == nil || serverErr == nil {
		t.Errorf("connected to a node that uses a secret: %v, %v", clientErr, serverErr)
	}
}

func TestLoadRefusesInvalidCertificates(t *testing.T) {
	p := newPKI(t)
	other := newPKI(t)
	good := p.files("good", &x509.Certificate{DNSNames: []string{"good"}, ExtKeyUsage: clientAndServer()})
	open := p.files("open", &x509.Certificate{DNSNames: []string{"open"}, ExtKeyUsage: clientAndServer()})
	if err := os.Chmod(open.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	for node, tt := range map[string]struct {
		files secret.PKI
		want  string
	}{
		"other":  {good, "add the id"},
		"open":   {open, "can be read by others"},
		"past":   {p.files("past", &x509.Certificate{DNSNames: []string{"past"}, ExtKeyUsage: clientAndServer(), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1e9, 0)}), "expired"},
		"server": {p.files("server", &x509.Certificate{DNSNames: []string{"server"}, ExtKeyUsage: clientAndServer()[:1]}), "incompatible key usage"},
		"theirs": {secret.PKI{CA: other.path("ca.pem"), Cert: good.Cert, Key: good.Key}, "add the id"},
		"good":   {secret.PKI{CA: other.path("ca.pem"), Cert: good.Cert, Key: good.Key}, "other nodes would not accept it"},
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
