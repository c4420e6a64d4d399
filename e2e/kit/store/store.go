//go:build linux

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"shardway/e2e/kit/history"
)

// MaxValue is the maximum length of a value, in bytes.
const MaxValue = 64

// idleTimeout is how long the store keeps an idle connection.
const idleTimeout = time.Minute

// Applied is a write that took effect, as the log of the store contains it.
type Applied struct {
	// At is a value of history.Now.
	At     int64
	Shard  uint32
	Epoch  uint64
	Key    string
	Value  string
	Writer string
}

// Store is a fenced key-value store with an HTTP interface. Any goroutine may call its
// methods.
type Store struct {
	addr string
	srv  *http.Server
	done chan struct{} // closed when the server has ended

	// mu protects the following fields.
	mu           sync.Mutex
	isClosed     bool
	newestEpochs map[uint32]uint64    // highest epoch of an operation, by shard
	values       map[string]string    // by key
	lastCalls    map[opSequence]int64 // call time of the last executed operation
	applied      []Applied
	fencedCount  int // number of operations with an outdated epoch
}

// opSequence identifies the operations on one key that one app sends in one epoch. The store executes
// them in the order of their times.
type opSequence struct {
	key, writer string
	epoch       uint64
}

// Listen starts a store at addr ("host:port"; port 0 selects a free port).
func Listen(addr string) (*Store, error) {
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	store := &Store{
		addr: ln.Addr().String(), done: make(chan struct{}),
		newestEpochs: make(map[uint32]uint64), values: make(map[string]string), lastCalls: make(map[opSequence]int64),
	}
	// A request whose client disconnects before its end has no effect.
	store.srv = &http.Server{Handler: http.HandlerFunc(store.serve), ReadTimeout: 10 * time.Second, IdleTimeout: idleTimeout}
	go func() {
		defer close(store.done)
		_ = store.srv.Serve(ln) // ends after Close
	}()
	return store, nil
}

// URL returns the value for the flag --store of an app.
func (s *Store) URL() string { return "http://" + s.addr }

// Close ends the store. No write is applied after it has returned.
func (s *Store) Close() error {
	s.mu.Lock()
	s.isClosed = true
	s.mu.Unlock()
	err := s.srv.Close()
	<-s.done
	return err
}

// Applied returns the writes that took effect, in their order. The result is never nil.
func (s *Store) Applied() []Applied {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Applied{}, s.applied...)
}

// FencedCount returns the number of operations that were rejected because of an outdated epoch.
func (s *Store) FencedCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fencedCount
}

// serve reads the whole request before it checks the epoch, so an incomplete request has
// no effect.
func (s *Store) serve(w http.ResponseWriter, r *http.Request) {
	op, err := parseOpKey(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxValue))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var value string
	if r.Method == http.MethodPost {
		err = s.write(op, string(body))
	} else {
		value, err = s.read(op)
	}
	switch {
	case errors.Is(err, ErrFenced), errors.Is(err, errOutOfOrder):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		_, _ = io.WriteString(w, value) //nolint:gosec // no browser reads it
	}
}

// read executes a read, unless it must be rejected.
func (s *Store) read(op OpKey) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkFence(op); err != nil {
		return "", err
	}
	return s.values[op.Key], nil
}

// write executes a write, unless it must be rejected.
func (s *Store) write(op OpKey, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkFence(op); err != nil {
		return err
	}
	s.values[op.Key] = value
	s.applied = append(s.applied, Applied{
		At: history.Now(), Shard: op.Shard, Epoch: op.Epoch, Key: op.Key, Value: value, Writer: op.Writer,
	})
	return nil
}

// checkFence returns an error if an operation must be rejected: because its epoch is outdated, or
// because a later operation of its sequence was executed. mu must be held until the operation is done.
func (s *Store) checkFence(op OpKey) error {
	if s.isClosed {
		return errClosed
	}
	isOutdated := op.Epoch < s.newestEpochs[op.Shard]
	if isOutdated && !op.Unfenced {
		s.fencedCount++
		return ErrFenced
	}
	sequence := opSequence{key: op.Key, writer: op.Writer, epoch: op.Epoch}
	if op.CallTime <= s.lastCalls[sequence] {
		return errOutOfOrder
	}
	if !op.Unfenced {
		s.newestEpochs[op.Shard] = op.Epoch
	}
	s.lastCalls[sequence] = op.CallTime
	return nil
}
