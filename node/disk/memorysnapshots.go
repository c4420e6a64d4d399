package disk

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// memorySnapshots is a raft.SnapshotStore in memory. Unlike the in-memory store of the
// library it lists a snapshot only when it is complete, so that a crash during a write
// leaves the previous snapshot.
type memorySnapshots struct {
	mu         sync.Mutex
	lastNumber int
	complete   []*memorySink // complete snapshots, newest first
}

var _ raft.SnapshotStore = (*memorySnapshots)(nil)

func (s *memorySnapshots) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastNumber++
	return &memorySink{store: s, meta: raft.SnapshotMeta{
		Version:            version,
		ID:                 fmt.Sprintf("%d-%d-%d", term, index, s.lastNumber),
		Index:              index,
		Term:               term,
		Configuration:      conf.Clone(),
		ConfigurationIndex: confIndex,
	}}, nil
}

func (s *memorySnapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*raft.SnapshotMeta
	for _, snapshot := range s.complete {
		meta := snapshot.meta
		list = append(list, &meta)
	}
	return list, nil
}

func (s *memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, snapshot := range s.complete {
		if snapshot.meta.ID == id {
			meta := snapshot.meta
			return &meta, io.NopCloser(bytes.NewReader(snapshot.data)), nil
		}
	}
	return nil, nil, fmt.Errorf("disk: no snapshot %q", id)
}

// copy returns the complete snapshots, which are immutable.
func (s *memorySnapshots) copy() *memorySnapshots {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &memorySnapshots{lastNumber: s.lastNumber, complete: slices.Clone(s.complete)}
}

// add adds a complete snapshot and deletes the oldest ones beyond maxSnapshots.
func (s *memorySnapshots) add(snapshot *memorySink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = slices.Insert(s.complete, 0, snapshot)
	slices.SortStableFunc(s.complete, func(a, b *memorySink) int {
		if a.meta.Term != b.meta.Term {
			return cmp.Compare(b.meta.Term, a.meta.Term)
		}
		return cmp.Compare(b.meta.Index, a.meta.Index)
	})
	s.complete = s.complete[:min(len(s.complete), maxSnapshots)]
}

// memorySink is a snapshot that is written until Close.
type memorySink struct {
	store  *memorySnapshots
	meta   raft.SnapshotMeta
	data   []byte
	closed bool
}

// Write appends to the snapshot.
func (s *memorySink) Write(data []byte) (int, error) {
	s.data = append(s.data, data...)
	return len(data), nil
}

// Close completes the snapshot.
func (s *memorySink) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.meta.Size = int64(len(s.data))
	s.store.add(s)
	return nil
}

// ID returns the name of the snapshot.
func (s *memorySink) ID() string { return s.meta.ID }

// Cancel discards the snapshot.
func (s *memorySink) Cancel() error {
	s.closed = true
	return nil
}
