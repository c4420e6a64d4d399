package shardkey

import "shardway/shardmap"

// Quarantine contains the keys whose requests receive a 503 response at their ingress. It must not
// change after it was passed to the proxy.
type Quarantine struct {
	by map[shardmap.Shard][]quarantined
}

type quarantined struct {
	hash    uint64
	hashKey []byte
}

// Add adds a key to the quarantine. hash is the Hash of the key under hashKey, and s is its shard.
func (q *Quarantine) Add(s shardmap.Shard, hash uint64, hashKey []byte) {
	if q.by == nil {
		q.by = map[shardmap.Shard][]quarantined{}
	}
	q.by[s] = append(q.by[s], quarantined{hash, hashKey})
}

// Holds reports whether a key of shard s is in quarantine.
func (q *Quarantine) Holds(s shardmap.Shard, key []byte) bool {
	for _, x := range q.by[s] {
		if Hash(x.hashKey, key) == x.hash {
			return true
		}
	}
	return false
}
