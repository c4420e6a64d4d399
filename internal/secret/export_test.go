package secret

import (
	"crypto/sha256"
	"crypto/tls"
	"testing"
	"time"
)

// AuthorityDigest hashes the certificate of a secret's authority.
func AuthorityDigest(t *testing.T, s Secret) [sha256.Size]byte {
	t.Helper()
	a, err := s.authority()
	if err != nil {
		t.Fatal(err)
	}
	return rootOf(a.cert)
}

// SetGrace shortens the life of streams that nobody vouches for any more.
func (s *TLSWrapper) SetGrace(d time.Duration) { s.grace = d }

// OwnOf returns the certificate that a node shows.
func OwnOf(t *Trust) tls.Certificate { return t.cert }
