package secret

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
)

// The labels keep what is derived from one secret independent of each other.
// They are part of the protocol: another text is another cluster.
const (
	salt             = "shardway secret v1"
	labelGossip      = "gossip: AES-256-GCM key"
	labelAuthority   = "peer: Ed25519 seed of the cluster's authority"
	labelFingerprint = "fingerprint"
	labelAccess      = "access log: HMAC key of key_hash"
	labelTicket      = "client TLS: session ticket key of day "
)

// derive returns n bytes of their own for the label.
func (s Secret) derive(label string, n int) []byte {
	b, err := hkdf.Key(sha256.New, s.key[:], []byte(salt), label, n)
	if err != nil {
		// Only a length beyond 8160 bytes, or a FIPS mode without HKDF, leads
		// here: nothing that input decides.
		panic("secret: derive: " + err.Error())
	}
	return b
}

// GossipKey returns the key that encrypts gossip: 32 bytes.
func (s Secret) GossipKey() []byte { return s.derive(labelGossip, 32) }

// AccessKey returns the key under which access logs hash the keys of requests: 32
// bytes.
func (s Secret) AccessKey() []byte { return s.derive(labelAccess, 32) }

func (s Secret) authorityKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(s.derive(labelAuthority, ed25519.SeedSize))
}
