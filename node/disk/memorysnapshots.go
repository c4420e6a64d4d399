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
	mu   sync.Mutex
	next int
	kept []*memorySink // complete snapshots, newest first
}

var _ raft.SnapshotStore = (*memorySnapshots)(nil)

func (s *memorySnapshots) Create(version raft.SnapshotVersion, index, term uint64, conf raft.Configuration, confIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return &memorySink{s: s, meta: raft.SnapshotMeta{
		Version:            version,
		ID:                 fmt.Sprintf("%d-%d-%d", term, index, s.next),
		Index:              index,
		Term:               term,
		Configuration:      conf.Clone(),
		ConfigurationIndex: confIndex,
	}}, nil
}

func (s *memorySnapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*raft.SnapshotMeta
	for _, k := range s.kept {
		meta := k.meta
		out = append(out, &meta)
	}
	return out, nil
}

func (s *memorySnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kept {
		if k.meta.ID == id {
			meta := k.meta
			return &meta, io.NopCloser(bytes.NewReader(k.data)), nil
		}
	}
	return nil, nil, fmt.Errorf("disk: no snapshot %q", id)
}

// copy returns the complete snapshots, which are immutable.
func (s *memorySnapshots) copy() *memorySnapshots {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &memorySnapshots{next: s.next, kept: slices.Clone(s.kept)}
}

// keep adds a complete snapshot and deletes the oldest ones beyond snapshotsKept.
func (s *memorySnapshots) keep(k *memorySink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = slices.Insert(s.kept, 0, k)
	slices.SortStableFunc(s.kept, func(a, b *memorySink) int {
		if a.meta.Term != b.meta.Term {
			return cmp.Compare(b.meta.Term, a.meta.Term)
		}
		return cmp.Compare(b.meta.Index, a.meta.Index)
	})
	s.kept = s.kept[:min(len(s.kept), snapshotsKept)]
}

// memorySink is a snapshot that is written until Close.
type memorySink struct {
	s      *memorySnapshots
	meta   raft.SnapshotMeta
	data   []byte
	closed bool
}

// Write appends to the snapshot.
func (k *memorySink) Write(b []byte) (int, error) {
	k.data = append(k.data, b...)
	return len(b), nil
}

// Close completes the snapshot.
func (k *memorySink) Close() error {
	if k.closed {
		return nil
	}
	k.closed = true
	k.meta.Size = int64(len(k.data))
	k.s.keep(k)
	return nil
}

// ID returns the name of the snapshot.
func (k *memorySink) ID() string { return k.meta.ID }

// Cancel discards the snapshot.
func (k *memorySink) Cancel() error {
	k.closed = true
	return nil
}
