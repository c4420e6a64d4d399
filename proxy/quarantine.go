package proxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"shardway/shardmap"
)

// Quarantine contains the keys whose requests receive a 503 response at their ingress. It must not
// change after it was passed to a Server.
type Quarantine struct {
	by map[shardmap.Shard][]quarantined
}

type quarantined struct {
	hash    uint64
	hashKey []byte
}

// quarantineRetry is the Retry-After of the response. It is long because an operator must first
// lift the quarantine.
const quarantineRetry = time.Minute

// Add adds a key to the quarantine. hash is the KeyHash of the key under hashKey, and s is its
// shard.
func (q *Quarantine) Add(s shardmap.Shard, hash uint64, hashKey []byte) {
	if q.by == nil {
		q.by = map[shardmap.Shard][]quarantined{}
	}
	q.by[s] = append(q.by[s], quarantined{hash, hashKey})
}

// holds reports whether a key of shard s is in quarantine.
func (q *Quarantine) holds(s shardmap.Shard, key []byte) bool {
	for _, x := range q.by[s] {
		if KeyHash(x.hashKey, key) == x.hash {
			return true
		}
	}
	return false
}

// Quarantine replaces the set of keys in quarantine; nil means none. A request that waits for its
// shard checks the new set at its next attempt. Requests in progress continue.
func (s *Server) Quarantine(q *Quarantine) { s.quarantine.Store(q) }

// quarantined reports whether the request's key is in quarantine. The shard of the request must be
// known.
func (c *client) quarantined() bool {
	q := c.s.quarantine.Load() // almost always nil, so usually no hash is computed
	return q != nil && !c.x.Keyless && q.holds(c.x.shard, c.x.Key)
}

// KeyHash returns the hash of a key that logs and lists contain: the first 8 bytes of its
// HMAC-SHA256. Without hashKey, an attacker cannot find the key by trying candidates.
func KeyHash(hashKey, key []byte) uint64 {
	mac := hmac.New(sha256.New, hashKey)
	_, _ = mac.Write(key) // never fails
	return binary.BigEndian.Uint64(mac.Sum(nil))
}
