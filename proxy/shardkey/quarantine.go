package shardkey

import "shardway/shardmap"

// Quarantine contains the keys whose requests receive a 503 response at their ingress. It must not
// change after it was passed to the proxy.
type Quarantine struct {
	byShard map[shardmap.Shard][]quarantined
}

type quarantined struct {
	hash    uint64
	hashKey []byte
}

// Add adds a key to the quarantine. hash is the Hash of the key under hashKey, and s is its shard.
func (q *Quarantine) Add(s shardmap.Shard, hash uint64, hashKey []byte) {
	if q.byShard == nil {
		q.byShard = map[shardmap.Shard][]quarantined{}
	}
	q.byShard[s] = append(q.byShard[s], quarantined{hash, hashKey})
}

// Holds reports whether a key of shard s is in quarantine.
func (q *Quarantine) Holds(s shardmap.Shard, key []byte) bool {
	for _, x := range q.byShard[s] {
		if Hash(x.hashKey, key) == x.hash {
			return true
		}
	}
	return false
}
