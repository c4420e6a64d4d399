package loadstats

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/topk"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

const (
	// maxLoadShards and maxLoadKeys are the maximum numbers of shards and keys in a Load.
	maxLoadShards = 64
	maxLoadKeys   = 32
	// averagingTime is the time constant of the moving averages. After this time, an old value
	// still has a weight of about one third (1/e).
	averagingTime = 10 * time.Second
	// On average, one request in sampleInterval is sampled. Keys longer than maxSampledKeyLen bytes are not
	// counted by key. At most sampleSlotCount sampled keys are stored until the next Update.
	sampleInterval   = 16
	maxSampledKeyLen = 256
	sampleSlotCount  = 256
)

// Load describes the load of a node: its busiest shards and most requested keys, both in descending
// order.
type Load struct {
	Shards []ShardLoad `json:"shards"`
	Keys   []KeyLoad   `json:"keys"`
	// Limited has the keys with the most requests that exceeded a limit of their key at this owner.
	Limited []KeyLoad `json:"limited"`
}

// ShardLoad is the load of one shard, averaged over about ten seconds (averagingTime).
type ShardLoad struct {
	Shard    shardmap.Shard `json:"shard"`
	Requests float64        `json:"requests"` // finished requests per second
	Busy     float64        `json:"busy"`     // average number of requests in progress at the app
	Bytes    float64        `json:"bytes"`    // bytes per second, in both directions
	Sockets  int32          `json:"sockets"`  // number of open upgraded connections
}

// KeyLoad is an estimate, from a sample, of the requests per second for a key.
type KeyLoad struct {
	Shard    shardmap.Shard `json:"shard"`
	Hash     uint64         `json:"hash"`          // hash of the key; see shardkey.Hash
	Key      string         `json:"key,omitempty"` // set only if the access log contains keys
	Requests float64        `json:"requests"`
}

// Collector measures the load of a node. Requests only add to atomic counters and sample keys, so
// that they never wait for mu. Update and Snapshot compute the averages. The zero value counts
// nothing until Start is called.
type Collector struct {
	shards       []Counters // nil means that nothing is counted
	sampleSlots  []Sample
	nextSlot     atomic.Uint32
	samplesTaken atomic.Uint64 // number of samples, including those for which no slot was free

	mu         sync.Mutex
	lastUpdate time.Time
	rates      []shardRates
	keys       topk.Sketch
	limited    topk.Sketch
	sampleRate float64 // decayed rate of samples per second, including those for which no slot was free
}

// Counters contains the counters of one shard. They are never reset. Any goroutine may add to them.
type Counters struct {
	Requests   atomic.Int64 // finished requests
	Busy       atomic.Int64 // nanoseconds that requests spent at the app
	Bytes      atomic.Int64 // bytes in both directions
	WebSockets atomic.Int32 // number of open upgraded connections
}

// shardRates contains the counter values of one shard at the last update, and the averages computed
// from them. The order in both arrays is requests, busy time, bytes.
type shardRates struct {
	lastCounts [3]int64
	means      [3]float64 // per second
}

// Sample stores a sampled key until the next Update counts it.
type Sample struct {
	state atomic.Uint32 // slotFree, slotLocked or slotFull
	key   []byte
}

const (
	slotFree = iota
	slotLocked
	slotFull
)

// Start starts counting for the given number of shards.
func (c *Collector) Start(shardCount int) {
	if shardCount < 1 {
		return
	}
	c.shards, c.rates, c.sampleSlots = make([]Counters, shardCount), make([]shardRates, shardCount), make([]Sample, sampleSlotCount)
	for i := range c.sampleSlots {
		c.sampleSlots[i].key = make([]byte, 0, maxSampledKeyLen)
	}
	c.lastUpdate = time.Now()
}

// Counters returns the counters of a shard. It returns nil if the shard is not counted.
func (c *Collector) Counters(shard shardmap.Shard) *Counters {
	if int(shard) >= len(c.shards) {
		return nil
	}
	return &c.shards[shard]
}

// Bytes returns the total number of bytes of counted requests, in both directions.
func (c *Collector) Bytes() int64 {
	var total int64
	for i := range c.shards {
		total += c.shards[i].Bytes.Load()
	}
	return total
}

// WebSockets returns the number of open upgraded connections to the app.
func (c *Collector) WebSockets() (total int) {
	for i := range c.shards {
		total += int(c.shards[i].WebSockets.Load())
	}
	return total
}

// Sample stores the key of one request in sampleInterval, chosen at random. It drops the key if no
// slot is free, but still counts the sample in the rate. The result is nil if the key was not stored.
func (c *Collector) Sample(key []byte) *Sample {
	if len(c.sampleSlots) == 0 || rand.Uint32()%sampleInterval != 0 { //nolint:gosec // no secret
		return nil
	}
	c.samplesTaken.Add(1)
	slot := &c.sampleSlots[c.nextSlot.Add(1)%sampleSlotCount]
	if len(key) > maxSampledKeyLen || !slot.state.CompareAndSwap(slotFree, slotLocked) {
		return nil
	}
	slot.key = append(slot.key[:0], key...)
	slot.state.Store(slotFull)
	return slot
}

// MoveTo moves the sample to another key, unless it has already been counted. from is the key that
// was stored. s may be nil.
func (s *Sample) MoveTo(from, to []byte) {
	if s == nil || !s.state.CompareAndSwap(slotFull, slotLocked) {
		return
	}
	isOfRequest := bytes.Equal(s.key, from) // otherwise the slot contains the key of a later request
	if isOfRequest && len(to) > maxSampledKeyLen {
		s.state.Store(slotFree)
		return
	}
	if isOfRequest {
		s.key = append(s.key[:0], to...)
	}
	s.state.Store(slotFull)
}

// CountLimited counts a request that exceeded a limit of its key. It ignores long keys.
func (c *Collector) CountLimited(key []byte) {
	if c.shards == nil || len(key) > maxSampledKeyLen {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limited.Add(key)
}

// Update updates the averages and counts the sampled keys. It does nothing if the previous update
// was less than a second ago.
func (c *Collector) Update(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	elapsed := now.Sub(c.lastUpdate)
	if elapsed < time.Second || c.shards == nil {
		return
	}
	c.lastUpdate = now
	oldWeight := math.Exp(-elapsed.Seconds() / averagingTime.Seconds())
	for i := range c.shards {
		s, rates := &c.shards[i], &c.rates[i]
		for j, count := range [3]int64{s.Requests.Load(), s.Busy.Load(), s.Bytes.Load()} {
			rates.means[j] = rates.means[j]*oldWeight + float64(count-rates.lastCounts[j])/elapsed.Seconds()*(1-oldWeight)
			rates.lastCounts[j] = count
		}
	}
	c.sampleRate = c.sampleRate*oldWeight + float64(c.samplesTaken.Swap(0))/elapsed.Seconds()*(1-oldWeight)
	for i := range c.sampleSlots {
		if s := &c.sampleSlots[i]; s.state.CompareAndSwap(slotFull, slotLocked) {
			c.keys.Add(s.key)
			s.state.Store(slotFree)
		}
	}
	// Scale down the new samples together with the old ones, because the previous update may have
	// been an hour ago.
	c.keys.Scale(oldWeight)
	c.limited.Scale(oldWeight)
}

// Snapshot returns the current load. Keys are hashed with hashKey (see shardkey.Hash). If
// includeKeys is false, the result contains only the hashes and not the keys themselves.
func (c *Collector) Snapshot(hashKey []byte, includeKeys bool) Load {
	c.Update(time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	load := Load{Shards: []ShardLoad{}, Keys: []KeyLoad{}, Limited: []KeyLoad{}}
	for i := range c.rates {
		means, sockets := c.rates[i].means, c.shards[i].WebSockets.Load()
		if means[0] < 0.001 && sockets == 0 {
			continue
		}
		load.Shards = append(load.Shards, ShardLoad{
			Shard: shardmap.Shard(i), Requests: means[0], Busy: means[1] / float64(time.Second), Bytes: means[2], Sockets: sockets,
		})
	}
	slices.SortFunc(load.Shards, func(a, b ShardLoad) int {
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Sockets, a.Sockets), cmp.Compare(a.Shard, b.Shard))
	})
	load.Shards = load.Shards[:min(len(load.Shards), maxLoadShards)]
	describe := func(entry topk.Item, requests float64) KeyLoad {
		keyLoad := KeyLoad{Shard: shardmap.ShardOf(entry.Key, len(c.shards)), Hash: shardkey.Hash(hashKey, []byte(entry.Key)), Requests: requests}
		if includeKeys {
			keyLoad.Key = entry.Key
		}
		return keyLoad
	}
	for _, entry := range c.keys.Top(maxLoadKeys) {
		load.Keys = append(load.Keys, describe(entry, entry.Count/c.keys.Total()*c.sampleRate*sampleInterval))
	}
	for _, entry := range c.limited.Top(maxLoadKeys) {
		load.Limited = append(load.Limited, describe(entry, entry.Count/averagingTime.Seconds()))
	}
	return load
}
