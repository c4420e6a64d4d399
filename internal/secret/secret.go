package secret

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// Size is the length of a secret in bytes.
	Size = 32
	// prefix begins every written secret. It is the format version, and scanners for leaked
	// credentials can search for it.
	prefix = "sw1_"
	// checksumSize is the length of the checksum after the secret. The checksum detects typing
	// errors and truncation. With 4 bytes the base64 text needs no padding.
	checksumSize = 4
)

// Secret is one secret of a cluster. Its String method is safe to log.
type Secret struct {
	key [Size]byte
	// createdAt orders secrets by age. The zero time means unknown.
	createdAt time.Time
	// fromRotation is set if a rotation created the secret, which was then sent over streams
	// protected by its predecessor. A secret created by an operator is never sent.
	fromRotation bool
}

// Generate returns a new random secret with the given creation time.
func Generate(createdAt time.Time) Secret {
	s := Secret{createdAt: createdAt.UTC().Truncate(time.Second)}
	_, _ = rand.Read(s.key[:]) // never fails: crypto/rand crashes the process instead
	return s
}

// Rotated returns a copy of s that is marked as created by a rotation.
func (s Secret) Rotated() Secret {
	s.fromRotation = true
	return s
}

// ByRotation reports whether a rotation created s. No other secret is ever sent to a node.
func (s Secret) ByRotation() bool { return s.fromRotation }

// Made returns the creation time, truncated to seconds. The zero time means unknown.
func (s Secret) Made() time.Time { return s.createdAt }

// maxClockSkew is how far the creation time of a secret may lie ahead of the clock of this
// node.
const maxClockSkew = 24 * time.Hour

// CheckDate returns an error if the creation time of s lies in the future. Such a secret
// would count as the newest one until that time.
func (s Secret) CheckDate(now time.Time) error {
	if s.createdAt.After(now.Add(maxClockSkew)) {
		return fmt.Errorf("secret: %s is dated %s, but the clock of this node shows %s: correct the clock, or made= in the secret files", s.Fingerprint(), s.createdAt.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// Fingerprint identifies the secret by 16 hexadecimal digits that reveal nothing about it.
func (s Secret) Fingerprint() string { return hex.EncodeToString(s.derive(labelFingerprint, 8)) }

// String contains the fingerprint only, so that a careless log line reveals nothing.
func (s Secret) String() string { return "secret " + s.Fingerprint() }

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// Equal reports, in constant time, whether both have the same key. The creation times are
// ignored.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare(s.key[:], other.key[:]) == 1
}

// Line returns the secret as a line of a secret file, without the newline.
func (s Secret) Line() string {
	line := prefix + base64.RawURLEncoding.EncodeToString(append(s.key[:len(s.key):len(s.key)], s.checksum()...))
	if !s.createdAt.IsZero() {
		line += " " + madeField + s.createdAt.Format(time.RFC3339)
	}
	if s.fromRotation {
		line += " " + rotatedField
	}
	return line
}

// Optional fields after a secret, in this order.
const (
	madeField    = "made="
	rotatedField = "by=rotate"
)

func (s Secret) checksum() []byte {
	sum := sha256.Sum256(append([]byte("shardway secret checksum"), s.key[:]...))
	return sum[:checksumSize]
}

var (
	errNoSecret = errors.New("not a secret: a secret begins with " + prefix + "; create one with `shardway keygen`")
	errDamaged  = errors.New("damaged: a character is missing or wrong; copy it again")
)

// ParseLine parses the output of Line. Its errors never contain the text.
func ParseLine(line string) (Secret, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	text, ok := strings.CutPrefix(word, prefix)
	if !ok {
		return Secret{}, errNoSecret
	}
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(decoded) != Size+checksumSize {
		return Secret{}, errDamaged
	}
	var secret Secret
	copy(secret.key[:], decoded)
	if subtle.ConstantTimeCompare(secret.checksum(), decoded[Size:]) == 0 {
		return Secret{}, errDamaged
	}
	if rest, secret.fromRotation = strings.CutSuffix(strings.TrimSpace(rest), rotatedField); secret.fromRotation {
		rest = strings.TrimSpace(rest)
	}
	if rest == "" {
		return secret, nil
	}
	made, ok := strings.CutPrefix(rest, madeField)
	madeAt, err := time.Parse(time.RFC3339, made)
	secret.createdAt = madeAt.UTC().Truncate(time.Second)
	if !ok || err != nil || secret.createdAt.Year() < 1 || secret.createdAt.Year() > 9999 {
		return Secret{}, fmt.Errorf("the text after the secret must be %s and a time like 2026-01-31T12:00:00Z", madeField)
	}
	return secret, nil
}
