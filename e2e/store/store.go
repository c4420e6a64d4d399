//go:build linux

package store

import "errors"

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
type Store struct{}

// Listen starts a store at addr ("host:port"; port 0 takes a free one).
func Listen(addr string) (*Store, error) { return nil, errors.New("store: not built yet: " + addr) }

// URL is what an app takes as --store.
func (s *Store) URL() string { return "" }

// Applied lists the writes that took effect, in their order.
func (s *Store) Applied() []Applied { return nil }

// Refused counts the operations under an older epoch than their shard's newest.
func (s *Store) Refused() int { return 0 }

// Close ends the store. Nothing is applied after it has returned.
func (s *Store) Close() error { return nil }
