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
	s         *Sim
	node      *Node // the leader
	term      uint64
	driver    *leader.Driver
	voters    []string // server names at the election, in ascending order
	nonvoters []string // server names, in ascending order

	inbox   []input       // messages that wait for the loop
	running bool          // an iteration is scheduled
	uplink  time.Duration // virtual time at which the last entry will have been sent

	Busy             time.Duration // real CPU time of all iterations
	LongestIteration time.Duration // real CPU time of the longest iteration
	Iterations       int
}

// input is the input of one iteration of the loop: a message, or an encoded heartbeat of a node.
type input struct {
	msg       leader.Message
	from      *Node  // sender of the heartbeat
	heartbeat []byte // nil for a message
}

// elect makes node the leader of the next term.
func (s *Sim) elect(node *Node) {
	s.term++
	loop := &leaderLoop{s: s, node: node, term: s.term}
	s.leader = loop
	for _, other := range s.Alive() {
		other.term = s.term
		other.free = s.now // no append of this leader is in transit
	}
	node.apply(len(s.log))
	for _, v := range s.nodes {
		if v.voter {
			loop.voters = append(loop.voters, v.server)
		}
	}
	slices.Sort(loop.voters)
	loop.driver = leader.NewDriver(leader.DriverOptions{
		Leader: leader.Options{Server: node.server, Term: s.term, Pace: s.pace, Timing: s.timing},
		Raft:   loop, Clock: func() time.Duration { return s.now }, NewestState: func() *ack.State { return node.state },
	})
	loop.tick()
}

// Term implements leader.Raft. The model has one leader for each term.
func (l *leaderLoop) Term() uint64 { return l.term }

// Voters returns the voters at the election.
func (l *leaderLoop) Voters() []string { return l.voters }

// Nonvoters returns all other servers.
func (l *leaderLoop) Nonvoters() []string {
	if len(l.nonvoters) != len(l.s.nodes)-len(l.voters) { // a node has joined
		l.nonvoters = nil
		for _, node := range l.s.nodes {
			if !slices.Contains(l.voters, node.server) {
				l.nonvoters = append(l.nonvoters, node.server)
			}
		}
		slices.Sort(l.nonvoters)
	}
	return l.nonvoters
}

// live reports whether this leadership has not ended.
func (l *leaderLoop) live() bool { return l.s.leader == l && l.node.up }

// tick sends the driver a tick, and schedules the next one.
func (l *leaderLoop) tick() {
	if l.live() {
		l.enqueue(input{msg: leader.Tick{}})
		l.s.after(tickInterval, l.tick)
	}
}

// receive handles a heartbeat that has arrived at the leader.
func (l *leaderLoop) receive(from *Node, data []byte) {
	if l.live() {
		l.enqueue(input{from: from, heartbeat: data})
	}
}

// enqueue adds an input to the inbox. The loop handles it after all earlier ones.
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
	received := l.inbox[0]
	l.inbox = l.inbox[1:]
	start := time.Now()
	effects, encodedReplies := l.step(received)
	duration := l.s.computeTime(start)
	l.Busy += duration
	l.Iterations++
	l.LongestIteration = max(l.LongestIteration, duration)
	l.s.after(duration, func() {
		for i, effect := range effects {
			l.perform(effect, received.from, encodedReplies[i])
		}
		l.running = len(l.inbox) > 0
		if l.running {
			l.iterate()
		}
	})
}

// step decodes the input, passes it to the driver, and encodes the replies, like the loop of a node and
// its streams. encodedReplies has one element for each effect, which is nil unless the effect is a reply.
func (l *leaderLoop) step(received input) (effects []leader.Effect, encodedReplies [][]byte) {
	if received.heartbeat != nil {
		var heartbeat ack.Heartbeat
		if err := heartbeat.UnmarshalBinary(received.heartbeat); err != nil {
			panic(err)
		}
		received.msg = leader.HeartbeatReceived{Heartbeat: heartbeat, From: "10.0.0.1:7947"}
	}
	effects = l.driver.Step(received.msg)
	encodedReplies = make([][]byte, len(effects))
	for i, effect := range effects {
		reply, ok := effect.(leader.Reply)
		if !ok {
			continue
		}
		data, err := reply.MarshalBinary()
		if err != nil {
			panic(err)
		}
		encodedReplies[i] = data
	}
	return effects, encodedReplies
}

// perform performs one effect of an iteration. from is the sender of the heartbeat that caused it, and
// encodedReply its reply.
func (l *leaderLoop) perform(effect leader.Effect, from *Node, encodedReply []byte) {
	switch e := effect.(type) {
	case leader.Reply:
		l.s.after(from.latencyTo(l), func() { from.handleReply(encodedReply) })
	case leader.Submit:
		l.submit(e)
	case leader.Barrier:
		l.replicate(l.s.append(nil), func() { l.enqueue(input{msg: leader.BarrierApplied{}}) })
	case leader.StepDown:
		panic("the leader stepped down: " + e.Reason)
	case leader.Event:
	}
}

// submit appends a proposal or a commit to the log, and replicates it.
func (l *leaderLoop) submit(submitted leader.Submit) {
	kind := "proposal"
	if submitted.Commit {
		kind = "commit"
	}
	data := slices.Clone(submitted.Entry)
	l.s.Entries = append(l.s.Entries, Size{Kind: kind, Bytes: len(data), Entry: data})
	l.replicate(l.s.append(slices.Clone(data)), func() {
		l.replicate(l.s.append(nil), func() {}) // the barrier announces the commit to the followers
	})
}
