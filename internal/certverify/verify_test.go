package certverify_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/internal/certverify"
)

// issuer is a certificate authority: a root or an intermediate.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

var serial int64

// issue returns a certificate signed by the issuer, or a self-signed root if the issuer is
// nil.
func (by *issuer) issue(t *testing.T, name string, authority bool) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial++
	now := time.Now()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), BasicConstraintsValid: true, IsCA: authority,
	}
	if authority {
		tmpl.KeyUsage = x509.KeyUsageCertSign
	} else {
		tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	parent, signs := tmpl, key
	if by != nil {
		parent, signs = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, &key.PublicKey, signs)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{cert, key}
}

func options(root *issuer) x509.VerifyOptions {
	roots := x509.NewCertPool()
	roots.AddCert(root.cert)
	return x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
}

func TestVerifyFindsChainThroughIntermediates(t *testing.T) {
	root := (*issuer)(nil).issue(t, "root", true)
	one := root.issue(t, "one", true)
	two := one.issue(t, "two", true)
	three := two.issue(t, "three", true)
	leaf := three.issue(t, "leaf", false)
	unrelated := (*issuer)(nil).issue(t, "two", true) // another CA with the same name
	for name, shown := range map[string][]*issuer{
		"in order":         {leaf, three, two, one},
		"in another order": {leaf, one, three, two},
		"with the root":    {leaf, three, two, one, root},
		"among others":     {leaf, unrelated, three, unrelated, two, one},
	} {
		certs := make([]*x509.Certificate, len(shown))
		for i, x := range shown {
			certs[i] = x.cert
		}
		chains, err := certverify.Verify(certs, options(root))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := chains[0]; len(got) != 5 || !got[4].Equal(root.cert) {
			t.Errorf("%s: chain of %d certificates", name, len(got))
		}
	}
	late := options(root)
	late.CurrentTime = time.Now().Add(2 * time.Hour)
	for name, x := range map[string]struct {
		shown []*x509.Certificate
		o     x509.VerifyOptions
	}{
		"one is missing":  {[]*x509.Certificate{leaf.cert, three.cert, one.cert}, options(root)},
		"of another root": {[]*x509.Certificate{unrelated.issue(t, "leaf", false).cert, unrelated.cert, one.cert}, options(root)},
		"too late":        {[]*x509.Certificate{leaf.cert, three.cert, two.cert, one.cert}, late},
	} {
		if _, err := certverify.Verify(x.shown, x.o); err == nil {
			t.Errorf("%s: Verify succeeded", name)
		}
	}
}

// A peer can send a hundred certificates with the same issuer name. If Verify tried each
// key, one connection could cost 160 ms, and on the admin port every request again.
func TestKeysOfUnrelatedIssuersAreNotUsed(t *testing.T) {
	root := (*issuer)(nil).issue(t, "root", true)
	unrelated := (*issuer)(nil).issue(t, "them", true)
	shown := []*x509.Certificate{unrelated.issue(t, "leaf", false).cert}
	for range 20 {
		shown = append(shown, (*issuer)(nil).issue(t, "them", true).cert)
	}
	_, err := certverify.Verify(shown, options(root))
	if err == nil {
		t.Fatal("Verify succeeded")
	}
	if strings.Contains(err.Error(), "candidate") { // crypto/x509 reports this after it has verified a signature
		t.Errorf("Verify used an unrelated key: %v", err)
	}
	if _, err = certverify.Verify(slices.Insert(shown, 1, unrelated.cert), options(root)); err == nil || strings.Contains(err.Error(), "candidate") {
		t.Errorf("with the unrelated issuer among the certificates: %v", err)
	}
}
