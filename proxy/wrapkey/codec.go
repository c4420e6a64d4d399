package wrapkey

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"shardway/keysource"
)

// marker begins the suffix with a key that Shardway has created, and namedMarker the suffix with a key that the app
// has named. All characters of a suffix are valid in a cookie value, in a header value and in a URL. Base64url
// contains no period, so a suffix begins at the last one.
const (
	marker      = ".sw-"
	namedMarker = ".sn-"
)

// idLen and checksumLen are the lengths of the two parts of a suffix with a created key in bytes, before base64url.
const (
	idLen       = 16
	checksumLen = 16
)

// maxNamedKey is the maximum length of a named key in a suffix, in bytes.
const maxNamedKey = 255

// SuffixLen is the length of a suffix with a created key in bytes.
const SuffixLen = len(marker) + (8*(idLen+checksumLen)+5)/6

// encoding rejects a second spelling of the same bytes.
var encoding = base64.RawURLEncoding.Strict()

// fixedKey is the HMAC key of a cluster without a secret. It is public, so it detects damaged suffixes but not
// forged ones.
const fixedKey = "shardway wrap: cluster without a secret"

// The labels separate the uses of the HMAC keys from each other, and from all other uses of HMAC.
const (
	label           = "shardway wrap v1"
	namedLabel      = "shardway wrap named v1"
	encryptionLabel = "shardway wrap encryption v1"
)

// ID is the id K in a suffix with a created key.
type ID [idLen]byte

// AppendKey appends the key for this ID: 32 hexadecimal digits, like all keys that Shardway creates.
func (id ID) AppendKey(dst []byte) []byte { return hex.AppendEncode(dst, id[:]) }

// ParseKey is the inverse of AppendKey. ok is false for a key of any other form.
func ParseKey(key []byte) (id ID, ok bool) {
	if len(key) != hex.EncodedLen(idLen) {
		return ID{}, false
	}
	if _, err := hex.Decode(id[:], key); err != nil {
		return ID{}, false
	}
	isLowerCase := bytes.Equal(id.AppendKey(make([]byte, 0, hex.EncodedLen(idLen))), key)
	return id, isLowerCase
}

// Codec creates and verifies suffixes. A nil Codec uses the fixed key.
type Codec struct {
	keys func() [][]byte
}

// NewCodec returns a Codec that uses the HMAC keys of the cluster. The first key creates suffixes, and all keys
// verify them. keys is called for each request with a wrapped field, from any goroutine. If keys is nil or returns
// none, the fixed key is used.
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

// checksum returns the checksum of value and id for a field. id is the id of a created key, or the length of a
// named key and the key. All parts before value have a fixed length or a length prefix, so no two inputs have
// the same bytes.
func checksum(hmacKey []byte, label string, field *Field, id, value []byte) [checksumLen]byte {
	mac := hmac.New(sha256.New, hmacKey)
	header := make([]byte, 0, 64)
	header = append(header, label...)
	header = append(header, byte(field.kind), byte(len(field.name)>>8), byte(len(field.name)))
	header = append(header, field.name...)
	header = append(header, id...)
	_, _ = mac.Write(header)
	_, _ = mac.Write(value)
	return [checksumLen]byte(mac.Sum(nil))
}

// namedChecksum is checksum for a named key.
func namedChecksum(hmacKey []byte, field *Field, key, value []byte) [checksumLen]byte {
	return checksum(hmacKey, namedLabel, field, append([]byte{byte(len(key))}, key...), value)
}

// xorNamedKey encrypts or decrypts a named key in place. The checksum is the initialization vector, as in the
// SIV mode (RFC 5297), so the same bytes never encrypt two different keys.
func xorNamedKey(hmacKey []byte, sum [checksumLen]byte, key []byte) {
	mac := hmac.New(sha256.New, hmacKey)
	_, _ = mac.Write([]byte(encryptionLabel))
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic(err) // a key of 32 bytes is valid
	}
	cipher.NewCTR(block, sum[:]).XORKeyStream(key, key)
}

// canWrap reports whether a suffix can contain the key.
func canWrap(key []byte) bool { return len(key) > 0 && len(key) <= maxNamedKey }

// AppendSuffix appends the suffix for a value of the field. canWrap(key) must be true.
func (c *Codec) AppendSuffix(dst []byte, field *Field, key, value []byte) []byte {
	hmacKey := c.hmacKeys()[0]
	if id, ok := ParseKey(key); ok {
		sum := checksum(hmacKey, label, field, id[:], value)
		dst = append(dst, marker...)
		return encoding.AppendEncode(dst, append(id[:], sum[:]...))
	}
	sum := namedChecksum(hmacKey, field, key, value)
	parts := append(sum[:], key...)
	xorNamedKey(hmacKey, sum, parts[checksumLen:])
	dst = append(dst, namedMarker...)
	return encoding.AppendEncode(dst, parts)
}

// Split splits text into the value of the field and the key in its suffix. ok is false if text has no valid suffix
// or nothing precedes it.
func (c *Codec) Split(field *Field, text []byte) (value, key []byte, ok bool) {
	valueLen := bytes.LastIndexByte(text, '.')
	if valueLen <= 0 {
		return nil, nil, false
	}
	value, suffix := text[:valueLen:valueLen], text[valueLen:]
	if encoded, isCreated := bytes.CutPrefix(suffix, []byte(marker)); isCreated {
		key = c.createdKey(field, value, encoded)
	} else if encoded, isNamed := bytes.CutPrefix(suffix, []byte(namedMarker)); isNamed {
		key = c.namedKey(field, value, encoded)
	}
	if key == nil {
		return nil, nil, false
	}
	return value, key, true
}

// createdKey returns the key in a suffix after marker, or nil if the suffix is invalid.
func (c *Codec) createdKey(field *Field, value, encoded []byte) []byte {
	parts := decode(encoded, idLen+checksumLen, idLen+checksumLen)
	if parts == nil {
		return nil
	}
	id := ID(parts[:idLen])
	for _, hmacKey := range c.hmacKeys() {
		sum := checksum(hmacKey, label, field, id[:], value)
		if hmac.Equal(sum[:], parts[idLen:]) {
			return id.AppendKey(nil)
		}
	}
	return nil
}

// namedKey returns the key in a suffix after namedMarker, or nil if the suffix is invalid.
func (c *Codec) namedKey(field *Field, value, encoded []byte) []byte {
	parts := decode(encoded, checksumLen+1, checksumLen+maxNamedKey)
	if parts == nil {
		return nil
	}
	sum := [checksumLen]byte(parts)
	for _, hmacKey := range c.hmacKeys() {
		key := bytes.Clone(parts[checksumLen:])
		xorNamedKey(hmacKey, sum, key)
		valid := namedChecksum(hmacKey, field, key, value)
		if hmac.Equal(valid[:], sum[:]) {
			return key
		}
	}
	return nil
}

// decode decodes base64url of minLen to maxLen bytes. It returns nil if the text is invalid.
func decode(encoded []byte, minLen, maxLen int) []byte {
	if len(encoded) < encoding.EncodedLen(minLen) || len(encoded) > encoding.EncodedLen(maxLen) {
		return nil
	}
	parts := make([]byte, encoding.DecodedLen(len(encoded)))
	n, err := encoding.Decode(parts, encoded)
	if err != nil || encoding.EncodedLen(n) != len(encoded) { // Decode skips line breaks
		return nil
	}
	return parts[:n]
}

// Field is a wrapped header or cookie.
type Field struct {
	kind keysource.Kind // Header or Cookie
	name string         // for a header, in lower case
}
