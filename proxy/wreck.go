package proxy

import (
	"sync"
	"time"

	"shardway/proxy/route"
	"shardway/shardmap"
)

const (
	// MaxImplicated is how many keys may have been under way at a process that broke for
	// each of them to be implicated: of more, nobody can tell which it was.
	MaxImplicated = 8
	// gatherWreck is how long the requests that a process took with it have to be noticed.
	gatherWreck = 250 * time.Millisecond
	// maxWrecks bounds how many processes are remembered at once, and wreckFor for how
	// long: longer than a request is tried.
	maxWrecks = 256
	wreckFor  = time.Minute
)

// Wreck is what this node's clients had under way, without the head of an answer, at a
// process of another node over connections that broke.
type Wreck struct {
	Node string
	Boot uint64
	// Keys has 1 to MaxImplicated.
	Keys []Implicated
}

// Implicated is a key whose request was under way: its shard and its KeyHash.
type Implicated struct {
	Shard shardmap.Shard `json:"shard"`
	Hash  uint64         `json:"hash"`
}

// wrecks gathers what broke. Nothing is there but for a moment after it did.
type wrecks struct {
	tell func(Wreck) // nil: nobody wants to know

	mu struct {
		sync.Mutex
		by    map[process]*wreck
		order []*wreck // the oldest first
	}
}

// process is one of a node.
type process struct {
	node string
	boot uint64
}

type wreck struct {
	process
	at   time.Time
	keys map[Implicated]struct{} // with wrecks.mu held; MaxImplicated + 1 stand for more
}

// note notes a request that a process took with it.
func (x *wrecks) note(p process, key Implicated) *wreck {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	for len(x.mu.order) > 0 && (len(x.mu.order) >= maxWrecks || now.Sub(x.mu.order[0].at) > wreckFor) {
		delete(x.mu.by, x.mu.order[0].process)
		x.mu.order = x.mu.order[1:]
	}
	w := x.mu.by[p]
	if w == nil {
		w = &wreck{process: p, at: now, keys: map[Implicated]struct{}{}}
		if x.mu.by == nil {
			x.mu.by = map[process]*wreck{}
		}
		x.mu.by[p] = w
		x.mu.order = append(x.mu.order, w)
		if x.tell != nil {
			time.AfterFunc(gatherWreck, func() { x.settle(w) })
		}
	}
	if len(w.keys) <= MaxImplicated {
		w.keys[key] = struct{}{}
	}
	return w
}

// implicates reports whether few enough were under way at w.
func (x *wrecks) implicates(w *wreck) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(w.keys) <= MaxImplicated
}

// settle tells of a wreck that has been gathered.
func (x *wrecks) settle(w *wreck) {
	x.mu.Lock()
	told := Wreck{Node: w.node, Boot: w.boot}
	for k := range w.keys {
		told.Keys = append(told.Keys, k)
	}
	x.mu.Unlock()
	if len(told.Keys) <= MaxImplicated {
		x.tell(told)
	}
}

// wrecked notes that the connection of a trip has broken under the request, and reports
// whether that must not go again for it: a key that ends each process which runs it would
// end them all. It is implicated in the end of one process already, and was sent again
// since. What breaks with the same process over and over is one end, and what this node
// itself cut, because the owner was out of reach, is none.
func (c *client) wrecked(p *attempt, why cause) bool {
	if why != causeNone || p.route.Kind != route.Remote || c.x.Keyless || c.x.responsesBegun != p.responsesBefore {
		return false
	}
	key := Implicated{Shard: c.x.shard, Hash: KeyHash(c.s.o.HashKey(), c.x.Key)}
	w := c.s.wrecks.note(process{p.route.Node, p.conn.boot}, key)
	earlier := c.x.wreck
	c.x.wreck = w
	if earlier == nil || earlier == w {
		return false
	}
	return c.s.wrecks.implicates(earlier)
}
