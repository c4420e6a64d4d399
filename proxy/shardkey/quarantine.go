package shardkey

import "shardway/shardmap"

// Quarantine contains the keys whose requests receive a 503 response at their ingress. It must not change after it
// has been passed to the proxy.
type Quarantine struct {
	byShard map[shardmap.Shard][]quarantined
}

type quarantined struct {
	hash    uint64
	hashKey []byte
}

// Add adds a key to the quarantine. hash is the Hash of the key under hashKey, and shard is its
// shard.
func (q *Quarantine) Add(shard shardmap.Shard, hash uint64, hashKey []byte) {
	if q.byShard == nil {
		q.byShard = map[shardmap.Shard][]quarantined{}
	}
	q.byShard[shard] = append(q.byShard[shard], quarantined{hash, hashKey})
}

// Holds reports whether a key of the given shard is in quarantine.
func (q *Quarantine) Holds(shard shardmap.Shard, key []byte) bool {
	for _, entry := range q.byShard[shard] {
		if Hash(entry.hashKey, key) == entry.hash {
			return true
		}
	}
	return false
}
