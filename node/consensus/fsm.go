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

// FSM is the replicated state. Raft calls it from one goroutine at a time, and
// from Open's before that; no method may block or call Raft.
type FSM interface {
	// Apply takes a committed entry. After a restart old entries come again.
	Apply(index, term uint64, data []byte) any
	// Snapshot returns the whole state.
	Snapshot() ([]byte, error)
	// Restore takes the place of all the entries that the snapshot stands for.
	Restore(data []byte) error
}

// A snapshot is a head and the state:
//
//	magic 4 | version 1 | index 8 | sha256 of the state 32 | state
//
// The library's own checksum covers what a disk gives back, not what another
// server sent.
const (
	magic        = "SWS\n"
	snapVersion  = 1
	headLen      = len(magic) + 1 + 8 + sha256.Size
	maxSnapshot  = 256 << 20
	indexAt      = len(magic) + 1
	checksumFrom = indexAt + 8
)

// machine adapts an FSM.
type machine struct {
	fsm FSM
	// applied is the index of the last entry that the FSM has taken. Raft's own
	// AppliedIndex moves before.
	applied atomic.Uint64
}

var _ raft.FSM = (*machine)(nil)

// Apply gives one entry to the FSM.
func (m *machine) Apply(l *raft.Log) any {
	v := m.fsm.Apply(l.Index, l.Term, l.Data)
	m.applied.Store(l.Index)
	return v
}

// Snapshot encodes the state. It is taken whole at once: Apply goes on while it
// is written.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	state, err := m.fsm.Snapshot()
	if err != nil {
		return nil, err
	}
	return &snapshot{head: head(m.applied.Load(), state), state: state}, nil
}

// Restore checks a snapshot and gives it to the FSM.
func (m *machine) Restore(r io.ReadCloser) error {
	b, err := io.ReadAll(io.LimitReader(r, maxSnapshot+1))
	if err != nil {
		return fmt.Errorf("consensus: read snapshot: %w", err)
	}
	index, state, err := open(b)
	if err != nil {
		return err
	}
	if err := m.fsm.Restore(state); err != nil {
		return fmt.Errorf("consensus: restore snapshot at index %d: %w", index, err)
	}
	m.applied.Store(index)
	return nil
}

func head(index uint64, state []byte) []byte {
	b := make([]byte, 0, headLen)
	b = append(b, magic...)
	b = append(b, snapVersion)
	b = binary.BigEndian.AppendUint64(b, index)
	sum := sha256.Sum256(state)
	return append(b, sum[:]...)
}

// open checks the head and returns what is behind it.
func open(b []byte) (index uint64, state []byte, err error) {
	switch {
	case len(b) > maxSnapshot:
		return 0, nil, fmt.Errorf("consensus: snapshot is larger than %d bytes", maxSnapshot)
	case len(b) < headLen || string(b[:len(magic)]) != magic:
		return 0, nil, errors.New("consensus: not a snapshot")
	case b[len(magic)] != snapVersion:
		return 0, nil, fmt.Errorf("consensus: snapshot has version %d, this program knows version %d", b[len(magic)], snapVersion)
	}
	state = b[headLen:]
	if sum := sha256.Sum256(state); !bytes.Equal(sum[:], b[checksumFrom:headLen]) {
		return 0, nil, errors.New("consensus: snapshot is damaged: wrong checksum")
	}
	return binary.BigEndian.Uint64(b[indexAt:checksumFrom]), state, nil
}

// snapshot is a state on its way to the disk.
type snapshot struct{ head, state []byte }

var _ raft.FSMSnapshot = (*snapshot)(nil)

// Persist writes it.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	for _, b := range [][]byte{s.head, s.state} {
		if _, err := sink.Write(b); err != nil {
			return errors.Join(err, sink.Cancel())
		}
	}
	return sink.Close()
}

// Release does nothing: the state is garbage like any other.
func (s *snapshot) Release() {}
