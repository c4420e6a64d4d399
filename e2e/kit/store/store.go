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

// MaxValue bounds a value, in bytes.
const MaxValue = 64

// idle is how long the store keeps a connection that carries nothing.
const idle = time.Minute

// Applied is one write that took effect.
type Applied struct {
	// At is a reading of history.Now.
	At     int64
	Shard  uint32
	Epoch  uint64
	Key    string
	Value  string
	Writer string
}

// Store is a fenced key-value store behind HTTP. Its methods may run on any
// goroutine.
type Store struct {
	addr string
	srv  *http.Server
	done chan struct{} // closed when the server has ended

	mu      sync.Mutex
	closed  bool
	newest  map[uint32]uint64 // per shard
	values  map[string]string
	last    map[turn]int64
	applied []Applied
	refused int
}

// turn is whose operations on a key come one after the other.
type turn struct {
	key, writer string
	epoch       uint64
}

// Listen starts a store at addr ("host:port"; port 0 takes a free one).
func Listen(addr string) (*Store, error) {
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	s := &Store{
		addr: ln.Addr().String(), done: make(chan struct{}),
		newest: make(map[uint32]uint64), values: make(map[string]string), last: make(map[turn]int64),
	}
	// A client that vanishes in the middle of a request leaves nothing behind.
	s.srv = &http.Server{Handler: http.HandlerFunc(s.serve), ReadTimeout: 10 * time.Second, IdleTimeout: idle}
	go func() {
		defer close(s.done)
		_ = s.srv.Serve(ln) // ends by Close
	}()
	return s, nil
}

// URL is what an app takes as --store.
func (s *Store) URL() string { return "http://" + s.addr }

// Close ends the store. Nothing is applied after it has returned.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	err := s.srv.Close()
	<-s.done
	return err
}

// Applied lists the writes that took effect, in their order. It is never nil.
func (s *Store) Applied() []Applied {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Applied{}, s.applied...)
}

// Refused counts the operations under an older epoch than their shard's newest.
func (s *Store) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// serve reads the whole request before it looks at the fence: what a client did
// not finish was never asked for.
func (s *Store) serve(w http.ResponseWriter, r *http.Request) {
	p, err := parsePlace(r.URL.Query())
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
		err = s.write(p, string(body))
	} else {
		value, err = s.read(p)
	}
	switch {
	case errors.Is(err, ErrFenced), errors.Is(err, errOvertaken):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		_, _ = io.WriteString(w, value) //nolint:gosec // no browser reads it
	}
}

func (s *Store) read(p Place) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(p); err != nil {
		return "", err
	}
	return s.values[p.Key], nil
}

func (s *Store) write(p Place, value string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(p); err != nil {
		return err
	}
	s.values[p.Key] = value
	s.applied = append(s.applied, Applied{
		At: history.Now(), Shard: p.Shard, Epoch: p.Epoch, Key: p.Key, Value: value, Writer: p.Writer,
	})
	return nil
}

// enter is the fence. It is called with mu held, in one step with what follows.
func (s *Store) enter(p Place) error {
	if s.closed {
		return errClosed
	}
	if p.Epoch < s.newest[p.Shard] && !p.Unfenced {
		s.refused++
		return ErrFenced
	}
	t := turn{key: p.Key, writer: p.Writer, epoch: p.Epoch}
	if p.Asked <= s.last[t] {
		return errOvertaken
	}
	if !p.Unfenced {
		s.newest[p.Shard] = p.Epoch
	}
	s.last[t] = p.Asked
	return nil
}
