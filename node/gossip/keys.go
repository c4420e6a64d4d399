package gossip

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// SetKeys changes the keys of a gossip that has some: the first one encrypts from
// now on, each of them is accepted. Nodes stay in touch if each of them accepts
// what any other uses at the time.
func (g *Gossip) SetKeys(keys [][]byte) error {
	if g.keyring == nil || len(keys) == 0 {
		return errors.New("gossip: keys can be changed, not turned on or off: restart the node for that")
	}
	// In this order there is no moment at which a key in use is not accepted.
	for _, k := range keys {
		if err := g.keyring.AddKey(k); err != nil {
			return fmt.Errorf("gossip: keys: %w", err)
		}
	}
	if err := g.keyring.UseKey(keys[0]); err != nil {
		return fmt.Errorf("gossip: keys: %w", err)
	}
	for _, old := range g.keyring.GetKeys() {
		if slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, old) }) {
			continue
		}
		if err := g.keyring.RemoveKey(old); err != nil {
			return fmt.Errorf("gossip: keys: %w", err)
		}
	}
	return nil
}
