package node

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
func (n *Node) Mark(key string) (shard uint32, hash string) {
	return uint32(shardmap.Of(key, n.o.Shards)), fmt.Sprintf("%016x", shardkey.Hash(n.hashKey(), []byte(key)))
}

// markedUnder returns an identifier of a hash key. It reveals nothing about the hash key.
func markedUnder(hashKey []byte) uint32 {
	return uint32(shardkey.Hash(hashKey, []byte("shardway: which hash key")))
}

// hashKeys returns the hash keys with which this node recognizes quarantined keys, by identifier (see
// markedUnder). While the secret is being replaced, there are two.
func (n *Node) hashKeys() map[uint32][]byte {
	keys := map[uint32][]byte{}
	if k := n.hashKey(); k != nil {
		keys[markedUnder(k)] = k
	}
	for _, s := range n.secretList() {
		k := s.AccessKey()
		keys[markedUnder(k)] = k
	}
	return keys
}

// requarantine makes the proxy refuse requests for the quarantined keys of the policy. It must be called
// after the policy, the secrets or the cluster ID has changed. It may be called from any goroutine, and
// does not block.
func (n *Node) requarantine() {
	n.marking.Lock()
	defer n.marking.Unlock()
	q, keys := &shardkey.Quarantine{}, n.hashKeys()
	for m := range n.fsm.state.Load().Policy().Quarantined {
		if k, known := keys[m.HashKeyID]; known {
			q.Add(m.Shard, m.Hash, k)
		}
	}
	n.proxy.Quarantine(q)
}

// quarantined lists the quarantined keys of policy p. Known is false for a key whose hash key this node
// does not have any more.
func (n *Node) quarantined(p *ack.Policy) []api.QuarantinedKey {
	out := []api.QuarantinedKey{}
	keys := n.hashKeys()
	for m, q := range p.Quarantined {
		k := api.QuarantinedKey{Shard: uint32(m.Shard), Hash: fmt.Sprintf("%016x", m.Hash)}
		if _, k.Known = keys[m.HashKeyID]; q.For > 0 {
			k.For = timingrules.Short(q.For)
		}
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b api.QuarantinedKey) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Hash, b.Hash))
	})
	return out
}
