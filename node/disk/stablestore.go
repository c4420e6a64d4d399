package disk

import (
	"github.com/hashicorp/raft"
)

// stableStore is a guarded raft.StableStore that writes a vote in a single operation.
type stableStore struct {
	guard *guard
	votes voteStore
}

var _ raft.StableStore = (*stableStore)(nil)

// newStableStore returns a stableStore that writes to store.
func newStableStore(guarded *guard, store raft.StableStore) *stableStore {
	return &stableStore{guard: guarded, votes: voteStore{store: store}}
}

// isNotFound reports whether err means that the key is not set. Raft also compares the text of
// that error.
func isNotFound(err error) bool { return err.Error() == "not found" }

func (s *stableStore) Set(key, val []byte) error {
	return s.guard.write("write vote", func() error { return s.votes.set(key, val) })
}

func (s *stableStore) Get(key []byte) ([]byte, error) {
	var value []byte
	err := s.guard.read("read vote", isNotFound, func() (err error) {
		value, err = s.votes.get(key)
		return err
	})
	return value, err
}

func (s *stableStore) SetUint64(key []byte, val uint64) error {
	return s.guard.write("write term", func() error { return s.votes.setUint64(key, val) })
}

func (s *stableStore) GetUint64(key []byte) (uint64, error) {
	var value uint64
	err := s.guard.read("read term", isNotFound, func() (err error) {
		value, err = s.votes.getUint64(key)
		return err
	})
	return value, err
}
