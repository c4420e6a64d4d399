package secret

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
)

// The labels keep the keys derived from one secret independent of each other. They are part of the protocol: nodes
// with different labels could not communicate.
const (
	salt             = "shardway secret v1"
	labelGossip      = "gossip: AES-256-GCM key"
	labelAuthority   = "peer: Ed25519 seed of the cluster's authority"
	labelFingerprint = "fingerprint"
	labelAccess      = "access log: HMAC key of key_hash"
	labelSessionID   = "wrapped session ids: HMAC key"
	labelTicket      = "client TLS: session ticket key of day "
)

// derive returns a key of the given length in bytes for the label.
func (s Secret) derive(label string, length int) []byte {
	b, err := hkdf.Key(sha256.New, s.key[:], []byte(salt), label, length)
	if err != nil {
		// Only a length above 8160 bytes or a FIPS mode without HKDF causes an error. No
		// input does.
		panic("secret: derive: " + err.Error())
	}
	return b
}

// GossipKey returns the 32-byte key that encrypts gossip.
func (s Secret) GossipKey() []byte { return s.derive(labelGossip, 32) }

// AccessKey returns the 32-byte HMAC key for the request keys in access logs.
func (s Secret) AccessKey() []byte { return s.derive(labelAccess, 32) }

// WrapKey returns the 32-byte HMAC key for the suffixes of wrapped session ids.
func (s Secret) WrapKey() []byte { return s.derive(labelSessionID, 32) }

func (s Secret) authorityKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(s.derive(labelAuthority, ed25519.SeedSize))
}
