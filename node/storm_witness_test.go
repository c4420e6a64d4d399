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

// witness writes down what nobody inside of a cluster can see as a whole: what apps
// run, what clients are answered, what nodes would admit and which maps they commit,
// and what is done to them. Package history judges it.
type witness struct {
	rules history.Rules

	mu sync.Mutex
	h  history.History
	// process is the index of what is done to a node's process, in h.Faults.
	process map[string]int
	// grace is within what time nodes that restart in place come back.
	grace map[string]time.Duration
	// closed is when a process closed its peer port: what fails does that first.
	closed   map[string]int64
	voteless map[string]bool // who has joined and was not seen to vote
	wires    []int           // the indexes of what is done to wires, and lasts
	asked    map[admission]asked
	looks    int
	alike    int64 // when nothing had changed since the last look
}

// admission is what a node would admit.
type admission struct {
	node  string
	shard shardmap.Shard
	epoch uint64
}

// maxVoters is how many nodes of a world vote at most.
const maxVoters = 5

// asked is where the last look at it is written down.
type asked struct{ index, look int }

// takeoverNames are those of the flag.
var takeoverNames = map[ack.Takeover]string{ack.TakeoverLease: "lease", ack.TakeoverTimeout: "timeout", ack.TakeoverImmediate: "immediate"}

func newWitness(takeover ack.Takeover) *witness {
	return &witness{
		h: history.History{VoterSince: map[string]int64{}}, voteless: map[string]bool{},
		process: map[string]int{}, grace: map[string]time.Duration{}, closed: map[string]int64{}, asked: map[admission]asked{},
		rules: history.Rules{
			Shards: shards, Voters: maxVoters, Takeover: takeoverNames[takeover], DrainTimeout: drainTimeout, QueueWait: queueWait,
			// Clocks run at rates of their own. Half of what asks the clock of a process that
			// stands still is told the time from before, and acts on it at once.
			MaxClockSkew: 0.1, WakeTime: 100 * time.Millisecond, MaxAbortNotice: 100 * time.Millisecond,
			SlowLog: true, // in a storm each write may take a second
			// A start writes some times, to a disk that may be slow.
			MaxStartTime: time.Minute,
		},
	}
}

// now is the bubble's clock.
func now() int64 { return int64(time.Since(epochStart)) + 1 }

// begin is told by an app that a request runs.
func (w *witness) begin(r history.Run) (index int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Start, r.Seq = now(), uint64(len(w.h.Runs))
	w.h.Runs = append(w.h.Runs, r)
	return len(w.h.Runs) - 1
}

// end is told by an app that a request has ended, or that its node gave it up.
func (w *witness) end(index int, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.h.Runs[index].End, w.h.Runs[index].Aborted = now(), cut
}

// answered notes what a client was answered.
func (w *witness) answered(a history.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.h.Responses = append(w.h.Responses, a)
}

// same tells that what the last look found holds still.
func (w *witness) same() { w.alike = now() }

// stretch writes down until when what the last look found was seen to hold.
func (w *witness) stretch() {
	for k, a := range w.asked {
		if a.look < w.looks {
			delete(w.asked, k) // admitted no more
			continue
		}
		last := &w.h.Admissions[a.index]
		last.Until = max(last.Until, w.alike+1)
	}
}

// look begins to ask all nodes.
func (w *witness) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stretch()
	w.looks++
}

// admits is told that a node would admit a request for a shard.
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

// committed is told of a map.
func (w *witness) committed(m *shardmap.Map) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := history.Map{Epoch: uint64(m.Epoch()), At: now(), Owners: make([]string, shards)}
	for s := range shardmap.Shard(shards) {
		seen.Owners[s] = string(m.Owner(s))
	}
	w.h.Maps = append(w.h.Maps, seen)
}

// hurt notes that something is done to a node, until end is called.
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

// cut notes that something is done to the wires of nodes, until they are healed, or
// end is called.
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

// reset notes that resets are forged between two nodes, until the wires are healed.
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

// fails notes what is done to a process, in place of what was done to it before. One
// that dies does so also while it stands still, and after it has begun to serve.
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

// joins notes that a new node is started, which has no vote yet. Those that found the
// cluster were there from the beginning, for without them there is none.
func (w *witness) joins(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.h.Maps) > 0 {
		w.h.VoterSince[node], w.voteless[node] = math.MaxInt64, true
	}
}

// votes notes which nodes vote as far as one of them knows.
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

// drains notes that a node is asked to own nothing, until over is called: it was refused.
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

// uncordons notes that what a node had been asked for before some time is taken back.
func (w *witness) uncordons(node string, before int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.h.Drains {
		if d := &w.h.Drains[i]; d.Node == node && d.From < before {
			d.Until = cmp.Or(d.Until, now())
		}
	}
}

// closes notes that a process closes its peer port.
func (w *witness) closes(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed[node] = cmp.Or(w.closed[node], now())
}

// ended notes that a process has ended. One that nobody had asked to was killed, and
// so was one that failed, also while it left, or before somebody killed it: from when
// it closed its peer port, and cut its clients then, although it had more to end, and
// its disk may have been end meanwhile.
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
		if (k == i || f.Kind == history.DiskFault && f.Node == node && f.Until == 0) && f.ExitedBy == 0 {
			f.ExitedBy = now()
		}
	}
}

// runs notes that a process runs on, or again.
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

// judge judges all that was seen. All requests must have their answers.
func (w *witness) judge() *history.Report {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stretch()
	return history.Check(w.h, w.rules)
}

// tally counts the answers: "200", "502 peer-unreachable", "none" and so on.
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

// longest returns how long the slowest answered request took.
func (w *witness) longest() (most time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.h.Responses {
		if a := &w.h.Responses[i]; a.Status != 0 {
			most = max(most, time.Duration(a.Done()-a.Sent()))
		}
	}
	return most
}
