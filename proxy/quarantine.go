package proxy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"shardway/shardmap"
)

// Quarantine has the keys whose requests are answered 503 where they come in. It does
// not change once a Server has it.
type Quarantine struct {
	by map[shardmap.Shard][]quarantined
}

type quarantined struct {
	hash    uint64
	hashKey []byte
}

// quarantineRetry is when a client is told to come again: somebody has to look first.
const quarantineRetry = time.Minute

// Add puts the key in quarantine that is in shard s and has this KeyHash under hashKey.
func (q *Quarantine) Add(s shardmap.Shard, hash uint64, hashKey []byte) {
	if q.by == nil {
		q.by = map[shardmap.Shard][]quarantined{}
	}
	q.by[s] = append(q.by[s], quarantined{hash, hashKey})
}

// holds reports whether a key, which is in shard s, is in quarantine.
func (q *Quarantine) holds(s shardmap.Shard, key []byte) bool {
	for _, x := range q.by[s] {
		if KeyHash(x.hashKey, key) == x.hash {
			return true
		}
	}
	return false
}

// Quarantine replaces the keys in quarantine; nil, or none: nothing is. What waits for
// its shard looks again the next time that it would go; what runs, runs on.
func (s *Server) Quarantine(q *Quarantine) { s.quarantine.Store(q) }

// quarantined reports whether the request is to go nowhere; its shard is known.
func (c *client) quarantined() bool {
	q := c.s.quarantine.Load() // none, as nearly always: then nothing is computed
	return q != nil && !c.x.Keyless && q.holds(c.x.shard, c.x.Key)
}

// KeyHash returns a request's key as logs and lists have it: the first 8 bytes of its
// HMAC-SHA256. Who has that and not hashKey cannot try keys on it.
func KeyHash(hashKey, key []byte) uint64 {
	mac := hmac.New(sha256.New, hashKey)
	_, _ = mac.Write(key) // never fails
	return binary.BigEndian.Uint64(mac.Sum(nil))
}
