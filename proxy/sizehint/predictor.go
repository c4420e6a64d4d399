package sizehint

import (
	"hash/maphash"
	"sync/atomic"

	"shardway/proxy/h1"
)

const (
	// slotCount is the number of paths that are remembered.
	slotCount = 4 << 10
	// For an unknown path, the probability of a large response is estimated from previous responses
	// to unknown paths. Predictor.largeProbability contains it in units of 1/certain, and each such
	// response moves it by 1/adaptationDivisor of the difference. Above largeThreshold, the
	// response is expected to be large. The threshold is low because a wrong guess costs more for
	// one large response than for several small ones.
	certain           = 1 << 10
	adaptationDivisor = 16
	largeThreshold    = certain / 32
)

// Predictor remembers for each request path whether its last response was large. The caller decides
// which responses are large. The zero value is ready for use after SetSeed.
type Predictor struct {
	seed             maphash.Seed
	largeProbability atomic.Int32
	// slots contains the last response in each slot: the hash of method and path, with the lowest bit
	// set if the response was large.
	slots [slotCount]atomic.Uint64
}

// SetSeed sets the seed of the hashes. It must be called before any other method.
func (p *Predictor) SetSeed(seed maphash.Seed) { p.seed = seed }

// Key returns the hash under which the response to a request is remembered.
func (p *Predictor) Key(req *h1.Request) uint64 {
	var hash maphash.Hash
	hash.SetSeed(p.seed)
	_ = hash.WriteByte(req.Method()[0]) // never fails
	_, _ = hash.Write(req.Path())       // never fails
	return hash.Sum64() | 1
}

// slot returns the slot for a key. Keys share slots; a slot contains the key recorded last.
func (p *Predictor) slot(key uint64) *atomic.Uint64 { return &p.slots[key/2%slotCount] }

// ExpectsLarge reports whether the response to req is likely to be large. If the path is not
// remembered, it compares the estimated probability with largeThreshold.
func (p *Predictor) ExpectsLarge(req *h1.Request) bool {
	key := p.Key(req)
	if recorded := p.slot(key).Load(); recorded|1 == key { // the slot remembers this path
		return recorded&1 != 0
	}
	return p.largeProbability.Load() > largeThreshold
}

// Record records whether the response to the request with this key was large.
func (p *Predictor) Record(key uint64, large bool) {
	slot := p.slot(key)
	previous := slot.Load()
	recorded := key // the lowest bit of a key is always 1; in a slot it marks a large response
	if !large {
		recorded = key &^ 1
	}
	if previous|1 != key {
		probability := p.largeProbability.Load()
		step := -probability / adaptationDivisor
		if large {
			step = (certain - probability) / adaptationDivisor
		}
		// If several goroutines change the probability at once, one of the changes is enough.
		p.largeProbability.CompareAndSwap(probability, probability+step)
	}
	if previous != recorded {
		slot.Store(recorded)
	}
}
