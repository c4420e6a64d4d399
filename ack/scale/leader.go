package scale

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
)

// leaderLoop is one leadership: its driver in a loop that handles one message at a time, and its
// end of the log.
type leaderLoop struct {
	s       *Sim
	node    *Node
	term    uint64
	driver  *leader.Driver
	voters  []string
	inbox   []input
	running bool
	uplink  time.Duration // when the last entry will have been sent

	// Busy is the real CPU time of the loop, Longest that of its longest iteration.
	Busy, LongestIteration time.Duration
	Iterations             int
}

// input is the input of one iteration of the loop.
type input struct {
	msg  leader.Message
	from *Node
	beat []byte
}

// elect makes n the leader of the next term.
func (s *Sim) elect(n *Node) {
	s.term++
	l := &leaderLoop{s: s, node: n, term: s.term}
	s.leader = l
	for _, other := range s.Alive() {
		other.term = s.term
		other.free = s.now
	}
	n.apply(len(s.log))
	for _, v := range s.nodes {
		if v.voter {
			l.voters = append(l.voters, v.server)
		}
	}
	slices.Sort(l.voters)
	l.driver = leader.NewDriver(leader.DriverOptions{
		Leader: leader.Options{Server: n.server, Term: s.term, Pace: s.pace, Timing: s.timing},
		Raft:   l, Clock: func() time.Duration { return s.now }, NewestState: func() *ack.State { return n.state },
	})
	l.tick()
}

// Term implements leader.Raft. The model has one leader for each term.
func (l *leaderLoop) Term() uint64 { return l.term }

// Voters returns the voters at the election.
func (l *leaderLoop) Voters() []string { return l.voters }

func (l *leaderLoop) live() bool { return l.s.leader == l && l.node.up }

func (l *leaderLoop) tick() {
	if l.live() {
		l.enqueue(input{msg: leader.Tick{}})
		l.s.after(tickInterval, l.tick)
	}
}

func (l *leaderLoop) receive(from *Node, data []byte) {
	if l.live() {
		l.enqueue(input{from: from, beat: data})
	}
}

func (l *leaderLoop) enqueue(in input) {
	l.inbox = append(l.inbox, in)
	if !l.running {
		l.running = true
		l.s.after(0, l.iterate)
	}
}

// iterate handles one message. Its effects happen when it is done.
func (l *leaderLoop) iterate() {
	if !l.live() {
		return
	}
	in := l.inbox[0]
	l.inbox = l.inbox[1:]
	began := time.Now()
	effects, answers := l.step(in)
	took := l.s.took(began)
	l.Busy += took
	l.Iterations++
	l.LongestIteration = max(l.LongestIteration, took)
	l.s.after(took, func() {
		for i, e := range effects {
			l.perform(e, in.from, answers[i])
		}
		l.running = len(l.inbox) > 0
		if l.running {
			l.iterate()
		}
	})
}

// step decodes, steps and encodes, like the loop of a node and its streams.
func (l *leaderLoop) step(in input) (effects []leader.Effect, answers [][]byte) {
	if in.beat != nil {
		var heartbeat ack.Heartbeat
		if err := heartbeat.UnmarshalBinary(in.beat); err != nil {
			panic(err)
		}
		in.msg = leader.HeartbeatReceived{Heartbeat: heartbeat, From: "10.0.0.1:7947"}
	}
	effects = l.driver.Handle(in.msg)
	answers = make([][]byte, len(effects))
	for i, e := range effects {
		if r, ok := e.(leader.Reply); ok {
			data, err := r.MarshalBinary()
			if err != nil {
				panic(err)
			}
			answers[i] = data
		}
	}
	return effects, answers
}

func (l *leaderLoop) perform(e leader.Effect, from *Node, answer []byte) {
	switch e := e.(type) {
	case leader.Reply:
		l.s.after(from.latencyTo(l), func() { from.answered(answer) })
	case leader.Submit:
		kind := "proposal"
		if e.Commit {
			kind = "commit"
		}
		l.s.Entries = append(l.s.Entries, Size{Kind: kind, Bytes: len(e.Entry), Entry: slices.Clone(e.Entry)})
		l.replicate(l.s.append(slices.Clone(e.Entry)), func() {
			l.replicate(l.s.append(nil), func() {}) // the barrier announces the commit to the followers
		})
	case leader.Barrier:
		l.replicate(l.s.append(nil), func() { l.enqueue(input{msg: leader.BarrierApplied{}}) })
	case leader.StepDown:
		panic("the leader stepped down: " + e.Reason)
	case leader.Event:
	}
}
