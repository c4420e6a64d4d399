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
	// crashReportDelay is how long this node waits for other broken connections to the same
	// process before it reports the crash.
	crashReportDelay = 250 * time.Millisecond
	// maxCrashes is the maximum number of crashed processes that are remembered. crashRetention is
	// how long they are remembered; it is longer than a request is retried.
	maxCrashes     = 256
	crashRetention = time.Minute
)

// Crash describes a crash of a process of another node. It contains the keys of those requests of
// this node's clients that were in progress there, without a response header, when the connections
// broke.
type Crash struct {
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

// crashRecords collects broken connections by process. It is empty except for a short time after a crash.
type crashRecords struct {
	report func(Crash) // called for each crash; nil means that nothing is reported

	mu struct {
		sync.Mutex
		byProcess map[process]*crashRecord
		order     []*crashRecord // in the order of their time, oldest first
	}
}

// process identifies one process of a node.
type process struct {
	node string
	boot uint64
}

// crashRecord contains the keys whose requests were in progress at a process when its connections
// broke.
type crashRecord struct {
	process
	firstBreak time.Time               // when the first connection to the process broke
	keys       map[Implicated]struct{} // crashRecords.mu protects it; MaxImplicated+1 entries mean too many keys
}

// record records that a connection to the process p broke while a request for key was in progress.
// It returns the record of that process.
func (x *crashRecords) record(p process, key Implicated) *crashRecord {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	for len(x.mu.order) > 0 && (len(x.mu.order) >= maxCrashes || now.Sub(x.mu.order[0].firstBreak) > crashRetention) {
		delete(x.mu.byProcess, x.mu.order[0].process)
		x.mu.order = x.mu.order[1:]
	}
	w := x.mu.byProcess[p]
	if w == nil {
		w = &crashRecord{process: p, firstBreak: now, keys: map[Implicated]struct{}{}}
		if x.mu.byProcess == nil {
			x.mu.byProcess = map[process]*crashRecord{}
		}
		x.mu.byProcess[p] = w
		x.mu.order = append(x.mu.order, w)
		if x.report != nil {
			time.AfterFunc(crashReportDelay, func() { x.reportCrash(w) })
		}
	}
	if len(w.keys) <= MaxImplicated {
		w.keys[key] = struct{}{}
	}
	return w
}

// implicates reports whether w has few enough keys for each of them to be implicated.
func (x *crashRecords) implicates(w *crashRecord) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(w.keys) <= MaxImplicated
}

// reportCrash calls report with w, unless w has too many keys.
func (x *crashRecords) reportCrash(w *crashRecord) {
	x.mu.Lock()
	crash := Crash{Node: w.node, Boot: w.boot}
	for k := range w.keys {
		crash.Keys = append(crash.Keys, k)
	}
	x.mu.Unlock()
	if len(crash.Keys) <= MaxImplicated {
		x.report(crash)
	}
}

// recordCrash records that the connection of an attempt has broken, and returns whether the request
// must not be sent again. Otherwise, a request that crashes every process which runs it could crash
// the processes of all nodes. Therefore the request is not sent again if its key is implicated in
// two crashes: an earlier one, and now another one. Several broken connections to the same process
// count as one crash. A connection that this node has aborted, for example because the owner was
// unreachable, does not count.
func (c *client) recordCrash(p *attempt, why cause) (poisonous bool) {
	if why != causeNone || p.route.Kind != route.Remote || c.exchange.Keyless || c.exchange.responsesBegun != p.responsesBefore {
		return false
	}
	key := Implicated{Shard: c.exchange.shard, Hash: shardkey.Hash(c.server.options.HashKey(), c.exchange.Key)}
	w := c.server.crashes.record(process{p.route.Node, p.conn.boot}, key)
	earlier := c.exchange.lastCrash
	c.exchange.lastCrash = w
	if earlier == nil || earlier == w {
		return false
	}
	return c.server.crashes.implicates(earlier)
}
