package node_test

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"shardway/ack"
	"shardway/e2e/kit/history"
	"shardway/shardmap"
)

// witness records what no node of a cluster sees as a whole: what apps run, which responses clients receive, what nodes would admit, which
// maps they commit, and which faults are injected. Package history judges the record.
type witness struct {
	rules history.Rules

	mu sync.Mutex
	h  history.History
	// process is the index of the fault of each node's process in h.Faults.
	process map[string]int
	// grace is the hold grace of nodes that restart in place.
	grace map[string]time.Duration
	// closed is when a process closed its peer port. A failing process does that first.
	closed   map[string]int64
	voteless map[string]bool // joined nodes that have no vote as far as observed
	wires    []int           // the indexes of the wire faults that last
	asked    map[admission]asked
	looks    int
	alike    int64 // the time of the last look that found no change
}

// admission is a shard that a node would admit under an epoch.
type admission struct {
	node  string
	shard shardmap.Shard
	epoch uint64
}

// maxVoters is the largest number of voters of a world.
const maxVoters = 5

// asked is the position in the history of the last look at an admission.
type asked struct{ index, look int }

// takeoverNames are the values of the flag --takeover.
var takeoverNames = map[ack.Takeover]string{ack.TakeoverLease: "lease", ack.TakeoverTimeout: "timeout", ack.TakeoverImmediate: "immediate"}

func newWitness(takeover ack.Takeover) *witness {
	return &witness{
		h: history.History{VoterSince: map[string]int64{}}, voteless: map[string]bool{},
		process: map[string]int{}, grace: map[string]time.Duration{}, closed: map[string]int64{}, asked: map[admission]asked{},
		rules: history.Rules{
			Shards: shards, Voters: maxVoters, Takeover: takeoverNames[takeover], DrainTimeout: drainTimeout, QueueWait: queueWait,
			// Clocks run at their own rates. Half of the reads of a frozen process's clock return the time from before, and the reader acts
			// on it immediately.
			MaxClockSkew: 0.1, WakeTime: 100 * time.Millisecond, MaxAbortNotice: 100 * time.Millisecond,
			SlowLog: true, // in a storm each write may take a second
			// A start makes several writes, possibly to a slow disk.
			MaxStartTime: time.Minute,
		},
	}
}

// now returns the time of the bubble's clock.
func now() int64 { return int64(time.Since(epochStart)) + 1 }

// begin records that an app starts to process a request, and returns the index of the run.
func (w *witness) begin(r history.Run) (index int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Start, r.Seq = now(), uint64(len(w.h.Runs))
	w.h.Runs = append(w.h.Runs, r)
	return len(w.h.Runs) - 1
}

// end records that a request has ended in the app, or that its node aborted it.
func (w *witness) end(index int, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.h.Runs[index].End, w.h.Runs[index].Aborted = now(), cut
}

// answered records the response that a client received.
func (w *witness) answered(a history.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.h.Responses = append(w.h.Responses, a)
}

// same records that the findings of the last look still hold.
func (w *witness) same() { w.alike = now() }

// stretch extends the findings of the last look until the time at which they last held.
func (w *witness) stretch() {
	for k, a := range w.asked {
		if a.look < w.looks {
			delete(w.asked, k) // no longer admitted
			continue
		}
		last := &w.h.Admissions[a.index]
		last.Until = max(last.Until, w.alike+1)
	}
}

// look begins a look at all nodes.
func (w *witness) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stretch()
	w.looks++
}

// admits records that a node would admit a request for a shard.
func (w *witness) admits(node string, s shardmap.Shard, epoch uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := admission{node, s, epoch}
	last, ok := w.asked[k]
	if !ok || last.look < w.looks-1 {
		last.index = len(w.h.Admissions)
		w.h.Admissions = append(w.h.Admissions, history.Admission{Node: node, Shard: uint32(s), Epoch: epoch, From: now()})
	}
	w.h.Admissions[last.index].Until = now() + 1
	w.asked[k] = asked{last.index, w.looks}
}

// committed records a map.
func (w *witness) committed(m *shardmap.Map) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := history.Map{Epoch: uint64(m.Epoch()), At: now(), Owners: make([]string, shards)}
	for s := range shardmap.Shard(shards) {
		seen.Owners[s] = string(m.Owner(s))
	}
	w.h.Maps = append(w.h.Maps, seen)
}

// hurt records a fault of a node, until end is called.
func (w *witness) hurt(k history.FaultKind, node string) (end func()) {
	return w.done(history.Fault{Kind: k, Node: node})
}

func (w *witness) done(f history.Fault) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.add(f)
	return func() { w.endFaults([]int{i}) }
}

func (w *witness) add(f history.Fault) (index int) {
	f.From = now()
	w.h.Faults = append(w.h.Faults, f)
	return len(w.h.Faults) - 1
}

// cut records a network fault of nodes, until the network is healed or end is called.
func (w *witness) cut(nodes ...string) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var these []int
	for _, n := range nodes {
		these = append(these, w.add(history.Fault{Kind: history.Unreachable, Node: n}))
	}
	w.wires = append(w.wires, these...)
	return func() { w.endFaults(these) }
}

// reset records that resets are forged between two nodes, until the network is healed.
func (w *witness) reset(a, b string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wires = append(w.wires, w.add(history.Fault{Kind: history.Reset, Node: a, Peer: b}))
}

func (w *witness) healed() {
	w.endFaults(w.wires)
	w.wires = nil
}

func (w *witness) endFaults(faults []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, i := range faults {
		w.h.Faults[i].Until = cmp.Or(w.h.Faults[i].Until, now())
	}
}

// fails records a fault of a process, in place of its previous one. A process that dies counts as dying also while it is frozen, and after
// it has begun to serve.
func (w *witness) fails(node string, k history.FaultKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i, ok := w.process[node]; ok && (w.h.Faults[i].Kind == k || w.h.Faults[i].Kind == history.Killed) {
		return
	}
	w.goOn(node)
	f := history.Fault{Kind: k, Node: node}
	if k == history.Terminated {
		f.Grace = w.grace[node]
	}
	w.process[node] = w.add(f)
}

// joins records the start of a new node that has no vote yet. The founding nodes count as voters from the start, because there are no
// others.
func (w *witness) joins(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.h.Maps) > 0 {
		w.h.VoterSince[node], w.voteless[node] = math.MaxInt64, true
	}
}

// votes records the voters as one node sees them.
func (w *witness) votes(voters func() []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.voteless) == 0 {
		return
	}
	for _, node := range voters() {
		if w.voteless[node] {
			w.h.VoterSince[node] = now()
			delete(w.voteless, node)
		}
	}
}

// drains records that a node is asked to own nothing. over records that the request was refused.
func (w *witness) drains(node string) (over func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.h.Drains)
	w.h.Drains = append(w.h.Drains, history.Drain{Node: node, From: now()})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.h.Drains[i].Until = now()
	}
}

// uncordons records that the requests for a node from before some time are taken back.
func (w *witness) uncordons(node string, before int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.h.Drains {
		if d := &w.h.Drains[i]; d.Node == node && d.From < before {
			d.Until = cmp.Or(d.Until, now())
		}
	}
}

// closes records that a process closes its peer port.
func (w *witness) closes(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed[node] = cmp.Or(w.closed[node], now())
}

// ended records the end of a process. A process that was not asked to end was killed. So was one that failed, also while it left or before
// it was killed: it counts as dead from the close of its peer port. It cut its clients off at that time, although it had more to end, and
// its disk may have worked again since.
func (w *witness) ended(node string, failed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, ok := w.process[node]
	if !ok || w.h.Faults[i].Kind == history.Paused || failed && w.h.Faults[i].Kind == history.Terminated {
		w.goOn(node)
		i = w.add(history.Fault{Kind: history.Killed, Node: node})
		w.process[node] = i
	}
	if f := &w.h.Faults[i]; failed {
		f.From = min(f.From, cmp.Or(w.closed[node], now()))
	}
	delete(w.closed, node)
	for k := range w.h.Faults {
		f := &w.h.Faults[k]
		if (k == i || f.Kind == history.DiskFault && f.Node == node && f.Until == 0) && f.LatestExit == 0 {
			f.LatestExit = now()
		}
	}
}

// runs records that a process continues, or runs again.
func (w *witness) runs(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.goOn(node)
}

func (w *witness) goOn(node string) {
	if i, ok := w.process[node]; ok {
		w.h.Faults[i].Until = now()
		delete(w.process, node)
	}
}

// judge judges the whole history. All requests must have their responses.
func (w *witness) judge() *history.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stretch()
	return history.Check(w.h, w.rules)
}

// tally counts the responses by result: "200", "502 peer-unreachable", "none" and so on.
func (w *witness) tally() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int{}
	for i := range w.h.Responses {
		switch a := &w.h.Responses[i]; {
		case a.Status == 0 && a.Attempts[0].Refused:
			out["nobody listens"]++
		case a.Status == 0:
			out["none"]++
		case a.Error != "":
			out[fmt.Sprintf("%d %s", a.Status, a.Error)]++
		default:
			out[strconv.Itoa(a.Status)]++
		}
	}
	return out
}

// longest returns the duration of the slowest request with a response.
func (w *witness) longest() (most time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.h.Responses {
		if a := &w.h.Responses[i]; a.Status != 0 {
			most = max(most, time.Duration(a.DoneAt()-a.SentAt()))
		}
	}
	return most
}
