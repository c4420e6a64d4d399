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
	open  *faulty // the stores of who has it open, nil before
	fault atomic.Pointer[Fault]
	// fileFault is that of the other files.
	fileFault atomic.Pointer[Fault]
	readFault atomic.Pointer[Fault]
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

// SetReadFault makes every read of a file beside the stores ask f, by its name, first;
// nil ends that.
func (m *Memory) SetReadFault(f Fault) {
	if f == nil {
		m.readFault.Store(nil)
		return
	}
	m.readFault.Store(&f)
}

// SetFileFault makes every write of a file beside the stores ask f, by its name,
// first; nil ends that.
func (m *Memory) SetFileFault(f Fault) {
	if f == nil {
		m.fileFault.Store(nil)
		return
	}
	m.fileFault.Store(&f)
}

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

func (m *Memory) foreign() string { return "" }

func (m *Memory) stores(StoreOptions) (rawStores, error) {
	f := &faulty{InmemStore: m.log, fault: &m.fault}
	m.mu.Lock()
	m.open = f
	m.mu.Unlock()
	return rawStores{logs: f, stable: f, snaps: m.snaps, close: func() error { return nil }}, nil
}

func (m *Memory) unlock() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dir, m.locked = nil, false
	if m.open != nil {
		m.open.gone.Store(true)
	}
	return nil
}

// Copy returns what the directory holds now, as another one that nobody has
// open: a backup of a disk.
func (m *Memory) Copy() (*Memory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMemory()
	for name, data := range m.files {
		c.files[name] = slices.Clone(data)
	}
	for _, key := range []string{"CurrentTerm", keyVote} { // all that Raft keeps there
		if v, err := m.log.Get([]byte(key)); err == nil {
			if err := c.log.Set([]byte(key), v); err != nil {
				return nil, err
			}
		}
		if v, err := m.log.GetUint64([]byte(key)); err == nil {
			if err := c.log.SetUint64([]byte(key), v); err != nil {
				return nil, err
			}
		}
	}
	c.snaps = m.snaps.copy()
	first, _ := m.log.FirstIndex() // neither has an error
	last, _ := m.log.LastIndex()
	for i := first; i <= last && last > 0; i++ {
		var l raft.Log
		if err := m.log.GetLog(i, &l); err != nil {
			return nil, fmt.Errorf("disk: copy entry %d: %w", i, err)
		}
		if err := c.log.StoreLog(&l); err != nil {
			return nil, err
		}
	}
	return c, nil
}
