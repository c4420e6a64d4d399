package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// SetKeys replaces the keys of an encrypted gossip. The first key encrypts, and each key is
// accepted. Nodes can communicate if each accepts the key that the others use.
func (g *Gossip) SetKeys(keys [][]byte) error {
	if g.keyring == nil || len(keys) == 0 {
		return errors.New("gossip: keys can be changed, not turned on or off: restart the node for that")
	}
	// With this order, a key in use is accepted at any time.
	for _, key := range keys {
		if err := g.keyring.AddKey(key); err != nil {
			return fmt.Errorf("gossip: keys: %w", err)
		}
	}
	if err := g.keyring.UseKey(keys[0]); err != nil {
		return fmt.Errorf("gossip: keys: %w", err)
	}
	for _, current := range g.keyring.GetKeys() {
		if slices.ContainsFunc(keys, func(key []byte) bool { return bytes.Equal(key, current) }) {
			continue
		}
		if err := g.keyring.RemoveKey(current); err != nil {
			return fmt.Errorf("gossip: keys: %w", err)
		}
	}
	return nil
}
