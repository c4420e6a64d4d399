package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// Memory is a data directory without files, for tests in simulated time. It keeps
// everything that was written before Crash or Close.
type Memory struct {
	mu     sync.Mutex
	files  map[string][]byte
	dir    *Dir
	locked bool

	log           *raft.InmemStore
	snapshots     *memorySnapshots
	currentStores *faultyStores // stores of the current user, nil before the first OpenStores
	storeFault    atomic.Pointer[Fault]
	// fileFault applies to files other than the stores.
	fileFault atomic.Pointer[Fault]
	readFault atomic.Pointer[Fault]
}

var _ backend = (*Memory)(nil)

// NewMemory returns an empty directory.
func NewMemory() *Memory {
	return &Memory{files: make(map[string][]byte), log: raft.NewInmemStore(), snapshots: &memorySnapshots{}}
}

// Open opens the directory like the function Open: locked, and with the next boot number.
func (m *Memory) Open(wantNode string) (*Dir, error) {
	m.mu.Lock()
	if m.locked {
		m.mu.Unlock()
		return nil, errors.New("disk: data directory is in use")
	}
	m.locked = true
	m.mu.Unlock()
	dir, err := loadDir(m, wantNode)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.dir = dir
	m.mu.Unlock()
	return dir, nil
}

// Crash detaches the directory from the node that has it open: later writes of that node are lost,
// and Open may be called again.
func (m *Memory) Crash() error {
	m.mu.Lock()
	dir := m.dir
	m.mu.Unlock()
	if dir == nil {
		return nil
	}
	return dir.Close()
}

// SetStoreFault sets the Fault for writes to the stores. Nil removes it.
func (m *Memory) SetStoreFault(f Fault) {
	if f == nil {
		m.storeFault.Store(nil)
		return
	}
	m.storeFault.Store(&f)
}

// SetReadFault sets the Fault for reads of files other than the stores. It gets the file
// name. Nil removes it.
func (m *Memory) SetReadFault(f Fault) {
	if f == nil {
		m.readFault.Store(nil)
		return
	}
	m.readFault.Store(&f)
}

// SetFileFault sets the Fault for writes to files other than the stores. It gets the file
// name. Nil removes it.
func (m *Memory) SetFileFault(f Fault) {
	if f == nil {
		m.fileFault.Store(nil)
		return
	}
	m.fileFault.Store(&f)
}

// read returns a copy of the content of a file, or the error of SetReadFault.
func (m *Memory) read(name string) ([]byte, error) {
	if f := m.readFault.Load(); f != nil {
		if err := (*f)(name); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.files[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return slices.Clone(data), nil
}

func (m *Memory) write(name string, data []byte) error {
	if f := m.fileFault.Load(); f != nil {
		if err := (*f)(name); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = slices.Clone(data)
	return nil
}

func (m *Memory) rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[to] = m.files[from]
	delete(m.files, from)
	return nil
}

func (m *Memory) path(string) string { return "" }

func (m *Memory) usedFile() string { return "" }

func (m *Memory) openStores(StoreOptions) (rawStores, error) {
	f := &faultyStores{InmemStore: m.log, fault: &m.storeFault}
	m.mu.Lock()
	m.currentStores = f
	m.mu.Unlock()
	return rawStores{logs: f, stable: f, snapshots: m.snapshots, close: func() error { return nil }}, nil
}

func (m *Memory) unlock() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dir, m.locked = nil, false
	if m.currentStores != nil {
		m.currentStores.detached.Store(true)
	}
	return nil
}

// Copy returns a copy of the current content that is not open, like a backup of a disk.
func (m *Memory) Copy() (*Memory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clone := NewMemory()
	for name, data := range m.files {
		clone.files[name] = slices.Clone(data)
	}
	for _, key := range []string{"CurrentTerm", keyVote} { // all keys that Raft uses
		if v, err := m.log.Get([]byte(key)); err == nil {
			if err := clone.log.Set([]byte(key), v); err != nil {
				return nil, err
			}
		}
		if v, err := m.log.GetUint64([]byte(key)); err == nil {
			if err := clone.log.SetUint64([]byte(key), v); err != nil {
				return nil, err
			}
		}
	}
	clone.snapshots = m.snapshots.copy()
	first, _ := m.log.FirstIndex() // an InmemStore returns no error
	last, _ := m.log.LastIndex()
	for i := first; i <= last && last > 0; i++ {
		var logCopy raft.Log
		if err := m.log.GetLog(i, &logCopy); err != nil {
			return nil, fmt.Errorf("disk: copy entry %d: %w", i, err)
		}
		if err := clone.log.StoreLog(&logCopy); err != nil {
			return nil, err
		}
	}
	return clone, nil
}
