package disk

import (
	"errors"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Fault is called for a write to the stores of a Memory. It can block, to simulate a hung
// disk, and return an error, to simulate a broken one.
type Fault func(op string) error

// faulty are the stores of a Memory with fault injection, as opened by one process.
type faulty struct {
	*raft.InmemStore
	fault *atomic.Pointer[Fault]
	// detached is set when the process loses the directory: a write that its fault delayed must
	// not reach the stores of the next process.
	detached atomic.Bool
}

var errGone = errors.New("the process that wrote is gone")

var (
	_ raft.LogStore    = (*faulty)(nil)
	_ raft.StableStore = (*faulty)(nil)
)

// inject calls the Fault for a write, if there is one. It returns an error if the write must not happen.
func (f *faulty) inject(op string) error {
	if p := f.fault.Load(); p != nil {
		if err := (*p)(op); err != nil {
			return err
		}
	}
	if f.detached.Load() {
		return errGone
	}
	return nil
}

// StoreLog is subject to the Fault.
func (f *faulty) StoreLog(l *raft.Log) error { return f.StoreLogs([]*raft.Log{l}) }

// StoreLogs is subject to the Fault.
func (f *faulty) StoreLogs(ls []*raft.Log) error {
	if err := f.inject("write log"); err != nil {
		return err
	}
	return f.InmemStore.StoreLogs(ls)
}

// DeleteRange is subject to the Fault.
func (f *faulty) DeleteRange(first, last uint64) error {
	if err := f.inject("delete log entries"); err != nil {
		return err
	}
	return f.InmemStore.DeleteRange(first, last)
}

// Set is subject to the Fault.
func (f *faulty) Set(key, val []byte) error {
	if err := f.inject("write vote"); err != nil {
		return err
	}
	return f.InmemStore.Set(key, val)
}

// SetUint64 is subject to the Fault.
func (f *faulty) SetUint64(key []byte, val uint64) error {
	if err := f.inject("write term"); err != nil {
		return err
	}
	return f.InmemStore.SetUint64(key, val)
}
