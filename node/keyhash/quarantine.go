package keyhash

import (
	"cmp"
	"fmt"
	"slices"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/internal/timingrules"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// Mark returns the shard and the key_hash of a shard key, which identify it in a quarantine.
func (h *Hasher) Mark(key string) (shard uint32, hash string) {
	return uint32(shardmap.ShardOf(key, h.o.Shards)), fmt.Sprintf("%016x", shardkey.Hash(h.Key(), []byte(key)))
}

// keyID returns an identifier of a hash key. It reveals nothing about the hash key.
func keyID(hashKey []byte) uint32 {
	return uint32(shardkey.Hash(hashKey, []byte("shardway: which hash key")))
}

// keys returns the hash keys with which this node recognizes quarantined keys, by identifier (see
// keyID). While the secret is being replaced, there are two.
func (h *Hasher) keys() map[uint32][]byte {
	keys := map[uint32][]byte{}
	if k := h.Key(); k != nil {
		keys[keyID(k)] = k
	}
	for _, s := range h.secretList() {
		k := s.AccessKey()
		keys[keyID(k)] = k
	}
	return keys
}

// Update makes the proxy refuse requests for the quarantined keys of the policy. It must be called
// after the policy, the secrets or the cluster ID has changed. It may be called from any goroutine, and
// does not block.
func (h *Hasher) Update() {
	h.updating.Lock()
	defer h.updating.Unlock()
	q, keys := &shardkey.Quarantine{}, h.keys()
	for m := range h.o.Policy().Quarantined {
		if k, known := keys[m.HashKeyID]; known {
			q.Add(m.Shard, m.Hash, k)
		}
	}
	h.o.Apply(q)
}

// Quarantined lists the quarantined keys of policy p. Known is false for a key whose hash key this node
// does not have any more.
func (h *Hasher) Quarantined(p *ack.Policy) []api.QuarantinedKey {
	out := []api.QuarantinedKey{}
	keys := h.keys()
	for m, q := range p.Quarantined {
		k := api.QuarantinedKey{Shard: uint32(m.Shard), Hash: fmt.Sprintf("%016x", m.Hash)}
		if _, k.Known = keys[m.HashKeyID]; q.Duration > 0 {
			k.For = timingrules.Short(q.Duration)
		}
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b api.QuarantinedKey) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Hash, b.Hash))
	})
	return out
}

// KeyID returns the identifier of the hash key in use. It reveals nothing about the hash key.
func (h *Hasher) KeyID() uint32 { return keyID(h.Key()) }
