package ack_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"shardway/ack"
)

// The simulation runs the machines of this package, as package node does, over a model of the
// environment: clocks of different rates, a network that loses, repeats, delays and reorders
// messages, Raft (sim_raft_test.go), processes that crash, restart and pause, disks that are
// wiped, and requests. One seed defines one schedule, which can be replayed exactly.

// simHosts is the maximum number of machines in a schedule.
const simHosts = 6

// simSetup is the input of a schedule.
type simSetup struct {
	seed    uint64
	mix     *simMix
	faults  []byte // when set, they decide the faults in place of the seed
	plant   plant  // a mutant on the node's side, planted on purpose
	tracing bool
	// counts reports which failures playMany looks for; nil means any.
	counts func(failure string) bool
}

// world is one schedule.
type world struct {
	simSetup
	dice        *rand.Rand
	now         time.Duration // true time; no machine of the model can read it
	queue       eventQueue
	steps       int
	hosts       []*host
	pace        ack.Pace
	shards      int
	spreadZones bool           // all zones own the same number of shards
	replicas    map[string]int // number of standbys of each shard, by service
	voters      int            // how many there ought to be
	// removeDeadAfter is how long a server may be down before it is removed.
	removeDeadAfter time.Duration

	link       [simHosts][simHosts]bool          // whether messages from i reach j
	noLog      [simHosts][simHosts]bool          // Raft's messages from i do not reach j, others do
	stalled    [simHosts][simHosts]time.Duration // until when they wait, to arrive all at once
	loss, dup  int                               // in a thousand
	slow       int                               // in a thousand: messages that take very long
	slower     bool                              // and evidence later still
	astray     int                               // in a thousand: heartbeats that go to some other node
	lateSubmit int                               // in a thousand: entries that reach Raft very late
	coded      bool                              // messages go through the codec
	quiet      bool                              // nothing happens that may move a shard
	healing    bool
	reaches    bool                    // nodes report which nodes they cannot reach
	suspicions bool                    // voters ask each other whether they miss their leader
	missed     map[string]missedReport // by server, also of a process that has ended
	hung       *host                   // the leader that is stopped in a healthy cluster; nil: none

	raftWorld
	checks
	cover   *coverage
	faulted int

	unfinished []func() // ends turns in the middle of which a process was stopped

	trace   []string
	failure string
}

// event is an action of a process, or of the world if proc is nil.
type event struct {
	at   time.Duration
	seq  uint64
	proc *proc
	fn   func()
}

func newWorld(s simSetup, cover *coverage) *world {
	w := &world{simSetup: s, cover: cover}
	w.dice = rand.New(rand.NewPCG(s.seed, 0x5eed))
	w.raftWorld = newRaftWorld()
	w.checks, w.missed = newChecks(), map[string]missedReport{}
	s.mix.setup(w)
	w.coded = w.n(8) == 0
	for i := range w.hosts {
		for j := range w.hosts {
			w.link[i][j] = true
		}
	}
	return w
}

// n returns a random number below k.
func (w *world) n(k int) int { return w.dice.IntN(k) }

// perMille returns true with a probability of k per thousand.
func (w *world) perMille(k int) bool { return k > 0 && w.n(1000) < k }

// span returns a random duration between lo and hi.
func (w *world) span(lo, hi time.Duration) time.Duration {
	return lo + time.Duration(w.dice.Int64N(int64(hi-lo)+1))
}

func (w *world) logf(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf("%10s  ", fmt.Sprintf("%.4f", w.now.Seconds()))+fmt.Sprintf(format, args...))
	}
}

// fail ends the schedule. Only the first reason counts.
func (w *world) fail(format string, args ...any) {
	if w.failure == "" {
		w.failure = fmt.Sprintf(format, args...)
		w.logf("VIOLATION: %s", w.failure)
	}
}

// after runs fn for p, or for the world, after d. It does not run if p is dead by then, and
// runs late if p is stopped.
func (w *world) after(d time.Duration, p *proc, fn func()) {
	w.queue.push(event{at: w.now + d, proc: p, fn: fn})
}

// run executes events until end, or until done returns true or a check fails.
func (w *world) run(end time.Duration, done func() bool) bool {
	for w.failure == "" && len(w.queue.heap) > 0 && w.queue.heap[0].at <= end {
		e := w.queue.pop()
		w.now = max(w.now, e.at)
		if p := e.proc; p != nil {
			if p.dead {
				continue
			}
			if p.h.stopped {
				p.h.deferred = append(p.h.deferred, e)
				continue
			}
		}
		w.steps++
		e.fn()
		if done != nil && done() {
			return true
		}
	}
	if w.failure == "" {
		w.now = max(w.now, end)
	}
	return false
}

// send carries a message between hosts and may lose, repeat or delay it. deliver runs in the
// process that is there then.
func (w *world) send(from, to *host, deliver func(p *proc)) {
	if from == to {
		w.after(w.span(0, time.Millisecond), to.proc, func() { deliver(to.proc) })
		return
	}
	if !w.link[from.i][to.i] || w.perMille(w.loss) {
		w.cover.lost++
		return
	}
	if wait := w.stalled[from.i][to.i] - w.now; wait > 0 {
		w.cover.stalled++
		w.after(wait, nil, func() { w.deliver(to, deliver) })
		return
	}
	w.arrive(to, deliver)
	if w.perMille(w.dup) {
		w.cover.repeated++
		w.arrive(to, deliver)
	}
}

func (w *world) arrive(to *host, deliver func(p *proc)) {
	d := w.span(100*time.Microsecond, 4*time.Millisecond)
	if w.perMille(w.slow) {
		d = w.span(10*time.Millisecond, 2*time.Second)
		w.cover.delayed++
	}
	w.after(d, nil, func() { w.deliver(to, deliver) })
}

// deliver gives a message to the process that is there now.
func (w *world) deliver(to *host, deliver func(p *proc)) {
	p := to.proc
	if p == nil {
		return
	}
	if to.stopped {
		to.deferred = append(to.deferred, event{proc: p, fn: func() { deliver(p) }})
		return
	}
	deliver(p)
}

// reach reports whether one Raft message from i to j arrives now.
func (w *world) reach(i, j *host) bool {
	if i == j {
		return true
	}
	if i.copied || j.copied || i.proc != nil && i.proc.isolated || j.proc != nil && j.proc.isolated {
		return false
	}
	return w.link[i.i][j.i] && !w.noLog[i.i][j.i] && !w.perMille(w.loss)
}

// byServer returns the host of a server.
func (w *world) byServer(server string) *host {
	for _, h := range w.hosts {
		if !h.copied && h.server() == server {
			return h
		}
	}
	return nil
}

// eventQueue is a heap ordered by time, then by insertion.
type eventQueue struct {
	heap []event
	seq  uint64
}

func (q *eventQueue) before(i, j int) bool {
	a, b := &q.heap[i], &q.heap[j]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (q *eventQueue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	for i := len(q.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.before(i, up) {
			return
		}
		q.heap[i], q.heap[up] = q.heap[up], q.heap[i]
		i = up
	}
}

func (q *eventQueue) pop() event {
	top := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap[last] = event{}
	q.heap = q.heap[:last]
	for i := 0; ; {
		least := i
		for _, c := range [...]int{2*i + 1, 2*i + 2} {
			if c < last && q.before(c, least) {
				least = c
			}
		}
		if least == i {
			return top
		}
		q.heap[i], q.heap[least] = q.heap[least], q.heap[i]
		i = least
	}
}
