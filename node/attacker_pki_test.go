package node_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/internal/secret"
	"shardway/node"
	"shardway/peer"
)

// authority is a certificate authority as a user operates it: it signs certificates for nodes.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func (a *authority) issue(name string, tmpl *x509.Certificate) {
	a.t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	tmpl.SerialNumber, tmpl.Subject = big.NewInt(1), pkix.Name{CommonName: name}
	tmpl.NotBefore, tmpl.NotAfter = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	if a.cert == nil {
		a.cert, a.key = tmpl, key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(a.dir, path), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
}

func (a *authority) seal(name string) *secret.TLSWrapper {
	a.t.Helper()
	path := func(s string) string { return filepath.Join(a.dir, s) }
	if _, err := os.Stat(path(name + ".key")); err != nil {
		a.issue(name, &x509.Certificate{
			DNSNames: []string{name}, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		})
	}
	trust, err := secret.PKI{CA: path("ca.pem"), Cert: path(name + ".pem"), Key: path(name + ".key")}.Load(name)
	if err != nil {
		a.t.Fatal(err)
	}
	return secret.NewTLSWrapper(trust)
}

// certified runs f in a world whose nodes share one secret for gossip and use certificates of an external authority.
func certified(t *testing.T, f func(w *world, v *vault, a *authority)) {
	t.Helper()
	a := newAuthority(t)
	sealed(t, func(w *world, v *vault) {
		arm := w.tune
		w.tune = func(o *node.Options) {
			arm(o)
			s := a.seal(o.Dir.Node())
			o.WrapClient, o.WrapServer = s.Client, s.Server
		}
		f(w, v, a)
	})
}

// An attacker has the key of one node, but not the secret. The attacker sends every request, and then responds in place of that node. Once,
// the key alone was enough to read, replace and retire the secret.
func TestKeyOfANodeIsNoSecret(t *testing.T) {
	certified(t, func(w *world, v *vault, a *authority) {
		t := w.t
		v.three()
		old := v.files["a"].List()[0]
		own := secret.Generate(time.Unix(9.3e8, 0)).Rotated()
		stolen := w.follower()
		th := &attacker{w: w, host: w.net.Host("thief"), has: secret.List{own}, seal: a.seal(stolen.name)}
		for _, p := range w.running() {
			if p == stolen {
				continue
			}
			if done := th.everything(stolen.name, p, own, old, own); len(done) > 0 {
				t.Errorf("%s takes from a key alone: %v", p.name, done)
			}
			if err := th.as(stolen.name, p, "secret", map[string]any{"do": "show"}); err == nil {
				t.Errorf("%s tells a key alone which secrets there are", p.name)
			}
		}
		for name, k := range v.files {
			if !k.List().Equal(secret.List{old}) {
				t.Errorf("%s has %v", name, k.List())
			}
		}
		if r, err := w.leader().node.Rotate(t.Context(), "the test"); err != nil || len(r.Nodes) != 3 {
			t.Errorf("Rotate = %+v, %v, want it to work with certificates too", r, err)
		}

		stolen.kill()
		w.untilSettled(w.others(stolen)...)
		heard := impostor(t, stolen, th.seal, nil, map[string]any{"held": []secret.Summary{{Fingerprint: old.Fingerprint(), Made: old.Made()}}})
		_, err := w.leader().node.Rotate(t.Context(), "the test")
		if !errors.Is(err, api.ErrRefused) || !strings.Contains(err.Error(), `node "`+stolen.name+`" is missing`) || !strings.Contains(err.Error(), "shows none of the secrets") {
			t.Errorf("Rotate = %v, want it to name %s and why", err, stolen.name)
		}
		select {
		case q := <-heard:
			if !strings.Contains(q, "secret") {
				t.Errorf("the impostor was asked %s", q)
			}
		default:
			t.Error("the impostor was not asked: the test shows nothing")
		}
	})
}

// impostor listens at the address of a dead node and answers each request with words, and with the evidence that it has. It returns a
// channel of the questions that it received.
func impostor(t *testing.T, p *process, s *secret.TLSWrapper, has secret.List, words any) <-chan string {
	t.Helper()
	heard := make(chan string, 64)
	host := p.host.Restart()
	ln, err := host.Listen(":7947")
	if err != nil {
		t.Fatal(err)
	}
	port := peer.New(peer.Options{Node: p.name, WrapServer: s.Server})
	port.Handle(peer.Control, func(_ context.Context, c *peer.Conn) {
		defer func() { _ = c.Close() }()
		b, err := peer.ReadFrame(c, nil, 1<<20)
		if err != nil {
			return
		}
		select {
		case heard <- string(b):
		default:
		}
		var q struct{ What string }
		_ = json.Unmarshal(b, &q)
		body, _ := json.Marshal(words)
		var binding []byte
		if sealed, ok := c.NetConn().(*secret.Conn); ok {
			binding, _ = sealed.Binding()
		}
		b, _ = json.Marshal(map[string]any{"value": map[string]any{"body": body, "proofs": has.Prove(binding, "answer "+q.What, body)}})
		_ = peer.WriteFrame(c, b)
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- port.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return heard
}
