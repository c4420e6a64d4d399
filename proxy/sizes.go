package proxy

import (
	"hash/maphash"
	"sync/atomic"

	"shardway/proxy/h1"
)

const (
	// largeSealed and largePlain are the response sizes above which a separate connection is
	// cheaper than a multiplexed stream, with and without TLS between the nodes. A stream copies
	// the data two more times, but needs fewer TLS records and system calls.
	largeSealed = 16 << 10
	largePlain  = 8 << 10
	// sizesKept is the number of paths that are remembered.
	sizesKept = 4 << 10
	// For a path that is not remembered, the proxy estimates the probability that its response is
	// large, from the responses to such paths so far. odds contains it in units of 1/oddsWhole.
	// Each such response changes it by 1/oddsPace of the difference. Above oddsLarge the response
	// is expected to be large. The threshold is low, because a wrong guess costs more for a large
	// response than for several small ones.
	oddsWhole = 1 << 10
	oddsPace  = 16
	oddsLarge = oddsWhole / 32
)

// sizes remembers for each request path whether the response of another node was large. The result
// is only a guess; a wrong guess costs some time and nothing else.
type sizes struct {
	seed maphash.Seed
	odds atomic.Int32
	at   [sizesKept]atomic.Uint64 // last response in each slot: hash of method and path, with the lowest bit set if it was large
}

// key returns the hash under which the response to a request is remembered.
func (s *sizes) key(r *h1.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_ = h.WriteByte(r.Method()[0]) // never fails
	_, _ = h.Write(r.Path())       // as above
	return h.Sum64() | 1
}

// place returns the slot for a key. Several keys share a slot, which contains the last of them.
func (s *sizes) place(key uint64) *atomic.Uint64 { return &s.at[key/2%sizesKept] }

// large reports whether the answer to r is likely to be large.
func (s *sizes) large(r *h1.Request) bool {
	key := s.key(r)
	if known := s.place(key).Load(); known|1 == key {
		return known&1 != 0
	}
	return s.odds.Load() > oddsLarge
}

// note records whether the response to the request with this key was large.
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
		s.odds.CompareAndSwap(odds, odds+step) // if other goroutines change odds at the same time, one of the changes is enough
	}
	if known != now {
		at.Store(now)
	}
}

// isLarge reports whether a response of received bytes is cheaper on a separate connection.
func (l *upstreamConn) isLarge(received int64) bool {
	if l.unencrypted {
		return received > largePlain
	}
	return received > largeSealed
}
