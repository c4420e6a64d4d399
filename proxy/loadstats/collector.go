package loadstats

import (
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
	// loadMemory is the time constant of the moving averages: after this time, an old value still
	// has a weight of one third.
	loadMemory = 10 * time.Second
	// One request in sampleOne has its key sampled, unless the key is longer than sampleKey bytes.
	// Up to sampleSlots sampled keys wait to be counted.
	sampleOne   = 16
	sampleKey   = 256
	sampleSlots = 256
)

// Load is the load of a node: the busiest shards that it runs, and the keys that its clients
// request most often. Both lists are in descending order.
type Load struct {
	Shards []ShardLoad `json:"shards"`
	Keys   []KeyLoad   `json:"keys"`
}

// ShardLoad is the load of a shard, averaged over about ten seconds.
type ShardLoad struct {
	Shard    shardmap.Shard `json:"shard"`
	Requests float64        `json:"requests"` // finished requests per second
	Busy     float64        `json:"busy"`     // average number of requests in progress at the app
	Bytes    float64        `json:"bytes"`    // bytes per second, in both directions
	Sockets  int32          `json:"sockets"`  // upgraded connections at the moment
}

// KeyLoad is an estimate, from a sample, of the requests per second for a key.
type KeyLoad struct {
	Shard    shardmap.Shard `json:"shard"`
	Hash     uint64         `json:"hash"`          // hash of the key; see shardkey.Hash
	Key      string         `json:"key,omitempty"` // set only if the access log contains keys
	Requests float64        `json:"requests"`
}

// Collector counts the load of a node. Requests only add to atomic counters and sample keys. Update
// and Snapshot compute the averages from them. The zero value counts nothing until Start.
type Collector struct {
	shards []Counters // nil means that nothing is counted
	slots  []sample
	next   atomic.Uint32
	seen   atomic.Uint64 // number of samples, including those for which no slot was free

	mu    sync.Mutex
	last  time.Time
	rates []rates
	keys  topk.Sketch
	scale float64 // decayed rate of samples per second, including those for which no slot was free
}

// Counters contains the counters of a shard. They are never reset. Any goroutine may add to them.
type Counters struct {
	Requests   atomic.Int64 // finished requests
	Busy       atomic.Int64 // nanoseconds that requests spent at the app
	Bytes      atomic.Int64 // bytes in both directions
	WebSockets atomic.Int32 // upgraded connections at the moment
}

// rates contains the counters at the time of the last update, and the averages computed from them.
type rates struct {
	counted [3]int64
	mean    [3]float64 // per second
}

// sample is a slot for a sampled key that has not been counted yet.
type sample struct {
	state atomic.Uint32 // sampleFree, sampleTaken or sampleFull
	key   []byte
}

const (
	sampleFree = iota
	sampleTaken
	sampleFull
)

// Start starts counting for the given number of shards.
func (l *Collector) Start(shards int) {
	if shards < 1 {
		return
	}
	l.shards, l.rates, l.slots = make([]Counters, shards), make([]rates, shards), make([]sample, sampleSlots)
	for i := range l.slots {
		l.slots[i].key = make([]byte, 0, sampleKey)
	}
	l.last = time.Now()
}

// Counters returns the counters of a shard. It returns nil if the shard is not counted.
func (l *Collector) Counters(shard shardmap.Shard) *Counters {
	if int(shard) >= len(l.shards) {
		return nil
	}
	return &l.shards[shard]
}

// Bytes returns the total number of bytes of counted requests, in both directions.
func (l *Collector) Bytes() int64 {
	var sum int64
	for i := range l.shards {
		sum += l.shards[i].Bytes.Load()
	}
	return sum
}

// WebSockets returns the number of upgraded connections to the app at the moment.
func (l *Collector) WebSockets() (n int) {
	for i := range l.shards {
		n += int(l.shards[i].WebSockets.Load())
	}
	return n
}

// Sample samples the key of one request in sampleOne. It drops the sample if no slot is free.
func (l *Collector) Sample(key []byte) {
	if len(l.slots) == 0 || rand.Uint32()%sampleOne != 0 { //nolint:gosec // no secret
		return
	}
	l.seen.Add(1)
	s := &l.slots[l.next.Add(1)%sampleSlots]
	if len(key) > sampleKey || !s.state.CompareAndSwap(sampleFree, sampleTaken) {
		return
	}
	s.key = append(s.key[:0], key...)
	s.state.Store(sampleFull)
}

// Update updates the averages and counts the sampled keys. It does nothing within a second of the
// previous update.
func (l *Collector) Update(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	took := now.Sub(l.last)
	if took < time.Second || l.shards == nil {
		return
	}
	l.last = now
	kept := math.Exp(-took.Seconds() / loadMemory.Seconds())
	for i := range l.shards {
		s, r := &l.shards[i], &l.rates[i]
		for j, n := range [3]int64{s.Requests.Load(), s.Busy.Load(), s.Bytes.Load()} {
			r.mean[j] = r.mean[j]*kept + float64(n-r.counted[j])/took.Seconds()*(1-kept)
			r.counted[j] = n
		}
	}
	l.scale = l.scale*kept + float64(l.seen.Swap(0))/took.Seconds()*(1-kept)
	for i := range l.slots {
		if s := &l.slots[i]; s.state.CompareAndSwap(sampleFull, sampleTaken) {
			l.keys.Add(s.key)
			s.state.Store(sampleFree)
		}
	}
	l.keys.Scale(kept) // this also fades the new samples, because the previous update may have been an hour ago
}

// Snapshot returns the present load. hashKey is the key of the hashes in it (see shardkey.Hash).
// Without withKeys, it contains no keys but only their hashes.
func (l *Collector) Snapshot(hashKey []byte, withKeys bool) Load {
	l.Update(time.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	out := Load{Shards: []ShardLoad{}, Keys: []KeyLoad{}}
	for i := range l.rates {
		m, sockets := l.rates[i].mean, l.shards[i].WebSockets.Load()
		if m[0] < 0.001 && sockets == 0 {
			continue
		}
		out.Shards = append(out.Shards, ShardLoad{
			Shard: shardmap.Shard(i), Requests: m[0], Busy: m[1] / float64(time.Second), Bytes: m[2], Sockets: sockets,
		})
	}
	slices.SortFunc(out.Shards, func(a, b ShardLoad) int {
		return cmp.Or(cmp.Compare(b.Busy, a.Busy), cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Sockets, a.Sockets), cmp.Compare(a.Shard, b.Shard))
	})
	out.Shards = out.Shards[:min(len(out.Shards), maxLoadShards)]
	for _, k := range l.keys.Top(maxLoadKeys) {
		x := KeyLoad{
			Shard: shardmap.ShardOf(k.Key, len(l.shards)), Hash: shardkey.Hash(hashKey, []byte(k.Key)),
			Requests: k.Count / l.keys.Total() * l.scale * sampleOne,
		}
		if withKeys {
			x.Key = k.Key
		}
		out.Keys = append(out.Keys, x)
	}
	return out
}
