package keyhash

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"shardway/ack"
	"shardway/admin/api"
	"shardway/internal/timingrules"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

// Mark returns the shard and the key_hash of a shard key, which identify it in a quarantine. An empty service is the
// service default. Equal keys of two services have different shards. The error reports an unknown service.
func (h *Hasher) Mark(service, key string) (shard uint32, hash string, err error) {
	hash = fmt.Sprintf("%016x", shardkey.Hash(h.Key(), []byte(key)))
	name, state := cmp.Or(service, ack.DefaultService), h.options.State()
	if !state.HasServices() && name == ack.DefaultService {
		return uint32(shardmap.ShardOf(key, h.options.Shards)), hash, nil
	}
	found, exists := state.Service(name)
	if !exists {
		return 0, "", unknownServiceError(name, state.Services())
	}
	return uint32(found.First + shardmap.ShardOf(key, found.Shards)), hash, nil
}

// unknownServiceError returns the error for a service that the cluster does not have.
func unknownServiceError(name string, services []ack.Service) error {
	var known []string
	for _, service := range services {
		known = append(known, service.Name)
	}
	return fmt.Errorf("the cluster has no service %s: give one of %s", name, strings.Join(known, ", "))
}

// keyID returns an identifier of a hash key. It reveals nothing about the hash key.
func keyID(hashKey []byte) uint32 {
	return uint32(shardkey.Hash(hashKey, []byte("shardway: which hash key")))
}

// hashKeysByID returns the hash keys with which this node recognizes quarantined keys, by identifier (see
// keyID). While the secret is being replaced, there are two.
func (h *Hasher) hashKeysByID() map[uint32][]byte {
	keys := map[uint32][]byte{}
	if key := h.Key(); key != nil {
		keys[keyID(key)] = key
	}
	for _, clusterSecret := range h.secretList() {
		key := clusterSecret.AccessKey()
		keys[keyID(key)] = key
	}
	return keys
}

// UpdateQuarantine makes the proxy refuse requests for the quarantined keys of the policy. It must be called
// after the policy, the secrets or the cluster ID has changed. It may be called from any goroutine, and
// does not block.
func (h *Hasher) UpdateQuarantine() {
	h.updating.Lock()
	defer h.updating.Unlock()
	quarantine, hashKeys := &shardkey.Quarantine{}, h.hashKeysByID()
	for mark := range h.options.State().Policy().Quarantined {
		if hashKey, known := hashKeys[mark.HashKeyID]; known {
			quarantine.Add(mark.Shard, mark.Hash, hashKey)
		}
	}
	h.options.Apply(quarantine)
}

// Quarantined lists the quarantined keys of a policy. Known is false for a key whose hash key this node no longer
// has.
func (h *Hasher) Quarantined(policy *ack.Policy) []api.QuarantinedKey {
	list := []api.QuarantinedKey{}
	hashKeys := h.hashKeysByID()
	state := h.options.State()
	for mark, quarantine := range policy.Quarantined {
		entry := api.QuarantinedKey{Shard: uint32(mark.Shard), Hash: fmt.Sprintf("%016x", mark.Hash)}
		if service, found := state.ServiceOf(mark.Shard); found && state.HasServices() {
			number := uint32(mark.Shard - service.First)
			entry.Service, entry.ServiceShard = service.Name, &number
		}
		if _, entry.Known = hashKeys[mark.HashKeyID]; quarantine.Duration > 0 {
			entry.For = timingrules.Short(quarantine.Duration)
		}
		list = append(list, entry)
	}
	slices.SortFunc(list, func(a, b api.QuarantinedKey) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Hash, b.Hash))
	})
	return list
}

// KeyID returns the identifier of the hash key in use. It reveals nothing about the hash key.
func (h *Hasher) KeyID() uint32 { return keyID(h.Key()) }
