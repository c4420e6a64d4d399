package proxy

import (
	"sync"
	"time"

	"shardway/proxy/route"
	"shardway/proxy/shardkey"
	"shardway/shardmap"
)

const (
	// MaxImplicated is the maximum number of keys that are implicated in the crash of a process. If
	// requests for more keys were in progress, it is not possible to find the key that caused the
	// crash.
	MaxImplicated = 8
	// gatherWreck is how long this node waits for other broken connections to the same process
	// before it reports the crash.
	gatherWreck = 250 * time.Millisecond
	// maxWrecks is the maximum number of crashed processes that are remembered. wreckFor is how
	// long they are remembered; it is longer than a request is retried.
	maxWrecks = 256
	wreckFor  = time.Minute
)

// Wreck describes a crash of a process of another node. It contains the keys of those requests of
// this node's clients that were in progress there, without a response header, when the connections
// broke.
type Wreck struct {
	Node string
	Boot uint64
	// Keys contains 1 to MaxImplicated keys.
	Keys []Implicated
}

// Implicated is a key that had a request in progress: its shard and its shardkey.Hash.
type Implicated struct {
	Shard shardmap.Shard `json:"shard"`
	Hash  uint64         `json:"hash"`
}

// wrecks collects broken connections by process. It is empty except for a short time after a crash.
type wrecks struct {
	tell func(Wreck) // called for each Wreck; nil means that nothing is reported

	mu struct {
		sync.Mutex
		by    map[process]*wreck
		order []*wreck // in the order of their time, oldest first
	}
}

// process identifies one process of a node.
type process struct {
	node string
	boot uint64
}

type wreck struct {
	process
	at   time.Time
	keys map[Implicated]struct{} // wrecks.mu protects it; MaxImplicated+1 entries mean too many keys
}

// note records that a connection to the process p broke while a request for key was in progress. It
// returns the wreck of that process.
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

// implicates reports whether w has few enough keys for each of them to be implicated.
func (x *wrecks) implicates(w *wreck) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(w.keys) <= MaxImplicated
}

// settle reports w after gatherWreck, unless w has too many keys.
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

// wrecked records that the connection of an attempt has broken, and reports whether the request
// must not be sent again. Otherwise, a request that crashes every process which runs it could crash
// the processes of all nodes. Therefore the request is not sent again if its key is implicated in
// two crashes: an earlier one, and now another one. Several broken connections to the same process
// count as one crash. A connection that this node has aborted, for example because the owner was
// unreachable, does not count.
func (c *client) wrecked(p *attempt, why cause) bool {
	if why != causeNone || p.route.Kind != route.Remote || c.x.Keyless || c.x.responsesBegun != p.responsesBefore {
		return false
	}
	key := Implicated{Shard: c.x.shard, Hash: shardkey.Hash(c.s.o.HashKey(), c.x.Key)}
	w := c.s.wrecks.note(process{p.route.Node, p.conn.boot}, key)
	earlier := c.x.wreck
	c.x.wreck = w
	if earlier == nil || earlier == w {
		return false
	}
	return c.s.wrecks.implicates(earlier)
}
