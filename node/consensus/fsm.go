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

// FSM is the replicated state. The Raft library calls it from one goroutine at a time, even during
// Open. Its methods must not block or call Raft.
type FSM interface {
	// Apply applies a committed entry. After a restart, it receives old entries again.
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
// The Raft library's own checksum protects data on disk, but not data from another server.
const (
	snapshotMagic     = "SWS\n"
	snapshotVersion   = 1
	snapshotHeaderLen = len(snapshotMagic) + 1 + 8 + sha256.Size
	maxSnapshotBytes  = 256 << 20
	indexOffset       = len(snapshotMagic) + 1
	checksumOffset    = indexOffset + 8
)

// fsmAdapter adapts an FSM to the Raft library.
type fsmAdapter struct {
	fsm FSM
	// applied is the index of the last entry that the FSM has applied. The Raft library increases
	// its AppliedIndex before that.
	applied atomic.Uint64
}

var _ raft.FSM = (*fsmAdapter)(nil)

// Apply applies one entry.
func (a *fsmAdapter) Apply(entry *raft.Log) any {
	result := a.fsm.Apply(entry.Index, entry.Term, entry.Data)
	a.applied.Store(entry.Index)
	return result
}

// Snapshot encodes the complete state at once, so that Apply can continue while it is written.
func (a *fsmAdapter) Snapshot() (raft.FSMSnapshot, error) {
	state, err := a.fsm.Snapshot()
	if err != nil {
		return nil, err
	}
	return &snapshot{header: encodeHeader(a.applied.Load(), state), state: state}, nil
}

// Restore verifies a snapshot and passes its state to the FSM.
func (a *fsmAdapter) Restore(reader io.ReadCloser) error {
	data, err := io.ReadAll(io.LimitReader(reader, maxSnapshotBytes+1))
	if err != nil {
		return fmt.Errorf("consensus: read snapshot: %w", err)
	}
	index, state, err := decodeSnapshot(data)
	if err != nil {
		return err
	}
	if err := a.fsm.Restore(state); err != nil {
		return fmt.Errorf("consensus: restore snapshot at index %d: %w", index, err)
	}
	a.applied.Store(index)
	return nil
}

// encodeHeader returns the header of a snapshot.
func encodeHeader(index uint64, state []byte) []byte {
	header := make([]byte, 0, snapshotHeaderLen)
	header = append(header, snapshotMagic...)
	header = append(header, snapshotVersion)
	header = binary.BigEndian.AppendUint64(header, index)
	sum := sha256.Sum256(state)
	return append(header, sum[:]...)
}

// decodeSnapshot verifies the header of a snapshot and returns its state.
func decodeSnapshot(data []byte) (index uint64, state []byte, err error) {
	switch {
	case len(data) > maxSnapshotBytes:
		return 0, nil, fmt.Errorf("consensus: snapshot is larger than %d bytes", maxSnapshotBytes)
	case len(data) < snapshotHeaderLen || string(data[:len(snapshotMagic)]) != snapshotMagic:
		return 0, nil, errors.New("consensus: not a snapshot")
	case data[len(snapshotMagic)] != snapshotVersion:
		return 0, nil, fmt.Errorf("consensus: snapshot has version %d, this program supports version %d", data[len(snapshotMagic)], snapshotVersion)
	}
	state = data[snapshotHeaderLen:]
	if sum := sha256.Sum256(state); !bytes.Equal(sum[:], data[checksumOffset:snapshotHeaderLen]) {
		return 0, nil, errors.New("consensus: snapshot is damaged: wrong checksum")
	}
	return binary.BigEndian.Uint64(data[indexOffset:checksumOffset]), state, nil
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
