package proxy

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"shardway/internal/topk"
	"shardway/proxy/route"
	"shardway/shardmap"
)

const (
	// busiest is the maximum number of shards in a Load, and loudest the maximum number of keys.
	busiest = 64
	loudest = 32
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
	Hash     uint64         `json:"hash"`          // hash of the key; see KeyHash
	Key      string         `json:"key,omitempty"` // set only if the access log contains keys
	Requests float64        `json:"requests"`
}

// loads counts the load of a node. Requests only add to atomic counters and sample keys. The sweep
// and callers of Load compute the averages from them.
type loads struct {
	shards []shardLoad // nil means that nothing is counted
	slots  []sample
	next   atomic.Uint32
	seen   atomic.Uint64 // number of samples, including those for which no slot was free

	mu    sync.Mutex
	last  time.Time
	rates []rates
	keys  topk.Sketch
	scale float64 // decayed rate of samples per second, including those for which no slot was free
}

// shardLoad contains the counters of a shard. They are never reset.
type shardLoad struct {
	requests, busy, bytes atomic.Int64
	sockets               atomic.Int32
}

// rates contains the counters at the time of the last look, and the averages computed from them.
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

// start starts counting for the given number of shards.
func (l *loads) start(shards int) {
	if shards < 1 {
		return
	}
	l.shards, l.rates, l.slots = make([]shardLoad, shards), make([]rates, shards), make([]sample, sampleSlots)
	for i := range l.slots {
		l.slots[i].key = make([]byte, 0, sampleKey)
	}
	l.last = time.Now()
}

// of returns the counters for a request that runs on the local app. It returns nil if the request
// is not counted.
func (l *loads) of(x *exchange, way route.Kind) *shardLoad {
	if way != route.Local || x.Keyless || int(x.shard) >= len(l.shards) {
		return nil
	}
	return &l.shards[x.shard]
}

// runTimed runs an attempt, and records its destination and duration for the access log.
func (c *client) runTimed(p *attempt) decision {
	c.bindAttempt(p)
	a := &c.x.account
	began := a.now()
	if !began.IsZero() {
		a.epoch = p.epoch
		if a.owner = c.s.o.Node; p.route.Kind == route.Remote {
			a.owner = p.route.Node
		}
	}
	v := c.runCounted(p)
	a.upstream += a.since(began)
	return v
}

// bindAttempt gives the attempt access to the state of the connection on which its request arrived.
func (c *client) bindAttempt(p *attempt) {
	p.slot, p.body, p.disconnect, p.responsesBefore = &c.slot, &c.body, &c.disconnect, c.x.responsesBegun
}

// runCounted runs an attempt, measures it, and counts it if it runs on the local app. An attempt
// that is followed by a retry is not counted.
func (c *client) runCounted(p *attempt) decision {
	began, sent := c.startTimer()
	v := c.runByKind(p)
	c.recordRun(p, v, began, sent)
	return v
}

// startTimer returns the values from which recordRun computes differences: the present time, and
// the number of bytes sent to the client so far.
func (c *client) startTimer() (began time.Duration, sent int64) {
	return c.s.clock.exact(), c.conn.Sent() + int64(c.conn.Writer().Pending())
}

// recordRun counts a run that has ended with the decision v. began and sent are the results of
// startTimer.
func (c *client) recordRun(p *attempt, v decision, began time.Duration, sent int64) {
	switch v.action { //nolint:exhaustive // all other actions mean that the run has no response
	case actionDone, actionNextStream:
		ended := c.s.clock.exact()
		c.recordLoad(p.route.Kind, ended-began, sent)
		if v.action == actionDone {
			c.x.ended = ended
		}
	case actionRelay:
		c.relay.webSocket.sent = sent // a relay is counted when it has ended
	}
}

// recordLoad counts a run that has ended after took. sent is the number of bytes that were sent to
// the client before it.
func (c *client) recordLoad(way route.Kind, took time.Duration, sent int64) {
	tunnel := c.x.account.status == 101 // an upgraded connection is idle most of the time, so its duration is no measure of load
	if !tunnel {
		c.s.metrics.upstream[way].Observe(took)
	}
	l := c.s.load.of(&c.x, way)
	if l == nil {
		return
	}
	l.requests.Add(1)
	l.bytes.Add(int64(len(c.req.Raw())) + c.req.Body.Received() + c.conn.Sent() + int64(c.conn.Writer().Pending()) - sent)
	if !tunnel {
		l.busy.Add(int64(took))
	}
}

// bytes returns the total number of bytes of counted requests, in both directions.
func (l *loads) bytes() int64 {
	var sum int64
	for i := range l.shards {
		sum += l.shards[i].bytes.Load()
	}
	return sum
}

// sample samples the key of one request in sampleOne. It drops the sample if no slot is free.
func (l *loads) sample(key []byte) {
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

// look updates the averages and counts the sampled keys. It does nothing within a second of the
// previous update.
func (l *loads) look(now time.Time) {
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
		for j, n := range [3]int64{s.requests.Load(), s.busy.Load(), s.bytes.Load()} {
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
	l.keys.Fade(kept) // this also fades the new samples, because the previous update may have been an hour ago
}

// Load returns the present load of this node.
func (s *Server) Load() Load {
	l := &s.load
	l.look(time.Now())
	set := s.set.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	out := Load{Shards: []ShardLoad{}, Keys: []KeyLoad{}}
	for i := range l.rates {
		m, sockets := l.rates[i].mean, l.shards[i].sockets.Load()
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
	out.Shards = out.Shards[:min(len(out.Shards), busiest)]
	for _, k := range l.keys.Top(loudest) {
		x := KeyLoad{
			Shard: shardmap.Of(k.Key, len(l.shards)), Hash: KeyHash(s.o.HashKey(), []byte(k.Key)),
			Requests: k.Count / l.keys.Total() * l.scale * sampleOne,
		}
		if set.Access != nil && set.Access.Keys {
			x.Key = k.Key
		}
		out.Keys = append(out.Keys, x)
	}
	return out
}
