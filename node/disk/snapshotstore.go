package disk

import (
	"io"

	"github.com/hashicorp/raft"
)

// snapshotStore lets no snapshot be written once the stores are released. Its
// errors go to Raft, which logs them and tries again: a snapshot that could not
// be taken costs only log entries that are kept for longer.
type snapshotStore struct {
	g *guard
	s raft.SnapshotStore
}

var _ raft.SnapshotStore = (*snapshotStore)(nil)

func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, t raft.Transport) (raft.SnapshotSink, error) {
	s.g.live()
	sink, err := s.s.Create(version, index, term, conf, confIndex, t)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{SnapshotSink: sink, g: s.g}, nil
}

func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	s.g.live()
	return s.s.List()
}

func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.g.live()
	return s.s.Open(id)
}

// snapshotSink is a snapshot being written.
type snapshotSink struct {
	raft.SnapshotSink
	g *guard
}

// Close makes the snapshot count, unless the stores were released meanwhile.
func (s *snapshotSink) Close() error {
	s.g.live()
	return s.SnapshotSink.Close()
}
