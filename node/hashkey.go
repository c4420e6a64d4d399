package node

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"

	"shardway/internal/secret"
)

// hashKey is the key of a keyed hash, and its sources. Access logs contain this hash of the shard key of a
// request (key_hash) instead of the shard key.
type hashKey struct {
	secret  secret.Secret // source of key; zero means that key is derived from the cluster ID
	cluster string
	key     []byte
}

// noCluster is the source of the key while there is neither a secret nor a cluster. It is not empty because
// FIPS 140 requires key material of at least 112 bits.
const noCluster = "shardway: no cluster yet"

// hashKey returns the key for key_hash, which is the same on all nodes of the cluster. If a new key cannot
// be derived, the previous key stays in use. firstHashKey derives the first one.
func (n *Node) hashKey() []byte {
	l, cluster, last := n.secretList(), n.cluster(), n.hashed.Load()
	if last == nil || last.cluster != cluster || len(l) > 0 && !last.secret.Equal(l[0]) {
		next, err := hashKeyOf(l, cluster)
		if err != nil && last == nil {
			return nil
		}
		if err != nil {
			next = &hashKey{secret: last.secret, cluster: cluster, key: last.key}
		}
		n.hashed.Store(next)
		last = next
	}
	return last.key
}

// firstHashKey derives the key with which the node starts.
func (n *Node) firstHashKey() error {
	k, err := hashKeyOf(n.secretList(), n.cluster())
	if err != nil {
		return fmt.Errorf("node: key_hash of access logs: %w: give all nodes a --secret-file, or end the FIPS 140 mode of this process (GODEBUG=fips140)", err)
	}
	n.hashed.Store(k)
	return nil
}

// secretList returns the secrets of the cluster. The first one is used, and all are accepted. nil means
// that there are none.
func (n *Node) secretList() secret.List {
	if n.o.Secrets == nil {
		return nil
	}
	return n.o.Secrets.List()
}

// hashKeyOf derives the key from the first secret. Without a secret, it derives the key from the cluster
// ID. The ID is not secret, but because of it, a table of precomputed hashes works for one cluster only.
func hashKeyOf(l secret.List, cluster string) (*hashKey, error) {
	if len(l) > 0 {
		return &hashKey{secret: l[0], cluster: cluster, key: l[0].AccessKey()}, nil
	}
	from := cluster
	if from == "" {
		from = noCluster
	}
	key, err := hkdf.Key(sha256.New, []byte(from), nil, "shardway access log: key_hash", sha256.Size)
	if err != nil {
		return nil, err
	}
	return &hashKey{cluster: cluster, key: key}, nil
}
