package disk

import (
	"errors"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Fault is called for a write to the stores of a Memory. It can block, to simulate a hung
// disk, and return an error, to simulate a broken one.
type Fault func(op string) error

// faultyStores are the stores of a Memory with fault injection, as opened by one process.
type faultyStores struct {
	*raft.InmemStore
	fault *atomic.Pointer[Fault]
	// detached is set when the process loses the directory: a write that its fault delayed must
	// not reach the stores of the next process.
	detached atomic.Bool
}

var errProcessGone = errors.New("the process that wrote is gone")

var (
	_ raft.LogStore    = (*faultyStores)(nil)
	_ raft.StableStore = (*faultyStores)(nil)
)

// inject calls the Fault for a write, if there is one. It returns an error if the write must not happen.
func (f *faultyStores) inject(op string) error {
	if fault := f.fault.Load(); fault != nil {
		if err := (*fault)(op); err != nil {
			return err
		}
	}
	if f.detached.Load() {
		return errProcessGone
	}
	return nil
}

// StoreLog stores a log entry, unless the Fault returns an error.
func (f *faultyStores) StoreLog(log *raft.Log) error { return f.StoreLogs([]*raft.Log{log}) }

// StoreLogs stores log entries, unless the Fault returns an error.
func (f *faultyStores) StoreLogs(logs []*raft.Log) error {
	if err := f.inject("write log"); err != nil {
		return err
	}
	return f.InmemStore.StoreLogs(logs)
}

// DeleteRange deletes log entries, unless the Fault returns an error.
func (f *faultyStores) DeleteRange(first, last uint64) error {
	if err := f.inject("delete log entries"); err != nil {
		return err
	}
	return f.InmemStore.DeleteRange(first, last)
}

// Set stores a value, unless the Fault returns an error.
func (f *faultyStores) Set(key, val []byte) error {
	if err := f.inject("write vote"); err != nil {
		return err
	}
	return f.InmemStore.Set(key, val)
}

// SetUint64 stores a number, unless the Fault returns an error.
func (f *faultyStores) SetUint64(key []byte, val uint64) error {
	if err := f.inject("write term"); err != nil {
		return err
	}
	return f.InmemStore.SetUint64(key, val)
}
