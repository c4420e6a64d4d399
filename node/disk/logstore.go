package disk

import (
	"errors"

	"github.com/hashicorp/raft"
)

// logStore is a guarded raft.LogStore.
type logStore struct {
	g *guard
	s raft.LogStore
}

var _ raft.LogStore = (*logStore)(nil)

// FirstIndex implements raft.LogStore.
func (l *logStore) FirstIndex() (uint64, error) {
	var n uint64
	err := l.g.read("read first log index", nil, func() (err error) {
		n, err = l.s.FirstIndex()
		return err
	})
	return n, err
}

// LastIndex implements raft.LogStore.
func (l *logStore) LastIndex() (uint64, error) {
	var n uint64
	err := l.g.read("read last log index", nil, func() (err error) {
		n, err = l.s.LastIndex()
		return err
	})
	return n, err
}

// GetLog passes raft.ErrLogNotFound on to Raft, which then sends the follower a snapshot.
func (l *logStore) GetLog(index uint64, log *raft.Log) error {
	return l.g.read("read log entry", isLogNotFound, func() error { return l.s.GetLog(index, log) })
}

// isLogNotFound reports whether err means that the log does not contain an entry.
func isLogNotFound(err error) bool { return errors.Is(err, raft.ErrLogNotFound) }

// StoreLog implements raft.LogStore.
func (l *logStore) StoreLog(log *raft.Log) error {
	return l.g.write("write log", func() error { return l.s.StoreLog(log) })
}

// StoreLogs implements raft.LogStore.
func (l *logStore) StoreLogs(logs []*raft.Log) error {
	return l.g.write("write log", func() error { return l.s.StoreLogs(logs) })
}

// DeleteRange deletes the entries from first to last. Raft passes the zero that FirstIndex
// returns for an empty log, which not every store accepts.
func (l *logStore) DeleteRange(first, last uint64) error {
	if first == 0 {
		return nil
	}
	return l.g.write("delete log entries", func() error { return l.s.DeleteRange(first, last) })
}
