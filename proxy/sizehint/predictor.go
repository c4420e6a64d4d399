package sizehint

import (
	"hash/maphash"
	"sync/atomic"

	"shardway/proxy/h1"
)

const (
	// slots is the number of paths that are remembered.
	slots = 4 << 10
	// For a path that is not remembered, the proxy estimates the probability that its response is
	// large, from the responses to such paths so far. odds contains it in units of 1/oddsWhole.
	// Each such response changes it by 1/oddsPace of the difference. Above oddsLarge the response
	// is expected to be large. The threshold is low, because a wrong guess costs more for a large
	// response than for several small ones.
	oddsWhole = 1 << 10
	oddsPace  = 16
	oddsLarge = oddsWhole / 32
)

// Predictor remembers for each request path whether its last response was large. What counts as
// large is the decision of the caller. The zero value is ready for use after SetSeed.
type Predictor struct {
	seed maphash.Seed
	odds atomic.Int32
	at   [slots]atomic.Uint64 // last response in each slot: hash of method and path, with the lowest bit set if it was large
}

// SetSeed sets the seed of the hashes. It must be called before any other method.
func (p *Predictor) SetSeed(seed maphash.Seed) { p.seed = seed }

// Key returns the hash under which the response to a request is remembered.
func (p *Predictor) Key(r *h1.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	_ = h.WriteByte(r.Method()[0]) // never fails
	_, _ = h.Write(r.Path())       // never fails
	return h.Sum64() | 1
}

// slot returns the slot for a key. Several keys share a slot, which contains the last of them.
func (p *Predictor) slot(key uint64) *atomic.Uint64 { return &p.at[key/2%slots] }

// Large reports whether the response to r is likely to be large.
func (p *Predictor) Large(r *h1.Request) bool {
	key := p.Key(r)
	if known := p.slot(key).Load(); known|1 == key {
		return known&1 != 0
	}
	return p.odds.Load() > oddsLarge
}

// Record records whether the response to the request with this key was large.
func (p *Predictor) Record(key uint64, large bool) {
	at := p.slot(key)
	known := at.Load()
	now := key
	if !large {
		now--
	}
	if known|1 != key {
		odds := p.odds.Load()
		step := -odds / oddsPace
		if large {
			step = (oddsWhole - odds) / oddsPace
		}
		p.odds.CompareAndSwap(odds, odds+step) // if other goroutines change odds at the same time, one of the changes is enough
	}
	if known != now {
		at.Store(now)
	}
}
