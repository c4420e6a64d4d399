package node

import (
	"crypto/hkdf"
	"crypto/sha256"

	"shardway/internal/secret"
)

// hashKey is a key under which access logs hash the keys of requests, and what it
// was made from.
type hashKey struct {
	secret  secret.Secret // zero: of the cluster's id
	cluster string
	key     []byte
}

// hashKey returns the key of key_hash, equal on all nodes of the cluster.
func (n *Node) hashKey() []byte {
	var l secret.List
	if n.o.Secrets != nil {
		l = n.o.Secrets.List()
	}
	last, cluster := n.hashed.Load(), n.cluster()
	if last == nil || last.cluster != cluster || len(l) > 0 && !last.secret.Equal(l[0]) {
		last = hashKeyOf(l, cluster)
		n.hashed.Store(last)
	}
	return last.key
}

// hashKeyOf makes the key from the secret that is used. Without one it is that of
// the cluster's id, which is no secret, but keeps the hashes of one cluster from
// being looked up in a list made for all.
func hashKeyOf(l secret.List, cluster string) *hashKey {
	if len(l) > 0 {
		return &hashKey{secret: l[0], cluster: cluster, key: l[0].AccessKey()}
	}
	key, err := hkdf.Key(sha256.New, []byte(cluster), nil, "shardway access log: key_hash", sha256.Size)
	if err != nil {
		panic("node: hash key: " + err.Error()) // only a length leads here, or a FIPS mode without HKDF
	}
	return &hashKey{cluster: cluster, key: key}
}
