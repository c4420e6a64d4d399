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

// Memory is a data directory without files, for tests in simulated time. It
// keeps everything that was written before a Crash or Close.
type Memory struct {
	mu     sync.Mutex
	files  map[string][]byte
	dir    *Dir
	locked bool

	log   *raft.InmemStore
	snaps *memorySnapshots
	fault atomic.Pointer[Fault]
}

var _ backend = (*Memory)(nil)

// NewMemory returns an empty directory.
func NewMemory() *Memory {
	return &Memory{files: make(map[string][]byte), log: raft.NewInmemStore(), snaps: &memorySnapshots{}}
}

// Open opens it like Open does a directory: locked, and with the next boot.
func (m *Memory) Open(wantNode string) (*Dir, error) {
	m.mu.Lock()
	if m.locked {
		m.mu.Unlock()
		return nil, errors.New("disk: data directory is in use")
	}
	m.locked = true
	m.mu.Unlock()
	d, err := open(m, wantNode)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.dir = d
	m.mu.Unlock()
	return d, nil
}

// Crash takes the directory away from the node that has it open: what that node
// still tries to write is lost, and Open may be called again.
func (m *Memory) Crash() error {
	m.mu.Lock()
	d := m.dir
	m.mu.Unlock()
	if d == nil {
		return nil
	}
	return d.Close()
}

// SetFault makes every write of the stores ask f first; nil ends that.
func (m *Memory) SetFault(f Fault) {
	if f == nil {
		m.fault.Store(nil)
		return
	}
	m.fault.Store(&f)
}

func (m *Memory) read(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.files[name]
	if !ok {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return slices.Clone(data), nil
}

func (m *Memory) write(name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = slices.Clone(data)
	return nil
}

func (m *Memory) path(string) string { return "" }

func (m *Memory) foreign() string { return "" }

func (m *Memory) stores(StoreOptions) (rawStores, error) {
	f := &faulty{InmemStore: m.log, fault: &m.fault}
	return rawStores{logs: f, stable: f, snaps: m.snaps, close: func() error { return nil }}, nil
}

func (m *Memory) unlock() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dir, m.locked = nil, false
	return nil
}
