package keyhash

import (
	"slices"

	"shardway/internal/secret"
)

// wrapKeys contains the HMAC keys for the suffixes of wrapped session ids, and their sources.
type wrapKeys struct {
	secrets secret.List
	keys    [][]byte
}

// WrapKeys returns the HMAC keys for the suffixes of wrapped session ids (package wrapkey), one for each
// secret. The first secret is the one in use. It returns nil if there are no secrets. The caller must not
// change the result.
func (h *Hasher) WrapKeys() [][]byte {
	secrets, current := h.secretList(), h.wrapKeys.Load()
	if current != nil && slices.EqualFunc(current.secrets, secrets, secret.Secret.Equal) {
		return current.keys
	}
	next := &wrapKeys{secrets: secrets}
	for _, clusterSecret := range secrets {
		next.keys = append(next.keys, clusterSecret.WrapKey())
	}
	h.wrapKeys.Store(next)
	return next.keys
}
