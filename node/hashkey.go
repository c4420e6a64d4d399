package node

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"

	"shardway/internal/secret"
)

// hashKey is a key under which access logs hash the keys of requests, and what it
// was made from.
type hashKey struct {
	secret  secret.Secret // zero: of the cluster's id
	cluster string
	key     []byte
}

// noCluster is what the key is made from as long as there is neither a secret nor a
// cluster: FIPS 140 takes nothing shorter than 112 bits.
const noCluster = "shardway: no cluster yet"

// hashKey returns the key of key_hash, equal on all nodes of the cluster. One that
// cannot be made leaves the one before in use; the first is made by firstHashKey.
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

// firstHashKey makes the key that the node starts with.
func (n *Node) firstHashKey() error {
	k, err := hashKeyOf(n.secretList(), n.cluster())
	if err != nil {
		return fmt.Errorf("node: key_hash of access logs: %w: give all nodes a --secret-file, or end the FIPS 140 mode of this process (GODEBUG=fips140)", err)
	}
	n.hashed.Store(k)
	return nil
}

func (n *Node) secretList() secret.List {
	if n.o.Secrets == nil {
		return nil
	}
	return n.o.Secrets.List()
}

// hashKeyOf makes the key from the secret that is used. Without one it is that of
// the cluster's id, which is no secret, but keeps the hashes of one cluster from
// being looked up in a list made for all.
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
