package disk

import (
	"io"

	"github.com/hashicorp/raft"
)

// snapshotStore stops writing snapshots once the stores are released. It returns its errors
// to Raft, which logs them and tries again: without a new snapshot, log entries are only
// kept longer.
type snapshotStore struct {
	g *guard
	s raft.SnapshotStore
}

var _ raft.SnapshotStore = (*snapshotStore)(nil)

func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, t raft.Transport) (raft.SnapshotSink, error) {
	s.g.exitIfReleased()
	sink, err := s.s.Create(version, index, term, conf, confIndex, t)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{SnapshotSink: sink, g: s.g}, nil
}

func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	s.g.exitIfReleased()
	return s.s.List()
}

func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.g.exitIfReleased()
	return s.s.Open(id)
}

// snapshotSink is a snapshot that is being written.
type snapshotSink struct {
	raft.SnapshotSink
	g *guard
}

// Close completes the snapshot, unless the stores were released in the meantime.
func (s *snapshotSink) Close() error {
	s.g.exitIfReleased()
	return s.SnapshotSink.Close()
}
