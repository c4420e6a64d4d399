package proxy

import (
	"hash/maphash"
	"sync/atomic"

	"shardway/proxy/h1"
)

const (
	// largeSealed and largePlain are the sizes from which on an answer costs less by a
	// connection of its own, with TLS between the nodes and without: a lane copies it twice
	// more, and saves records and system calls.
	largeSealed = 16 << 10
	largePlain  = 8 << 10
	// sizesKept is how many paths are remembered at once.
	sizesKept = 4 << 10
	// The odds that the answer of a path nobody has asked for before is large are in
	// parts of oddsWhole, and change by a part of oddsPace with each such answer. Above
	// oddsLarge it is taken for large: one that is costs more than some that are not.
	oddsWhole = 1 << 10
	oddsPace  = 16
	oddsLarge = oddsWhole / 32
)

// sizes remembers whether the answer to a path, from other nodes, was large. What it says
// is a guess, and costs time only.
type sizes struct {
	seed maphash.Seed
	odds atomic.Int32
	at   [sizesKept]atomic.Uint64 // what was seen last: hash of method and path, and in its last bit whether it was large
}

// key is what a request's answer is remembered by.
func (s *sizes) key(r *h1.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_ = h.WriteByte(r.Method()[0]) // never fails
	_, _ = h.Write(r.Path())       // as above
	return h.Sum64() | 1
}

// place returns what remembers a key, and others in its turn.
func (s *sizes) place(key uint64) *atomic.Uint64 { return &s.at[key/2%sizesKept] }

// large reports whether the answer to r is likely to be large.
func (s *sizes) large(r *h1.Request) bool {
	key := s.key(r)
	if known := s.place(key).Load(); known|1 == key {
		return known&1 != 0
	}
	return s.odds.Load() > oddsLarge
}

// note notes an answer to what is remembered by a key.
func (s *sizes) note(key uint64, large bool) {
	at := s.place(key)
	known := at.Load()
	now := key
	if !large {
		now--
	}
	if known|1 != key {
		odds := s.odds.Load()
		step := -odds / oddsPace
		if large {
			step = (oddsWhole - odds) / oddsPace
		}
		s.odds.CompareAndSwap(odds, odds+step) // one of several at a time will do
	}
	if known != now {
		at.Store(now)
	}
}

// isLarge reports whether what came over the link costs less by a connection of its own.
func (l *upstreamConn) isLarge(received int64) bool {
	if l.unencrypted {
		return received > largePlain
	}
	return received > largeSealed
}
