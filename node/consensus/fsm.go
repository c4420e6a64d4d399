package consensus

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// FSM is the replicated state. The library calls it from one goroutine at a time, also during
// Open. Its methods must not block or call Raft.
type FSM interface {
	// Apply applies a committed entry. After a restart it receives old entries again.
	Apply(index, term uint64, data []byte) any
	// Snapshot returns the whole state.
	Snapshot() ([]byte, error)
	// Restore replaces the state by that of a snapshot.
	Restore(data []byte) error
}

// A snapshot has a header and the state:
//
//	magic 4 | version 1 | index 8 | sha256 of the state 32 | state
//
// The checksum of the library protects the data on disk, but not data from another server.
const (
	magic        = "SWS\n"
	snapVersion  = 1
	headerLen    = len(magic) + 1 + 8 + sha256.Size
	maxSnapshot  = 256 << 20
	indexAt      = len(magic) + 1
	checksumFrom = indexAt + 8
)

// fsmAdapter adapts an FSM to the library.
type fsmAdapter struct {
	fsm FSM
	// applied is the index of the last entry that the FSM has applied. AppliedIndex of the library is
	// increased before that.
	applied atomic.Uint64
}

var _ raft.FSM = (*fsmAdapter)(nil)

// Apply applies one entry.
func (m *fsmAdapter) Apply(l *raft.Log) any {
	v := m.fsm.Apply(l.Index, l.Term, l.Data)
	m.applied.Store(l.Index)
	return v
}

// Snapshot encodes the complete state at once, so that Apply can continue while it is written.
func (m *fsmAdapter) Snapshot() (raft.FSMSnapshot, error) {
	state, err := m.fsm.Snapshot()
	if err != nil {
		return nil, err
	}
	return &snapshot{header: encodeHeader(m.applied.Load(), state), state: state}, nil
}

// Restore verifies a snapshot and passes its state to the FSM.
func (m *fsmAdapter) Restore(r io.ReadCloser) error {
	b, err := io.ReadAll(io.LimitReader(r, maxSnapshot+1))
	if err != nil {
		return fmt.Errorf("consensus: read snapshot: %w", err)
	}
	index, state, err := decodeSnapshot(b)
	if err != nil {
		return err
	}
	if err := m.fsm.Restore(state); err != nil {
		return fmt.Errorf("consensus: restore snapshot at index %d: %w", index, err)
	}
	m.applied.Store(index)
	return nil
}

// encodeHeader returns the header of a snapshot.
func encodeHeader(index uint64, state []byte) []byte {
	b := make([]byte, 0, headerLen)
	b = append(b, magic...)
	b = append(b, snapVersion)
	b = binary.BigEndian.AppendUint64(b, index)
	sum := sha256.Sum256(state)
	return append(b, sum[:]...)
}

// decodeSnapshot verifies the header of a snapshot and returns its state.
func decodeSnapshot(b []byte) (index uint64, state []byte, err error) {
	switch {
	case len(b) > maxSnapshot:
		return 0, nil, fmt.Errorf("consensus: snapshot is larger than %d bytes", maxSnapshot)
	case len(b) < headerLen || string(b[:len(magic)]) != magic:
		return 0, nil, errors.New("consensus: not a snapshot")
	case b[len(magic)] != snapVersion:
		return 0, nil, fmt.Errorf("consensus: snapshot has version %d, this program knows version %d", b[len(magic)], snapVersion)
	}
	state = b[headerLen:]
	if sum := sha256.Sum256(state); !bytes.Equal(sum[:], b[checksumFrom:headerLen]) {
		return 0, nil, errors.New("consensus: snapshot is damaged: wrong checksum")
	}
	return binary.BigEndian.Uint64(b[indexAt:checksumFrom]), state, nil
}

// snapshot is an encoded state that is being written to disk.
type snapshot struct{ header, state []byte }

var _ raft.FSMSnapshot = (*snapshot)(nil)

// Persist writes the snapshot to a sink.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	for _, b := range [][]byte{s.header, s.state} {
		if _, err := sink.Write(b); err != nil {
			return errors.Join(err, sink.Cancel())
		}
	}
	return sink.Close()
}

// Release does nothing, because the garbage collector frees the state.
func (s *snapshot) Release() {}
