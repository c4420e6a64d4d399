package node_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// judge sees what the apps run and what the clients are answered. It knows what
// no node can know: what runs where at one instant.
type judge struct {
	fence ack.Fence

	mu      sync.Mutex
	running map[shardmap.Shard][]*run
	epochs  map[shardmap.Shard]*run // the highest ownership epoch that ran, and who ran it
	calls   map[string]*call
	stops   []trouble // times in which a node's process stood still
	resets  []trouble // times in which resets were forged between two nodes
	wrongs  []string

	// stopped and forged count the overlaps that DESIGN's G1 excepts: a stopped
	// process whose app worked on, a forged refusal.
	stopped, forged int
	// duplicates counts the looks that saw two nodes admit, see duped.
	duplicates int
	ran        int
}

// run is one request as an app sees it.
type run struct {
	id, node string
	shard    shardmap.Shard
	epoch    uint64
	began    time.Time
	excepted bool // counted as an overlap that G1 excepts
}

// call is one request as its client sees it.
type call struct {
	id, method string
	at         *process
	done       <-chan struct{} // closed when the process that took it has ended
	sent       time.Time
	take, took time.Duration
	runs       int
	status     int // zero: no answer
	code       string
	err        error
	over       bool
}

// trouble is a time in which something was wrong with some nodes.
type trouble struct {
	nodes       []string
	from, until time.Time // zero: it lasts
}

func (t trouble) meets(node string, from, until time.Time) bool {
	return slices.Contains(t.nodes, node) && t.from.Before(until) && (t.until.IsZero() || t.until.After(from))
}

func newJudge(fence ack.Fence) *judge {
	return &judge{fence: fence, running: map[shardmap.Shard][]*run{}, epochs: map[shardmap.Shard]*run{}, calls: map[string]*call{}}
}

func (j *judge) wrong(format string, args ...any) {
	j.wrongs = append(j.wrongs, fmt.Sprintf("%8v ", time.Since(epochStart).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// first returns the first thing that must not be, "" if there is none.
func (j *judge) first() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.wrongs) == 0 {
		return ""
	}
	return j.wrongs[0]
}

// begin is told by an app that a request runs.
func (j *judge) begin(r *run) *run {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.began = time.Now()
	j.ran++
	for _, other := range j.running[r.shard] {
		if other.node != r.node {
			j.overlap(other, r.node, "runs")
		}
	}
	switch last := j.epochs[r.shard]; {
	case last == nil || r.epoch > last.epoch:
		j.epochs[r.shard] = r
	case r.epoch == last.epoch && r.node != last.node:
		j.wrong("%s and %s both ran shard %d under epoch %d", last.node, r.node, r.shard, r.epoch)
	case r.epoch < last.epoch && j.lately(j.stops, r.node, cutPause):
		j.stopped++ // it was stopped between its last look at the lease and the write: the epoch fences it
	case r.epoch < last.epoch && j.believed(r.node):
		j.forged++
	case r.epoch < last.epoch:
		j.wrong("%s runs shard %d under epoch %d after %s did under %d", r.node, r.shard, r.epoch, last.node, last.epoch)
	}
	if c := j.calls[r.id]; c == nil {
		j.wrong("%s runs a request %q that nobody sent", r.node, r.id)
	} else if c.runs++; c.runs > 1 && c.method == http.MethodPost {
		j.wrong("POST %s runs a second time, on %s", r.id, r.node)
	}
	j.running[r.shard] = append(j.running[r.shard], r)
	return r
}

// end is told by an app that a request has ended.
func (j *judge) end(r *run) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.running[r.shard] = slices.DeleteFunc(j.running[r.shard], func(o *run) bool { return o == r })
}

// admits is told that a node would admit a request for a shard.
func (j *judge) admits(node string, s shardmap.Shard) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, other := range j.running[s] {
		if other.node != node {
			j.overlap(other, node, "admits")
		}
	}
}

// overlap judges that a node runs or admits what another one still runs.
func (j *judge) overlap(other *run, node, does string) {
	since := time.Since(other.began)
	count := &j.forged
	switch {
	case other.excepted:
		return
	case j.lately(j.stops, other.node, min(since, cutPause)):
		count = &j.stopped
	case j.fence != ack.FenceStrict && j.lately(j.resets, other.node, min(since, cutForged)):
	case j.believed(node):
	default:
		j.wrong("%s %s shard %d while %s runs request %s of it since %v", node, does, other.shard, other.node, other.id, since)
		return
	}
	other.excepted = true
	*count++
}

// duped reports, and counts, that two nodes admit for one shard because of a
// forged refusal: FenceRefused, and only that, takes one at its word.
func (j *judge) duped(nodes ...string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.ContainsFunc(nodes, j.believed) {
		return false
	}
	j.duplicates++
	return true
}

// believed reports that a forged refusal may have cost a node its shards while it
// has a lease.
func (j *judge) believed(node string) bool {
	const lease = time.Second // and the time that evidence takes
	return j.fence == ack.FenceRefused && j.lately(j.resets, node, lease)
}

const (
	// cutPause is how long after a stop a node has cut what it must not run; it
	// does so first thing.
	cutPause = 100 * time.Millisecond
	// cutForged is how long after forged resets it has: it may have had a lease,
	// and hears of its drop by nobody.
	cutForged = 3 * time.Second
)

// lately reports that there was such a trouble with a node within the last time.
func (j *judge) lately(all []trouble, node string, within time.Duration) bool {
	now := time.Now()
	return j.in(all, node, now.Add(-within), now)
}

func (j *judge) in(all []trouble, node string, from, until time.Time) bool {
	return slices.ContainsFunc(all, func(t trouble) bool { return t.meets(node, from, until) })
}

// call notes a request that is about to be sent to p.
func (j *judge) call(id, method string, p *process, take time.Duration) *call {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &call{id: id, method: method, at: p, done: p.done, sent: time.Now(), take: take}
	j.calls[id] = c
	return c
}

// answered notes what the client was answered.
func (j *judge) answered(c *call, status int, code, body string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c.took, c.over, c.status, c.code, c.err = time.Since(c.sent), true, status, code, err
	switch {
	case err != nil:
		c.status = 0
	case status == http.StatusOK && (c.runs == 0 || body != c.id):
		j.wrong("request %s was answered %q by %s and ran %d times", c.id, body, c.at.name, c.runs)
	case status == http.StatusServiceUnavailable && c.runs > 0 && c.method == http.MethodPost:
		j.wrong("POST %s was answered 503 %s by %s, and ran", c.id, code, c.at.name)
	case status == http.StatusMisdirectedRequest:
		j.wrong("request %s got 421 from %s", c.id, c.at.name)
	}
}

// tally counts the answers: "200", "502 peer-unreachable", "none" and so on.
func (j *judge) tally() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := map[string]int{}
	for _, c := range j.calls {
		switch {
		case !c.over:
			out["waiting"]++
		case errors.Is(c.err, syscall.ECONNREFUSED):
			out["nobody listens"]++
		case c.status == 0:
			out["none"]++
		case c.code != "":
			out[fmt.Sprintf("%d %s", c.status, c.code)]++
		default:
			out[strconv.Itoa(c.status)]++
		}
	}
	return out
}

// longest returns how long the slowest answered request took beside its work.
func (j *judge) longest() (most time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.calls {
		if c.status != 0 {
			most = max(most, c.took-c.take)
		}
	}
	return most
}

// unanswered returns the calls that got no answer though the process that took
// them did not end, and whose node did not stand still.
func (j *judge) unanswered() []*call {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []*call
	for _, c := range j.calls {
		select {
		case <-c.done:
			continue
		default:
		}
		if c.over && c.status == 0 && !j.in(j.stops, c.at.name, c.sent, c.sent.Add(c.took)) {
			out = append(out, c)
		}
	}
	return out
}

// stop notes that a node's process stands still from now on, until the returned
// func is called.
func (j *judge) stop(node string) (end func()) { return j.note(&j.stops, node) }

// reset notes that resets are forged between two nodes.
func (j *judge) reset(a, b string) (end func()) { return j.note(&j.resets, a, b) }

func (j *judge) note(list *[]trouble, nodes ...string) (end func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	i := len(*list)
	*list = append(*list, trouble{nodes: nodes, from: time.Now()})
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		(*list)[i].until = time.Now()
	}
}
