package ack_test

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"shardway/ack"
)

// FuzzRestoredState decodes states of random bytes under a correct checksum, as a file of any
// origin may contain. A decoded state must encode to the same bytes, and must be recoverable.
func FuzzRestoredState(f *testing.F) {
	s, _, err := ack.NewState().Apply(2, 1, ack.EncodeBootstrap("c1", 16, ack.DefaultTiming()))
	if err != nil {
		f.Fatal(err)
	}
	b, err := s.Backup()
	if err != nil {
		f.Fatal(err)
	}
	const head = len("shardway backup") + 1 + sha256.Size
	f.Add(b[head:])
	f.Fuzz(func(t *testing.T, state []byte) {
		sum := sha256.Sum256(state)
		file := append(append(bytes.Clone(b[:head-sha256.Size]), sum[:]...), state...)
		s, err := ack.OpenBackup(file)
		if err != nil {
			return
		}
		again, err := s.Backup()
		if err != nil || !bytes.Equal(again, file) {
			t.Fatalf("written again: %v, %x, want %x", err, again, file)
		}
		if n, err := s.Recovered(s.ClusterID()+".1", s.MaxIndex()+ack.MinIndexGap); err == nil && n.HasOpenProposal() {
			t.Error("a recovered state has an open proposal")
		}
	})
}
