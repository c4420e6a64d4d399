package scale

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// Options describe a cluster and what it stands on.
type Options struct {
	Nodes, Voters, Shards int
	Takeover              ack.Takeover
	Lease                 time.Duration // zero: the default
	// Latency is one way; of the last Far nodes it is FarLatency. Uplink is the leader's, in bits a second. Fsync is what a
	// server takes to store an entry.
	Latency    time.Duration
	Far        int
	FarLatency time.Duration
	Uplink     float64
	Fsync      time.Duration
	Seed       uint64
	// Instant: what the machines compute takes no time, so that a schedule replays.
	Instant bool
}

// Sim is a cluster at a moment of virtual time.
type Sim struct {
	o      Options
	pace   ack.Pace
	timing ack.Timing
	rnd    *rand.Rand
	now    time.Duration
	events events
	seq    uint64

	nodes  []*Node
	leader *leader
	term   uint64
	log    []entry // the entry of index i is log[i-1]

	// Entries are the sizes of all entries, with what each was.
	Entries []Size
	// Applying is the real time of each Apply of an entry.
	Applying []time.Duration
}

// Size is the size of one entry.
type Size struct {
	Kind  string
	Bytes int
	Entry []byte
}

// entry is a command in the log, or a barrier without one.
type entry struct {
	data  []byte
	state *ack.State    // after it
	cost  time.Duration // of Apply
}

// New returns a cluster whose nodes run and follow the first one, without a map.
func New(o Options) *Sim {
	s := &Sim{o: o, pace: ack.DefaultPace(), timing: ack.DefaultTiming(), rnd: rand.New(rand.NewPCG(o.Seed, 1))} //nolint:gosec // must replay
	s.timing.Takeover = o.Takeover
	s.timing.Lease = cmp.Or(o.Lease, s.timing.Lease)
	for i := range o.Nodes {
		s.start(i)
	}
	s.append(ack.EncodeBootstrap("scale", o.Shards, s.timing))
	for _, n := range s.nodes {
		n.take(s.log[0].state)
	}
	s.elect(s.nodes[0])
	return s
}

// start starts the i-th node.
func (s *Sim) start(i int) *Node {
	id := shardmap.NodeID(fmt.Sprintf("node-%03d", i))
	n := &Node{
		s: s, id: id, server: string(id) + "/0123456789abcdef", up: true, voter: i < s.o.Voters, nonce: uint64(i + 1),
		state: ack.NewState(), term: s.term, latency: s.o.Latency,
	}
	if i >= s.o.Nodes-s.o.Far && i < s.o.Nodes {
		n.latency = s.o.FarLatency
	}
	n.machine = ack.NewAgent(ack.AgentOptions{
		Node: id, Server: n.server, Boot: 1, Nonce: n.nonce, Pace: s.pace, Timing: s.timing,
		Gate: idle{}, Term: func() uint64 { return n.term }, Send: n.send,
		Raise: func(known uint64) (uint64, bool) { panic(fmt.Sprintf("%s: boot %d is known", id, known)) },
	}, s.now)
	if i < len(s.nodes) {
		s.nodes[i] = n
	} else {
		s.nodes = append(s.nodes, n)
	}
	s.after(time.Duration(s.rnd.Int64N(int64(s.pace.Heartbeat))), n.tick)
	return n
}

// Run lets time pass until cond holds, and reports whether it did within limit.
func (s *Sim) Run(limit time.Duration, cond func() bool) bool {
	for end := s.now + limit; !cond(); {
		if len(s.events) == 0 || s.events[0].at > end {
			s.now = end
			return cond()
		}
		e := heap.Pop(&s.events).(event) //nolint:errcheck,forcetypeassert // holds nothing else
		s.now = e.at
		e.do()
	}
	return true
}

// Pass lets time pass.
func (s *Sim) Pass(d time.Duration) { s.Run(d, func() bool { return false }) }

// Alive are the nodes whose process runs.
func (s *Sim) Alive() []*Node {
	var up []*Node
	for _, n := range s.nodes {
		if n.up {
			up = append(up, n)
		}
	}
	return up
}

// Settled reports whether all living nodes have applied one committed map that
// has exactly them, and hold leases.
func (s *Sim) Settled() bool {
	up := s.Alive()
	m := up[0].state.Committed()
	if len(m.Members()) != len(up) {
		return false
	}
	for _, n := range up {
		if n.state.Committed() != m || n.state.Open() || !m.Has(n.id) || n.machine.LeaseRemaining(s.now) <= 0 {
			return false
		}
	}
	return true
}

// took is what counts of the real time since began.
func (s *Sim) took(began time.Time) time.Duration {
	if s.o.Instant {
		return 0
	}
	return time.Since(began)
}

// after schedules do.
func (s *Sim) after(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.events, event{at: s.now + d, seq: s.seq, do: do})
}

// event is something that happens at a time; those of one time happen in the
// order in which they were scheduled.
type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push appends x.
func (e *events) Push(x any) { *e = append(*e, x.(event)) } //nolint:errcheck,forcetypeassert // holds nothing else

// Pop removes the last.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// Now is the virtual time.
func (s *Sim) Now() time.Duration { return s.now }

// Term is the present leader's.
func (s *Sim) Term() uint64 { return s.term }

// Busy is the real time that the present leader's loop has computed, Turns how
// often it did something, and Longest the longest time that took.
func (s *Sim) Busy() time.Duration { return s.leader.Busy }

// Turns counts what the leader's loop did.
func (s *Sim) Turns() int { return s.leader.Turns }

// Longest is the real time of the loop's longest turn.
func (s *Sim) Longest() time.Duration { return s.leader.Longest }
