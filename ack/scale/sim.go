package scale

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/shardmap"
)

// Options describe a cluster and its environment.
type Options struct {
	Nodes, Voters, Shards int // Voters is the number of nodes that vote; they are the first ones
	Takeover              ack.Takeover
	Lease                 time.Duration // zero means the default

	// Network and disks.
	Latency    time.Duration // one-way latency of a node
	Far        int           // number of distant nodes; they are the last ones
	FarLatency time.Duration // one-way latency of a distant node
	Uplink     float64       // bandwidth of the leader, in bit/s
	Fsync      time.Duration // time to store an entry

	Seed uint64
	// Instant reports that computing takes no virtual time, so that a schedule can be replayed.
	Instant bool
}

// Sim is a cluster in virtual time.
type Sim struct {
	options Options
	pace    ack.Pace
	timing  ack.Timing
	rnd     *rand.Rand

	// Virtual time.
	now    time.Duration
	events events // scheduled actions
	seq    uint64 // number of actions that were scheduled so far

	nodes  []*Node
	leader *leaderLoop // nil during an election
	term   uint64
	log    []entry // the entry of index i is log[i-1]

	// Entries are the proposals and commits that leaders submitted.
	Entries []Size
	// Applying are the real durations of Apply.
	Applying []time.Duration
}

// Size is one proposal or commit, and its size.
type Size struct {
	Kind  string // "proposal" or "commit"
	Bytes int
	Entry []byte
}

// entry is a command in the log, or a barrier, which has none.
type entry struct {
	data  []byte        // nil for a barrier
	state *ack.State    // after the entry
	cost  time.Duration // duration of Apply
}

// New returns a cluster whose nodes run and follow the first one, without a map.
func New(options Options) *Sim {
	sim := &Sim{options: options, pace: ack.DefaultPace(), timing: ack.DefaultTiming(), rnd: rand.New(rand.NewPCG(options.Seed, 1))} //nolint:gosec // must replay
	sim.timing.Takeover = options.Takeover
	sim.timing.Lease = cmp.Or(options.Lease, sim.timing.Lease)
	for i := range options.Nodes {
		sim.start(i)
	}
	sim.append(ack.EncodeBootstrap("scale", options.Shards, sim.timing))
	for _, n := range sim.nodes {
		n.setState(sim.log[0].state)
	}
	sim.elect(sim.nodes[0])
	return sim
}

// start starts the i-th node.
func (s *Sim) start(i int) *Node {
	id := shardmap.NodeID(fmt.Sprintf("node-%03d", i))
	node := &Node{
		s: s, id: id, server: string(id) + "/0123456789abcdef", up: true, voter: i < s.options.Voters, nonce: uint64(i + 1),
		state: ack.NewState(), term: s.term, latency: s.options.Latency,
	}
	if i >= s.options.Nodes-s.options.Far && i < s.options.Nodes {
		node.latency = s.options.FarLatency
	}
	node.agent = agent.New(agent.Options{
		Node: id, Server: node.server, Boot: 1, Nonce: node.nonce, Pace: s.pace, Timing: s.timing,
		Gate: emptyGate{}, RaftTerm: func() uint64 { return node.term }, SendHeartbeat: node.send,
		IsFollowingVoter: func() bool { return node.voter && !node.isLeading() },
		RaiseBoot:        func(known uint64) (uint64, bool) { panic(fmt.Sprintf("%s: boot %d is known", id, known)) },
	}, s.now)
	if i < len(s.nodes) {
		s.nodes[i] = node
	} else {
		s.nodes = append(s.nodes, node)
	}
	firstTick := time.Duration(s.rnd.Int64N(int64(s.pace.Heartbeat)))
	s.after(firstTick, node.tick)
	return node
}

// Run lets time pass until isDone holds, and reports whether it did within limit.
func (s *Sim) Run(limit time.Duration, isDone func() bool) bool {
	for end := s.now + limit; !isDone(); {
		if len(s.events) == 0 || s.events[0].at > end {
			s.now = end
			return isDone()
		}
		next := heap.Pop(&s.events).(event) //nolint:errcheck,forcetypeassert // holds nothing else
		s.now = next.at
		next.do()
	}
	return true
}

// Pass lets time pass.
func (s *Sim) Pass(d time.Duration) { s.Run(d, func() bool { return false }) }

// Alive returns the nodes with a running process.
func (s *Sim) Alive() []*Node {
	var alive []*Node
	for _, n := range s.nodes {
		if n.up {
			alive = append(alive, n)
		}
	}
	return alive
}

// Settled reports whether all live nodes have applied one committed map with exactly these
// nodes as members, and hold leases.
func (s *Sim) Settled() bool {
	alive := s.Alive()
	committed := alive[0].state.Committed()
	if len(committed.Members()) != len(alive) {
		return false
	}
	for _, n := range alive {
		hasApplied := n.state.Committed() == committed && !n.state.HasOpenProposal()
		if !hasApplied || !committed.IsMember(n.id) || n.agent.LeaseRemaining(s.now) <= 0 {
			return false
		}
	}
	return true
}

// computeTime returns the virtual duration of a computation that began at a real time.
func (s *Sim) computeTime(start time.Time) time.Duration {
	if s.options.Instant {
		return 0
	}
	return time.Since(start)
}

// after schedules do after a delay.
func (s *Sim) after(d time.Duration, do func()) {
	s.seq++
	heap.Push(&s.events, event{at: s.now + d, seq: s.seq, do: do})
}

// event is a scheduled action. Events of one time run in the order in which they were
// scheduled.
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

// Pop removes and returns the last element.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// Now returns the virtual time.
func (s *Sim) Now() time.Duration { return s.now }

// Term returns the current term.
func (s *Sim) Term() uint64 { return s.term }

// LeaderCPUTime returns the CPU time (not virtual time) spent in the current leader's event loop.
func (s *Sim) LeaderCPUTime() time.Duration { return s.leader.Busy }

// LeaderIterations returns the number of iterations of the current leader's event loop.
func (s *Sim) LeaderIterations() int { return s.leader.Iterations }

// LongestLeaderIteration returns the wall-clock duration of the leader loop's longest iteration.
func (s *Sim) LongestLeaderIteration() time.Duration { return s.leader.LongestIteration }
