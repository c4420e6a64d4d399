package registry

import (
	"maps"
	"slices"
	"strings"
)

// State is the replicated state of the registry. The zero value is not usable; use NewState.
type State struct {
	index   uint64 // of the last applied entry
	locks   map[string]*Lock
	waiters int // of all locks
	values  map[string]Value
	bytes   int               // of all keys and values
	workers map[string]uint32 // worker ID by node
}

// NewState returns an empty registry.
func NewState() *State {
	return &State{locks: map[string]*Lock{}, values: map[string]Value{}, workers: map[string]uint32{}}
}

// Index returns the index of the last applied entry.
func (s *State) Index() uint64 { return s.index }

// Outcome is what a command has done.
type Outcome string

// The outcomes of commands.
const (
	Done     Outcome = "done"
	Queued   Outcome = "queued"    // the holder waits for the lock
	Held     Outcome = "held"      // another holder has the lock
	NotHeld  Outcome = "not-held"  // the lock does not have this holder and token
	Conflict Outcome = "conflict"  // the key has another index
	NotFound Outcome = "not-found" // the key does not exist
	Full     Outcome = "full"      // a limit of the registry is reached, see Result.Limit
	Ignored  Outcome = "ignored"   // the command came too late
)

// Result is the outcome of a command.
type Result struct {
	Outcome Outcome `json:"outcome"`
	// Index is the index of the entry.
	Index uint64 `json:"index"`
	// Lock is the lock after an Acquire or a Renew, without its waiters.
	Lock Lock `json:"lock,omitzero"`
	// Position is the place in the queue after an Acquire, from 1; zero means that the holder does not wait.
	Position int `json:"position,omitempty"`
	// ValueIndex is the index of the key before a conflict; zero means that the key does not exist.
	ValueIndex uint64 `json:"value_index,omitempty"`
	// WorkerID is the result of AssignWorker.
	WorkerID uint32 `json:"worker_id,omitempty"`
	// Limit describes the limit that is reached, for the outcome Full.
	Limit string `json:"limit,omitempty"`
	// Freed is set if the command has ended a holder, for the metrics.
	Freed bool `json:"freed,omitempty"`
}

// Apply applies the encoded command of the log entry at an index. After an error, the state is unchanged and the node
// must stop.
func (s *State) Apply(index uint64, data []byte) (Result, error) {
	c, err := DecodeCommand(data)
	if err != nil {
		return Result{}, err
	}
	s.index = index
	result := s.apply(&c)
	result.Index = index
	return result, nil
}

// apply performs a command at s.index.
func (s *State) apply(c *Command) Result {
	switch c.Kind {
	case Acquire:
		return s.acquire(c)
	case Renew:
		return s.renew(c)
	case Release:
		return s.release(c)
	case Withdraw:
		return s.withdraw(c)
	case Expire:
		return s.expire(c)
	case ExpireWaiter:
		return s.expireWaiter(c)
	case Put:
		return s.put(c)
	case Delete:
		return s.delete(c)
	case AssignWorker:
		return s.assignWorker(c.Name)
	case ReleaseWorker:
		return s.releaseWorker(c.Name)
	}
	return Result{Outcome: Ignored}
}

// Value is a value of the key-value store. Data must not be modified.
type Value struct {
	Index uint64 // of the entry that has written it
	Data  []byte
}

// Value returns the value of a key.
func (s *State) Value(key string) (Value, bool) {
	v, exists := s.values[key]
	return v, exists
}

// Keys returns the keys with a prefix, sorted.
func (s *State) Keys(prefix string) []string {
	var keys []string
	for key := range s.values {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Bytes returns the number of bytes of all keys and values.
func (s *State) Bytes() int { return s.bytes }

// put writes a value.
func (s *State) put(c *Command) Result {
	old, exists := s.values[c.Name]
	if c.Compare && old.Index != c.Index {
		return Result{Outcome: Conflict, ValueIndex: old.Index}
	}
	size := s.bytes + len(c.Value) - len(old.Data)
	if !exists {
		size += len(c.Name)
	}
	switch {
	case !exists && len(s.values) >= MaxKeys:
		return Result{Outcome: Full, Limit: limitText(MaxKeys, "keys in the key-value store")}
	case size > MaxBytes:
		return Result{Outcome: Full, Limit: limitText(MaxBytes, "bytes of keys and values in the key-value store")}
	}
	s.bytes = size
	s.values[c.Name] = Value{Index: s.index, Data: c.Value}
	return Result{Outcome: Done}
}

// delete deletes a key.
func (s *State) delete(c *Command) Result {
	old, exists := s.values[c.Name]
	switch {
	case c.Compare && old.Index != c.Index:
		return Result{Outcome: Conflict, ValueIndex: old.Index}
	case !exists:
		return Result{Outcome: NotFound}
	}
	s.bytes -= len(c.Name) + len(old.Data)
	delete(s.values, c.Name)
	return Result{Outcome: Done}
}

// WorkerID returns the worker ID of a node.
func (s *State) WorkerID(node string) (uint32, bool) {
	id, exists := s.workers[node]
	return id, exists
}

// Workers returns a copy of the worker IDs by node.
func (s *State) Workers() map[string]uint32 { return maps.Clone(s.workers) }

// assignWorker gives a node the lowest free worker ID, unless the node has one.
func (s *State) assignWorker(node string) Result {
	if id, exists := s.workers[node]; exists {
		return Result{Outcome: Done, WorkerID: id}
	}
	used := make([]bool, MaxWorkers)
	for _, id := range s.workers {
		used[id] = true
	}
	id := slices.Index(used, false)
	if id < 0 {
		return Result{Outcome: Full, Limit: limitText(MaxWorkers, "worker IDs")}
	}
	s.workers[node] = uint32(id)
	return Result{Outcome: Done, WorkerID: uint32(id)}
}

// releaseWorker frees the worker ID of a node.
func (s *State) releaseWorker(node string) Result {
	if _, exists := s.workers[node]; !exists {
		return Result{Outcome: Ignored}
	}
	delete(s.workers, node)
	return Result{Outcome: Done}
}
