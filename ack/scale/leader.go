package scale

import (
	"slices"
	"time"

	"shardway/ack"
)

// leader is one leadership: its machine in a loop that does one thing at a time,
// and its end of the log.
type leader struct {
	s       *Sim
	node    *Node
	term    uint64
	machine *ack.LeaderDriver
	voters  []string
	inbox   []work
	running bool
	uplink  time.Duration // when the last entry will have left

	// Busy is the real time that the loop has computed, Longest its longest turn.
	Busy, Longest time.Duration
	Turns         int
}

// work is one turn of the loop.
type work struct {
	msg  ack.Message
	from *Node
	beat []byte
}

// elect makes n the leader of the next term.
func (s *Sim) elect(n *Node) {
	s.term++
	l := &leader{s: s, node: n, term: s.term}
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
	l.machine = ack.NewLeaderDriver(ack.LeaderDriverOptions{
		Leader: ack.LeaderOptions{Server: n.server, Term: s.term, Pace: s.pace, Timing: s.timing},
		Raft:   l, Clock: func() time.Duration { return s.now }, Newest: func() *ack.State { return n.state },
	})
	l.tick()
}

// Term is that of Raft, which has one leader for good in this model.
func (l *leader) Term() uint64 { return l.term }

// Voters are those of the election.
func (l *leader) Voters() []string { return l.voters }

func (l *leader) live() bool { return l.s.leader == l && l.node.up }

func (l *leader) tick() {
	if l.live() {
		l.put(work{msg: ack.Tick{}})
		l.s.after(tickEvery, l.tick)
	}
}

func (l *leader) receive(from *Node, b []byte) {
	if l.live() {
		l.put(work{from: from, beat: b})
	}
}

func (l *leader) put(w work) {
	l.inbox = append(l.inbox, w)
	if !l.running {
		l.running = true
		l.s.after(0, l.turn)
	}
}

// turn does one thing. What it calls for happens when it is done.
func (l *leader) turn() {
	if !l.live() {
		return
	}
	w := l.inbox[0]
	l.inbox = l.inbox[1:]
	began := time.Now()
	effects, answers := l.step(w)
	took := l.s.took(began)
	l.Busy += took
	l.Turns++
	l.Longest = max(l.Longest, took)
	l.s.after(took, func() {
		for i, e := range effects {
			l.perform(e, w.from, answers[i])
		}
		l.running = len(l.inbox) > 0
		if l.running {
			l.turn()
		}
	})
}

// step decodes, steps and encodes, as the loop of a node and its streams do.
func (l *leader) step(w work) (effects []ack.Effect, answers [][]byte) {
	if w.beat != nil {
		var hb ack.Heartbeat
		if err := hb.UnmarshalBinary(w.beat); err != nil {
			panic(err)
		}
		w.msg = ack.HeartbeatReceived{Heartbeat: hb, From: "10.0.0.1:7947"}
	}
	effects = l.machine.Handle(w.msg)
	answers = make([][]byte, len(effects))
	for i, e := range effects {
		if r, ok := e.(ack.Reply); ok {
			b, err := r.MarshalBinary()
			if err != nil {
				panic(err)
			}
			answers[i] = b
		}
	}
	return effects, answers
}

func (l *leader) perform(e ack.Effect, from *Node, answer []byte) {
	switch e := e.(type) {
	case ack.Reply:
		l.s.after(from.wire(l), func() { from.answered(answer) })
	case ack.Submit:
		kind := "proposal"
		if e.Commit {
			kind = "commit"
		}
		l.s.Entries = append(l.s.Entries, Size{Kind: kind, Bytes: len(e.Entry), Entry: slices.Clone(e.Entry)})
		l.replicate(l.s.append(slices.Clone(e.Entry)), func() {
			l.replicate(l.s.append(nil), func() {}) // the barrier that tells the followers
		})
	case ack.Barrier:
		l.replicate(l.s.append(nil), func() { l.put(work{msg: ack.BarrierApplied{}}) })
	case ack.StepDown:
		panic("the leader stepped down: " + e.Reason)
	case ack.Event:
	}
}
