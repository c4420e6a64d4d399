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
	// busiest is how many shards a Load names, and loudest how many keys.
	busiest = 64
	loudest = 32
	// loadMemory is the time after which what was counts for a third: rates are means
	// over about so long.
	loadMemory = 10 * time.Second
	// One request in sampleOne has its key looked at, if that has at most sampleKey
	// bytes, and sampleSlots wait to be counted.
	sampleOne   = 16
	sampleKey   = 256
	sampleSlots = 256
)

// Load is what a node has to do: the busiest shards that it runs, and the keys that its
// clients ask for most, both with the most first.
type Load struct {
	Shards []ShardLoad `json:"shards"`
	Keys   []KeyLoad   `json:"keys"`
}

// ShardLoad is the load of a shard, as means over about ten seconds.
type ShardLoad struct {
	Shard    shardmap.Shard `json:"shard"`
	Requests float64        `json:"requests"` // ended per second
	Busy     float64        `json:"busy"`     // that ran at once, at the app
	Bytes    float64        `json:"bytes"`    // per second, both ways
	Sockets  int32          `json:"sockets"`  // upgraded connections now
}

// KeyLoad is an estimate, from a sample, of the requests per second for a key.
type KeyLoad struct {
	Shard    shardmap.Shard `json:"shard"`
	Hash     uint64         `json:"hash"`          // see KeyHash
	Key      string         `json:"key,omitempty"` // only if the access log has keys
	Requests float64        `json:"requests"`
}

// loads counts. Requests add to atomics alone, and what reads them is the sweep's
// business, or that of who asks.
type loads struct {
	shards []shardLoad // nil: nothing is counted
	slots  []sample
	next   atomic.Uint32
	seen   atomic.Uint64 // samples, those too that found no slot

	mu    sync.Mutex
	last  time.Time
	rates []rates
	keys  topk.Sketch
	scale float64 // decayed samples, those too that found no slot
}

// shardLoad is counted up for ever.
type shardLoad struct {
	requests, busy, bytes atomic.Int64
	sockets               atomic.Int32
}

// rates are what was counted at the last look, and the means.
type rates struct {
	counted [3]int64
	mean    [3]float64 // per second
}

// sample is a key that waits to be counted.
type sample struct {
	state atomic.Uint32 // sampleFree, sampleTaken or sampleFull
	key   []byte
}

const (
	sampleFree = iota
	sampleTaken
	sampleFull
)

// start begins to count for so many shards.
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

// of returns where a request counts that runs here; nil: nowhere.
func (l *loads) of(x *exchange, way route.Kind) *shardLoad {
	if way != route.Local || x.Keyless || int(x.shard) >= len(l.shards) {
		return nil
	}
	return &l.shards[x.shard]
}

// runTimed runs a trip and keeps account of it.
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

// bindAttempt has a trip know the connection that its request came by.
func (c *client) bindAttempt(p *attempt) {
	p.slot, p.body, p.disconnect, p.responsesBefore = &c.slot, &c.body, &c.disconnect, c.x.responsesBegun
}

// runCounted is run, timed, and counted if it is here. An attempt that goes on elsewhere
// is none.
func (c *client) runCounted(p *attempt) decision {
	began, sent := c.startTimer()
	v := c.runByKind(p)
	c.recordRun(p, v, began, sent)
	return v
}

// startTimer returns what a run is counted from: when it set out, and what the client had been
// sent by then.
func (c *client) startTimer() (began time.Duration, sent int64) {
	return c.s.clock.exact(), c.conn.Sent() + int64(c.conn.Writer().Pending())
}

// recordRun counts a run that came to v.
func (c *client) recordRun(p *attempt, v decision, began time.Duration, sent int64) {
	switch v.action { //nolint:exhaustive // the others are no run
	case actionDone, actionNextStream:
		ended := c.s.clock.exact()
		c.recordLoad(p.route.Kind, ended-began, sent)
		if v.action == actionDone {
			c.x.ended = ended
		}
	case actionRelay:
		c.relay.webSocket.sent = sent // it is counted when the relay has ended
	}
}

// recordLoad counts a run that is over, and took so long. Sent is what the client had been sent before.
func (c *client) recordLoad(way route.Kind, took time.Duration, sent int64) {
	tunnel := c.x.account.status == 101 // which is no work
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

// bytes returns how many bytes of requests have been counted, both ways.
func (l *loads) bytes() int64 {
	var sum int64
	for i := range l.shards {
		sum += l.shards[i].bytes.Load()
	}
	return sum
}

// sample looks at a key now and then.
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

// look brings the means up to now. Less than a second after the last time it does nothing.
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
	l.keys.Fade(kept) // the new ones, too: nobody may have looked for an hour
}

// Load returns what this node has to do.
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
