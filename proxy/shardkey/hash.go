package shardkey

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// Hash returns the hash of a key for logs and lists: the first 8 bytes of its HMAC-SHA256. Without hashKey, an
// attacker cannot find the key by trying candidates.
func Hash(hashKey, key []byte) uint64 {
	mac := hmac.New(sha256.New, hashKey)
	_, _ = mac.Write(key) // never fails
	return binary.BigEndian.Uint64(mac.Sum(nil))
}
