// Package registrystore holds the replicated registry of a node, so that several goroutines can read it while Raft
// applies entries.
//
// Raft's goroutine calls Apply and Restore. All other methods may be called from any goroutine.
package registrystore

import (
	"context"
	"sync"

	"shardway/registry"
)

// Store is the registry of a node.
//
// If Raft restarts in the same process, it applies its log from an earlier snapshot again, and the registry goes back
// for a moment. A reader that needs certain entries therefore calls ReadAt with their index.
type Store struct {
	mu sync.RWMutex
	// mu protects the following fields.
	state   *registry.State
	changed chan struct{} // closed at the next change; nil means that no goroutine waits
}

// New returns a store with an empty registry.
func New() *Store { return &Store{state: registry.NewState()} }

// Apply applies a command, see registry.State.Apply.
func (s *Store) Apply(index uint64, command []byte) (registry.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	result, err := s.state.Apply(index, command)
	s.notifyLocked()
	return result, err
}

// Marshal returns the encoded registry.
func (s *Store) Marshal() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.state.Marshal()
}

// Restore replaces the registry by that of a snapshot.
func (s *Store) Restore(encoded []byte) error {
	state, err := registry.Decode(encoded)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
	s.notifyLocked()
	return nil
}

// notifyLocked wakes the goroutines that wait for a change.
func (s *Store) notifyLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Read calls f with the registry. f must not keep the state, and must not call the store.
func (s *Store) Read(f func(*registry.State)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	f(s.state)
}

// Changed returns a channel that is closed at the next change.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// Await calls f with the registry, now and after each change, until f returns true. It returns the error of ctx if ctx
// ends first.
func (s *Store) Await(ctx context.Context, f func(*registry.State) bool) error {
	for {
		changed := s.Changed() // before the read, so that no change is missed
		isDone := false
		s.Read(func(state *registry.State) { isDone = f(state) })
		if isDone {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// ReadAt calls f with the registry once the registry contains the entries up to index.
func (s *Store) ReadAt(ctx context.Context, index uint64, f func(*registry.State)) error {
	return s.Await(ctx, func(state *registry.State) bool {
		if state.Index() < index {
			return false
		}
		f(state)
		return true
	})
}
