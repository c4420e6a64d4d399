//go:build linux

package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/e2e/kit/cluster"
	"shardway/e2e/kit/history"
)

// authority issues certificates for nodes.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

// issue writes a certificate for a node and its key into one file, so that both change at
// once.
func (a *authority) issue(t *testing.T, path, node string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "whatever"}, DNSNames: []string{node, node + ".example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	replaceFile(t, path, append(pemBlock("CERTIFICATE", der), pemBlock("PRIVATE KEY", private)...))
}

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func replaceFile(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", b, 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// TestOwnCertificatesAreReplacedUnderLoad runs nodes with certificates of an own
// authority, and replaces the authority as an operator would: accept both, issue new
// certificates, accept only the new authority.
func TestOwnCertificatesAreReplacedUnderLoad(t *testing.T) {
	t.Parallel() // it waits for certificates to be read again most of the time
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	file := func(node string) string { return filepath.Join(dir, node+".pem") }
	c := cluster.New(t, cluster.Options{Binaries: binaries(t), Shards: shards})
	old, next := newAuthority(t, "old"), newAuthority(t, "new")
	replaceFile(t, ca, pemBlock("CERTIFICATE", old.cert.Raw))
	for _, node := range []string{"a", "b", "c"} {
		old.issue(t, file(node), node)
		c.Prepare(t, "--bootstrap-expect", "3", "--tls-ca", ca, "--tls-node-cert", file(node), "--tls-node-key", file(node))
	}
	c.AddJoinFlags()
	for _, n := range c.Nodes() {
		n.Start(t)
	}
	startedAt, before := history.Now(), c.AwaitServing(t)
	taken := 0
	// step waits until every node has loaded one more change.
	step := func(what string) {
		t.Helper()
		taken++
		cluster.Await(t, what, func() error {
			for _, n := range c.Nodes() {
				if got := strings.Count(n.Process().Output(1<<20), "changed file loaded"); got < taken {
					return errors.New("node " + n.ID + " has not taken it")
				}
			}
			return nil
		})
	}
	traffic := c.Load(t, c.Running(), cluster.Traffic{Rate: 300})
	traffic.AwaitStarted(t, 300)
	replaceFile(t, ca, append(pemBlock("CERTIFICATE", old.cert.Raw), pemBlock("CERTIFICATE", next.cert.Raw)...))
	step("both authorities are accepted")
	for _, node := range []string{"a", "b", "c"} {
		next.issue(t, file(node), node)
	}
	step("certificates of the new one are shown")
	replaceFile(t, ca, pemBlock("CERTIFICATE", next.cert.Raw))
	step("the old one is not accepted any more")
	traffic.AwaitStarted(t, 600)
	traffic.Finish(t)
	wantSame(t, c, startedAt, before, c.AwaitServing(t))
	// A certificate of the old authority, for a known node, is no longer accepted.
	c.Node("b").Stop(t)
	old.issue(t, file("b"), "b")
	code, err := func() (int, error) {
		c.Node("b").Start(t)
		return c.Node("b").Process().Wait(cluster.AwaitTimeout)
	}()
	if err != nil || code != 1 || !strings.Contains(c.Node("b").Process().Output(1<<20), "other nodes would not accept it") {
		t.Errorf("exit %d, %v", code, err)
	}
}
