package disk

import (
	"errors"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Fault decides what becomes of a write to a Memory's stores: it may wait, as a
// hung disk does, and return an error, as a broken one does.
type Fault func(op string) error

// faulty are a Memory's stores behind its Fault, as one process has them open.
type faulty struct {
	*raft.InmemStore
	fault *atomic.Pointer[Fault]
	// gone is set when the directory is taken from the process: a write that its
	// fault held back must not reach what the next one reads.
	gone atomic.Bool
}

var errGone = errors.New("the process that wrote is gone")

var (
	_ raft.LogStore    = (*faulty)(nil)
	_ raft.StableStore = (*faulty)(nil)
)

func (f *faulty) meet(op string) error {
	if p := f.fault.Load(); p != nil {
		if err := (*p)(op); err != nil {
			return err
		}
	}
	if f.gone.Load() {
		return errGone
	}
	return nil
}

// StoreLog is a write.
func (f *faulty) StoreLog(l *raft.Log) error { return f.StoreLogs([]*raft.Log{l}) }

// StoreLogs is a write.
func (f *faulty) StoreLogs(ls []*raft.Log) error {
	if err := f.meet("write log"); err != nil {
		return err
	}
	return f.InmemStore.StoreLogs(ls)
}

// DeleteRange is a write.
func (f *faulty) DeleteRange(first, last uint64) error {
	if err := f.meet("delete log entries"); err != nil {
		return err
	}
	return f.InmemStore.DeleteRange(first, last)
}

// Set is a write.
func (f *faulty) Set(key, val []byte) error {
	if err := f.meet("write vote"); err != nil {
		return err
	}
	return f.InmemStore.Set(key, val)
}

// SetUint64 is a write.
func (f *faulty) SetUint64(key []byte, val uint64) error {
	if err := f.meet("write term"); err != nil {
		return err
	}
	return f.InmemStore.SetUint64(key, val)
}
