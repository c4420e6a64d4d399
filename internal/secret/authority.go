package secret

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

// nodeScheme and nodeHost begin the URI that identifies a node in a certificate:
// shardway://node/ID. A DNS name cannot represent every valid node id.
const (
	nodeScheme = "shardway"
	nodeHost   = "node"
)

// The validity period of all certificates derived from a secret, and the time at which they
// are verified. A secret is valid until it is replaced.
func validFrom() time.Time        { return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) }
func validUntil() time.Time       { return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) }
func verificationTime() time.Time { return time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC) }

// authority is the certificate authority (CA) of a secret, identical on every node.
type authority struct {
	cert *x509.Certificate
	key  ed25519.PrivateKey
}

// authority builds the CA of s. Ed25519 signatures are deterministic and the template sets
// every field, so all nodes produce the same bytes.
func (s Secret) authority() (*authority, error) {
	key := s.authorityKey()
	public := key.Public()
	name := pkix.Name{CommonName: "shardway " + s.Fingerprint()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: name, SubjectKeyId: keyID(key),
		NotBefore: validFrom(), NotAfter: validUntil(),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign, SignatureAlgorithm: x509.PureEd25519,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("secret: authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("secret: authority: %w", err)
	}
	return &authority{cert: cert, key: key}, nil
}

func keyID(key ed25519.PrivateKey) []byte {
	sum := sha256.Sum256(key[ed25519.SeedSize:]) // the public half
	return sum[:20]
}

// issueLeaf issues the certificate for one process start of a node. Its private key is
// never stored.
func (a *authority) issueLeaf(node string) (tls.Certificate, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("secret: certificate of node %q: %w", node, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("secret: certificate of node %q: %w", node, err)
	}
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)), Subject: pkix.Name{CommonName: node},
		URIs:      []*url.URL{{Scheme: nodeScheme, Host: nodeHost, Path: "/" + node}},
		NotBefore: validFrom(), NotAfter: validUntil(),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("secret: certificate of node %q: %w", node, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("secret: certificate of node %q: %w", node, err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: cert}, nil
}

// nodeIDs returns the node ids for which a certificate is valid: the ids of its
// shardway://node/ID URIs, and its DNS names, compared exactly. Only certificates of the
// operator's own PKI have DNS names.
func nodeIDs(cert *x509.Certificate) []string {
	var ids []string
	for _, uri := range cert.URIs {
		if uri.Scheme == nodeScheme && uri.Host == nodeHost && len(uri.Path) > 1 && uri.RawQuery == "" && uri.Fragment == "" {
			ids = append(ids, uri.Path[1:])
		}
	}
	return append(ids, cert.DNSNames...)
}
