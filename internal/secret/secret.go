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
	// prefix begins every written secret: its version, and what scanners for
	// leaked credentials can look for.
	prefix = "sw1_"
	// sumSize is the length of the checksum behind the secret, against typing
	// and cutting errors. With it the base64 needs no padding.
	sumSize = 4
)

// Secret is one secret of a cluster. Its String is safe to log.
type Secret struct {
	key [Size]byte
	// made tells the newer of two apart; zero: unknown.
	made time.Time
	// rotated means that a rotation made it, so that it has passed streams which
	// the secret before it protects. One that a person made has not.
	rotated bool
}

// Generate returns a new random secret, made at the given time.
func Generate(made time.Time) Secret {
	s := Secret{made: made.UTC().Truncate(time.Second)}
	_, _ = rand.Read(s.key[:]) // never fails: crypto/rand ends the process instead
	return s
}

// Rotated returns s, marked as made by a rotation.
func (s Secret) Rotated() Secret {
	s.rotated = true
	return s
}

// ByRotation reports whether a rotation made s. No other secret is ever sent to
// a node.
func (s Secret) ByRotation() bool { return s.rotated }

// Made returns when the secret was made, to the second; the zero time if that
// is unknown.
func (s Secret) Made() time.Time { return s.made }

// maxClockSkew is how far ahead of a node's clock a secret may have been made.
const maxClockSkew = 24 * time.Hour

// Dated returns an error if s is said to be made in the future: it would count
// as the newest one until then.
func (s Secret) CheckDate(now time.Time) error {
	if s.made.After(now.Add(maxClockSkew)) {
		return fmt.Errorf("secret: %s is dated %s, and here it is %s: set the clock right, or made= in the files", s.Fingerprint(), s.made.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// Fingerprint names the secret without telling anything about it: 16 digits.
func (s Secret) Fingerprint() string { return hex.EncodeToString(s.derive(labelFingerprint, 8)) }

// String is the fingerprint: what a careless log line shows.
func (s Secret) String() string { return "secret " + s.Fingerprint() }

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// Equal reports whether both are the same secret, whenever made, in constant
// time.
func (s Secret) Equal(o Secret) bool { return subtle.ConstantTimeCompare(s.key[:], o.key[:]) == 1 }

// Line returns the secret as it stands in a file, without the line's end.
func (s Secret) Line() string {
	line := prefix + base64.RawURLEncoding.EncodeToString(append(s.key[:len(s.key):len(s.key)], s.sum()...))
	if !s.made.IsZero() {
		line += " " + madeField + s.made.Format(time.RFC3339)
	}
	if s.rotated {
		line += " " + rotatedField
	}
	return line
}

// What may stand behind a secret, in this order.
const (
	madeField    = "made="
	rotatedField = "by=rotate"
)

func (s Secret) sum() []byte {
	sum := sha256.Sum256(append([]byte("shardway secret checksum"), s.key[:]...))
	return sum[:sumSize]
}

var (
	errNoSecret = errors.New("not a secret: one begins with " + prefix + " and is made by `shardway keygen`")
	errDamaged  = errors.New("damaged: a character is missing or wrong; copy it again")
)

// ParseLine reads what Line wrote. Its errors do not repeat the text.
func ParseLine(line string) (Secret, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	text, ok := strings.CutPrefix(word, prefix)
	if !ok {
		return Secret{}, errNoSecret
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != Size+sumSize {
		return Secret{}, errDamaged
	}
	var s Secret
	copy(s.key[:], b)
	if subtle.ConstantTimeCompare(s.sum(), b[Size:]) == 0 {
		return Secret{}, errDamaged
	}
	if rest, s.rotated = strings.CutSuffix(strings.TrimSpace(rest), rotatedField); s.rotated {
		rest = strings.TrimSpace(rest)
	}
	if rest == "" {
		return s, nil
	}
	made, ok := strings.CutPrefix(rest, madeField)
	at, err := time.Parse(time.RFC3339, made)
	s.made = at.UTC().Truncate(time.Second)
	if !ok || err != nil || s.made.Year() < 1 || s.made.Year() > 9999 {
		return Secret{}, fmt.Errorf("what follows the secret is not %s and a time like 2026-01-31T12:00:00Z", madeField)
	}
	return s, nil
}
