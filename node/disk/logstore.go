package disk

import (
	"errors"

	"github.com/hashicorp/raft"
)

// logStore is a guarded raft.LogStore.
type logStore struct {
	guard *guard
	store raft.LogStore
}

var _ raft.LogStore = (*logStore)(nil)

// FirstIndex implements raft.LogStore.
func (l *logStore) FirstIndex() (uint64, error) {
	var index uint64
	err := l.guard.read("read first log index", nil, func() (err error) {
		index, err = l.store.FirstIndex()
		return err
	})
	return index, err
}

// LastIndex implements raft.LogStore.
func (l *logStore) LastIndex() (uint64, error) {
	var index uint64
	err := l.guard.read("read last log index", nil, func() (err error) {
		index, err = l.store.LastIndex()
		return err
	})
	return index, err
}

// GetLog passes raft.ErrLogNotFound on to Raft, which then sends the follower a snapshot.
func (l *logStore) GetLog(index uint64, log *raft.Log) error {
	return l.guard.read("read log entry", isLogNotFound, func() error { return l.store.GetLog(index, log) })
}

// isLogNotFound reports whether err means that the log does not contain an entry.
func isLogNotFound(err error) bool { return errors.Is(err, raft.ErrLogNotFound) }

// StoreLog implements raft.LogStore.
func (l *logStore) StoreLog(log *raft.Log) error {
	return l.guard.write("write log", func() error { return l.store.StoreLog(log) })
}

// StoreLogs implements raft.LogStore.
func (l *logStore) StoreLogs(logs []*raft.Log) error {
	return l.guard.write("write log", func() error { return l.store.StoreLogs(logs) })
}

// DeleteRange deletes the entries from first to last. Raft passes the zero that FirstIndex
// returns for an empty log, which not every store accepts.
func (l *logStore) DeleteRange(first, last uint64) error {
	if first == 0 {
		return nil
	}
	return l.guard.write("delete log entries", func() error { return l.store.DeleteRange(first, last) })
}
