package secret

import (
	"crypto/sha256"
	"crypto/tls"
	"reflect"
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
func (s *Seal) SetGrace(d time.Duration) { s.grace = d }

// OwnOf returns the certificate that a node shows.
func OwnOf(t *Trust) tls.Certificate { return t.own }

// Keeps returns how much memory the stream keeps to read with.
func Keeps(c *Conn) int {
	raw, record, hand := within.of(c.Conn)
	return raw.Cap() + int(record.Size()) + hand.Cap()
}

// KnowsReading reports whether the fields of such a connection are known.
func KnowsReading(conn reflect.Type) bool { return readingOf(conn).known }
