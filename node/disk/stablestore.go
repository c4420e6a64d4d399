package disk

import (
	"github.com/hashicorp/raft"
)

// stableStore is a guarded raft.StableStore that writes a vote in a single operation.
type stableStore struct {
	g *guard
	v votes
}

var _ raft.StableStore = (*stableStore)(nil)

// newStableStore returns a stableStore that writes to s.
func newStableStore(g *guard, s raft.StableStore) *stableStore {
	return &stableStore{g: g, v: votes{s: s}}
}

// isNotFound reports whether err means that the key is not set. Raft compares the text of that
// error, too.
func isNotFound(err error) bool { return err.Error() == "not found" }

func (s *stableStore) Set(key, val []byte) error {
	return s.g.write("write vote", func() error { return s.v.set(key, val) })
}

func (s *stableStore) Get(key []byte) ([]byte, error) {
	var v []byte
	err := s.g.read("read vote", isNotFound, func() (err error) {
		v, err = s.v.get(key)
		return err
	})
	return v, err
}

func (s *stableStore) SetUint64(key []byte, val uint64) error {
	return s.g.write("write term", func() error { return s.v.setUint64(key, val) })
}

func (s *stableStore) GetUint64(key []byte) (uint64, error) {
	var n uint64
	err := s.g.read("read term", isNotFound, func() (err error) {
		n, err = s.v.getUint64(key)
		return err
	})
	return n, err
}
