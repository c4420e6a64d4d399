package keyhash

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"

	"shardway/ack"
	"shardway/internal/secret"
	"shardway/proxy/shardkey"
)

// Options contains the sources of the hash key, and the use of the quarantines.
type Options struct {
	// Secrets contains the secrets of the cluster. It is nil if there are none.
	Secrets *secret.Store
	// Cluster returns the cluster ID, or an empty string if there is no cluster yet.
	Cluster func() string
	// Shards is the number of shards of a cluster without a list of services.
	Shards int
	// State returns the replicated state. It contains the services and the quarantined keys.
	State func() *ack.State
	// Apply replaces the quarantine of the proxy.
	Apply func(*shardkey.Quarantine)
}

// Hasher hashes shard keys with a key that is the same on all nodes of the cluster. Its methods may be called
// from any goroutine.
type Hasher struct {
	options  Options
	current  atomic.Pointer[hashKey]  // result of the last Key
	wrapKeys atomic.Pointer[wrapKeys] // result of the last WrapKeys
	updating sync.Mutex               // held by Update
}

// New returns a Hasher with the key with which the node starts.
func New(options Options) (*Hasher, error) {
	hasher := &Hasher{options: options}
	return hasher, hasher.deriveInitialKey()
}

// hashKey is the key of a keyed hash, and its sources. Access logs contain this hash of the shard key of a
// request (key_hash) instead of the shard key.
type hashKey struct {
	secret  secret.Secret // source of key; zero means that key is derived from the cluster ID
	cluster string
	key     []byte
}

// noClusterSource is the source of the key while there is neither a secret nor a cluster. It is not empty because
// FIPS 140 requires key material of at least 112 bits.
const noClusterSource = "shardway: no cluster yet"

// Key returns the key for key_hash, which is the same on all nodes of the cluster. If a new key cannot
// be derived, the previous key stays in use. New derives the first one.
func (h *Hasher) Key() []byte {
	secrets, cluster, current := h.secretList(), h.options.Cluster(), h.current.Load()
	if current != nil && current.isDerivedFrom(secrets, cluster) {
		return current.key
	}
	next, err := deriveHashKey(secrets, cluster)
	if err != nil && current == nil {
		return nil
	}
	if err != nil {
		next = &hashKey{secret: current.secret, cluster: cluster, key: current.key}
	}
	h.current.Store(next)
	return next.key
}

// isDerivedFrom reports whether the key belongs to these secrets and this cluster.
func (k *hashKey) isDerivedFrom(secrets secret.List, cluster string) bool {
	hasNewSecret := len(secrets) > 0 && !k.secret.Equal(secrets[0])
	return k.cluster == cluster && !hasNewSecret
}

// deriveInitialKey derives the key with which the node starts.
func (h *Hasher) deriveInitialKey() error {
	derived, err := deriveHashKey(h.secretList(), h.options.Cluster())
	if err != nil {
		return fmt.Errorf("node: key_hash of access logs: %w: give all nodes a --secret-file, or end the FIPS 140 mode of this process (GODEBUG=fips140)", err)
	}
	h.current.Store(derived)
	return nil
}

// secretList returns the secrets of the cluster, or nil if there are none. The first one is used, and all are
// accepted.
func (h *Hasher) secretList() secret.List {
	if h.options.Secrets == nil {
		return nil
	}
	return h.options.Secrets.List()
}

// deriveHashKey derives the key from the first secret. Without a secret, it derives the key from the cluster ID.
// The ID is not secret, but it limits a table of precomputed hashes to one cluster.
func deriveHashKey(secrets secret.List, cluster string) (*hashKey, error) {
	if len(secrets) > 0 {
		return &hashKey{secret: secrets[0], cluster: cluster, key: secrets[0].AccessKey()}, nil
	}
	source := cluster
	if source == "" {
		source = noClusterSource
	}
	key, err := hkdf.Key(sha256.New, []byte(source), nil, "shardway access log: key_hash", sha256.Size)
	if err != nil {
		return nil, err
	}
	return &hashKey{cluster: cluster, key: key}, nil
}
