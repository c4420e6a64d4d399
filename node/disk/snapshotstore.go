package disk

import (
	"io"

	"github.com/hashicorp/raft"
)

// snapshotStore stops writing snapshots once the stores are released. It returns its errors
// to Raft, which logs them and tries again: without a new snapshot, log entries are only
// kept longer.
type snapshotStore struct {
	guard *guard
	store raft.SnapshotStore
}

var _ raft.SnapshotStore = (*snapshotStore)(nil)

func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, transport raft.Transport) (raft.SnapshotSink, error) {
	s.guard.exitIfReleased()
	sink, err := s.store.Create(version, index, term, conf, confIndex, transport)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{SnapshotSink: sink, guard: s.guard}, nil
}

func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	s.guard.exitIfReleased()
	return s.store.List()
}

func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.guard.exitIfReleased()
	return s.store.Open(id)
}

// snapshotSink is a snapshot that is being written.
type snapshotSink struct {
	raft.SnapshotSink
	guard *guard
}

// Close completes the snapshot, unless the stores were released in the meantime.
func (s *snapshotSink) Close() error {
	s.guard.exitIfReleased()
	return s.SnapshotSink.Close()
}
