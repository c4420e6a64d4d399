package secret

import (
	"crypto/sha256"
	"crypto/tls"
	"testing"
	"time"
)

// AuthorityDigest returns the hash of the CA certificate of a secret.
func AuthorityDigest(t *testing.T, s Secret) [sha256.Size]byte {
	t.Helper()
	a, err := s.authority()
	if err != nil {
		t.Fatal(err)
	}
	return rootOf(a.cert)
}

// SetGrace sets how long streams stay open after their authority is no longer accepted.
func (w *TLSWrapper) SetGrace(d time.Duration) { w.grace = d }

// CertificateOf returns the certificate that a node presents.
func CertificateOf(t *Trust) tls.Certificate { return t.cert }
