package shardkey

import (
	"bytes"

	"shardway/proxy/h1"
)

// ParseNamed returns the key that an app names in the field Shardway-Key of a response, or nil if the field is not
// valid: it must occur exactly once and contain a percent-encoded key of up to 2048 bytes. The key is a copy.
func ParseNamed(header *h1.Header) []byte {
	const name = "Shardway-Key"
	first := header.Find(name, 0)
	if first < 0 || header.Find(name, first+1) >= 0 {
		return nil
	}
	_, encoded := header.Field(first)
	if len(encoded) == 0 {
		return nil
	}
	key := make([]byte, 0, len(encoded))
	for rest := encoded; len(rest) > 0; {
		escape := bytes.IndexByte(rest, '%')
		if escape < 0 {
			key = append(key, rest...)
			break
		}
		key = append(key, rest[:escape]...)
		if len(rest)-escape < len("%XX") {
			return nil
		}
		value, isHex := hexByte(rest[escape+1], rest[escape+2])
		if !isHex {
			return nil
		}
		key, rest = append(key, value), rest[escape+len("%XX"):]
	}
	if len(key) > maxBodyKey {
		return nil
	}
	return key
}
