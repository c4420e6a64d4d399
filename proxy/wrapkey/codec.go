package wrapkey

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"shardway/keysource"
)

// marker begins the suffix. All characters of the suffix are valid in a cookie value, in a header value
// and in a URL.
const marker = ".sw-"

// idLen and checksumLen are the lengths of the two parts of a suffix in bytes, before base64url.
const (
	idLen       = 16
	checksumLen = 16
)

// encodedLen is the length of the two parts in base64url.
const encodedLen = (8*(idLen+checksumLen) + 5) / 6

// SuffixLen is the length of every suffix in bytes.
const SuffixLen = len(marker) + encodedLen

// encoding rejects a second spelling of the same bytes.
var encoding = base64.RawURLEncoding.Strict()

// fixedKey is the HMAC key of a cluster without a secret. It is public, so it detects damaged suffixes
// but no forged ones.
const fixedKey = "shardway wrap: cluster without a secret"

// label separates the checksums of this package from all other uses of HMAC.
const label = "shardway wrap v1"

// ID is the id K in a suffix.
type ID [idLen]byte

// AppendKey appends the key of a request with this id: 32 hexadecimal digits, like all keys that
// Shardway creates.
func (id ID) AppendKey(dst []byte) []byte { return hex.AppendEncode(dst, id[:]) }

// ParseKey returns the id of a key that AppendKey has returned. ok is false for any other key.
func ParseKey(key []byte) (id ID, ok bool) {
	if len(key) != hex.EncodedLen(idLen) {
		return ID{}, false
	}
	_, err := hex.Decode(id[:], key)
	return id, err == nil
}

// Codec creates and verifies suffixes. A nil Codec uses the fixed key.
type Codec struct {
	keys func() [][]byte
}

// NewCodec returns a Codec that uses the HMAC keys of the cluster. The first key creates suffixes, and
// all keys verify them. keys is called for each request with a wrapped field, from any goroutine. If
// keys is nil or returns no key, the fixed key is used.
func NewCodec(keys func() [][]byte) *Codec { return &Codec{keys} }

// hmacKeys returns the HMAC keys, at least one.
func (c *Codec) hmacKeys() [][]byte {
	if c != nil && c.keys != nil {
		if keys := c.keys(); len(keys) > 0 {
			return keys
		}
	}
	return [][]byte{[]byte(fixedKey)}
}

// checksum returns the checksum of id and value for a field. All parts before value have a fixed length or
// a length prefix, so no two inputs have the same bytes.
func checksum(hmacKey []byte, field *Field, id ID, value []byte) [checksumLen]byte {
	mac := hmac.New(sha256.New, hmacKey)
	header := make([]byte, 0, 64)
	header = append(header, label...)
	header = append(header, byte(field.kind), byte(len(field.name)>>8), byte(len(field.name)))
	header = append(header, field.name...)
	header = append(header, id[:]...)
	_, _ = mac.Write(header)
	_, _ = mac.Write(value)
	return [checksumLen]byte(mac.Sum(nil))
}

// AppendSuffix appends the suffix for a value of the field.
func (c *Codec) AppendSuffix(dst []byte, field *Field, id ID, value []byte) []byte {
	sum := checksum(c.hmacKeys()[0], field, id, value)
	dst = append(dst, marker...)
	return encoding.AppendEncode(dst, append(id[:], sum[:]...))
}

// Split splits text into the value of the field and the id in its suffix. ok is false if text has no valid
// suffix, or nothing before it.
func (c *Codec) Split(field *Field, text []byte) (value []byte, id ID, ok bool) {
	valueLen := len(text) - SuffixLen
	if valueLen <= 0 || string(text[valueLen:valueLen+len(marker)]) != marker {
		return nil, ID{}, false
	}
	var parts [idLen + checksumLen]byte
	// Decode skips line breaks, so n may be smaller.
	if n, err := encoding.Decode(parts[:], text[valueLen+len(marker):]); err != nil || n != len(parts) {
		return nil, ID{}, false
	}
	value, id = text[:valueLen:valueLen], ID(parts[:idLen])
	for _, hmacKey := range c.hmacKeys() {
		sum := checksum(hmacKey, field, id, value)
		if hmac.Equal(sum[:], parts[idLen:]) {
			return value, id, true
		}
	}
	return nil, ID{}, false
}

// Field is a wrapped header or cookie.
type Field struct {
	kind keysource.Kind // Header or Cookie
	name string         // for a header, in lower case
}
