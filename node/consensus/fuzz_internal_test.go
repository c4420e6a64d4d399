package consensus

import (
	"bytes"
	"testing"
)

// FuzzOpenSnapshot checks that a snapshot from another server, or from a disk, is either unchanged or refused.
func FuzzOpenSnapshot(f *testing.F) {
	state := []byte("state")
	whole := append(encodeHeader(7, state), state...)
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(append(bytes.Clone(whole), 0))
	f.Add([]byte(snapshotMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		index, state, err := decodeSnapshot(b)
		if err != nil {
			return
		}
		if again := append(encodeHeader(index, state), state...); !bytes.Equal(again, b) {
			t.Fatalf("%x became %x", b, again)
		}
	})
}
