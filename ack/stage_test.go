package ack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

// stageTick is how often everybody on a stage is told the time.
const stageTick = 10 * time.Millisecond

// stage plays a small cluster with a perfect log and instant messages, so that a
// test can tell one story at a time. What happens is noted in lines.
type stage struct {
	t      testing.TB
	pace   ack.Pace
	timing ack.Timing // of the birth, which is when the first one is elected

	now     time.Duration
	index   uint64
	term    uint64
	state   *ack.State
	stuck   bool // submitted entries wait
	waiting []submitted
	leaders map[shardmap.NodeID]*leaderPart
	actors  []*actor
	lines   []string
	show    bool // note every heartbeat and answer
}

// submitted is an entry on its way into the log.
type submitted struct {
	by    shardmap.NodeID
	term  uint64
	entry []byte
}

// leaderPart is a leader's machine and what its log has told it.
type leaderPart struct {
	id       shardmap.NodeID
	term     uint64
	machine  *ack.Leader
	told     *ack.State
	barrier  bool // applied
	revoked  bool // its Raft knows a newer term
	steps    int  // StepDowns
	answered []ack.Answer
}

// actor is one node: its process, if it is up, and what is wrong with it.
type actor struct {
	id       shardmap.NodeID
	boot     uint64
	disk     string // of another disk than the first one
	nonce    uint64
	up       bool
	follows  shardmap.NodeID // whom it takes for the leader
	term     uint64
	state    *ack.State
	holder   *ack.Holder
	follower *ack.Follower
	nextBeat time.Duration
	leased   bool
	last     ack.Heartbeat

	held, deaf, mute, busy               bool
	leaving, goodbye, unhealthy, gateway bool
	weight                               uint32
}

// newStage returns a stage with the given nodes down and no leader. The cluster
// has twelve shards.
func newStage(tb testing.TB, nodes ...shardmap.NodeID) *stage {
	tb.Helper()
	s := &stage{t: tb, pace: ack.DefaultPace(), timing: ack.DefaultTiming(), state: ack.NewState(), leaders: map[shardmap.NodeID]*leaderPart{}}
	for _, id := range nodes {
		s.actors = append(s.actors, &actor{id: id, weight: 1, state: s.state})
	}
	return s
}

// serving returns a stage on which the nodes serve and the first one leads.
func serving(tb testing.TB, nodes ...shardmap.NodeID) *stage {
	tb.Helper()
	return servingUnder(tb, ack.FenceLease, nodes...)
}

// servingUnder is serving with a fence.
func servingUnder(tb testing.TB, f ack.Fence, nodes ...shardmap.NodeID) *stage {
	tb.Helper()
	s := newStage(tb, nodes...)
	s.timing.Fence = f
	s.start(nodes...)
	s.elect(nodes[0])
	s.run(600 * time.Millisecond)
	for _, id := range nodes {
		if !s.serves(id) {
			tb.Fatalf("%s does not serve:\n%s", id, s)
		}
	}
	s.lines = nil
	return s
}

func (s *stage) String() string { return strings.Join(s.lines, "\n") }

func (s *stage) notef(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf("%8s  ", fmt.Sprintf("%.3f", s.now.Seconds()))+fmt.Sprintf(format, args...))
}

func (s *stage) actor(id shardmap.NodeID) *actor {
	for _, a := range s.actors {
		if a.id == id {
			return a
		}
	}
	a := &actor{id: id, weight: 1, state: ack.NewState()}
	s.actors = append(s.actors, a)
	return a
}

// start starts processes, each under its next boot.
func (s *stage) start(ids ...shardmap.NodeID) {
	for _, id := range ids {
		a := s.actor(id)
		a.boot++
		a.nonce += 100 + uint64(len(id))
		a.up, a.leased, a.goodbye, a.leaving = true, false, false, false
		a.holder = ack.NewHolder(a.boot, s.now)
		a.follower = ack.NewFollower(id, s.pace.DrainTimeout)
		a.nextBeat = s.now
		s.notef("%s starts, boot %d", id, a.boot)
	}
}

// crash kills a process. Its heartbeat connections close.
func (s *stage) crash(id shardmap.NodeID) {
	a := s.actor(id)
	a.up = false
	delete(s.leaders, id)
	s.notef("%s crashes", id)
	for _, l := range s.leaderParts() {
		s.step(l, ack.Closed{Node: id, Nonce: a.nonce})
	}
}

// elect makes id the leader of the next term; everybody who is up follows it,
// but for those who go on with an older one.
func (s *stage) elect(id shardmap.NodeID, but ...shardmap.NodeID) *leaderPart {
	l := s.electStuck(id, but...)
	l.barrier = true
	s.step(l, ack.BarrierApplied{Started: s.now})
	return l
}

// electStuck is elect without the barrier.
func (s *stage) electStuck(id shardmap.NodeID, but ...shardmap.NodeID) *leaderPart {
	if !s.state.Born() {
		s.append(1, ack.EncodeBirth("demo", 12, s.timing))
	}
	s.term++
	for old := range s.leaders {
		if !slices.Contains(but, old) {
			delete(s.leaders, old)
		}
	}
	for _, a := range s.actors {
		if a.up && !slices.Contains(but, a.id) {
			a.follows, a.term = id, s.term
		}
	}
	l := &leaderPart{id: id, term: s.term, told: s.state}
	l.machine = ack.NewLeader(ack.LeaderOptions{Server: string(id) + "/d", Term: s.term, Pace: s.pace, Timing: s.timing, State: s.state}, s.now)
	s.leaders[id] = l
	s.notef("%s leads term %d", id, s.term)
	s.step(l, ack.Voters{Servers: s.voters()})
	return l
}

func (s *stage) voters() []string {
	var v []string
	for _, a := range s.actors {
		if !a.gateway {
			v = append(v, string(a.id)+"/d")
		}
	}
	slices.Sort(v)
	return v
}

func (s *stage) leaderParts() []*leaderPart {
	var ls []*leaderPart
	for _, a := range s.actors {
		if l := s.leaders[a.id]; l != nil {
			ls = append(ls, l)
		}
	}
	return ls
}

// append puts an entry into the log of the given term and applies it.
func (s *stage) append(term uint64, entry []byte) ack.Outcome {
	s.index++
	next, outcome, err := s.state.Apply(s.index, term, entry)
	if err != nil {
		s.t.Fatalf("log entry %d: %v", s.index, err)
	}
	s.state = next
	switch outcome {
	case ack.OutcomeProposed:
		s.notef("log %d: proposed %s%s", s.index, spread(next.Last()), drops(next))
	case ack.OutcomeCommitted:
		s.notef("log %d: committed %d", s.index, next.Committed().Epoch())
	case ack.OutcomeIgnored:
		s.notef("log %d: ignored", s.index)
	case ack.OutcomeRetimed:
		t := next.Timing()
		s.notef("log %d: lease %v, dead-after %v, fence %v", s.index, t.Lease, t.DeadAfter, t.Fence)
	case ack.OutcomeBorn:
	}
	return outcome
}

// run lets time pass.
func (s *stage) run(d time.Duration) {
	for end := s.now + d; s.now < end; {
		s.now += stageTick
		for _, l := range s.leaderParts() {
			s.tell(l)
			s.step(l, ack.Tick{})
		}
		for _, a := range s.actors {
			if a.up {
				s.act(a)
			}
		}
	}
}

// until lets time pass until cond holds.
func (s *stage) until(what string, cond func() bool) {
	s.t.Helper()
	for range 3000 {
		if cond() {
			return
		}
		s.run(stageTick)
	}
	s.t.Fatalf("never: %s\n%s", what, s)
}

// serves reports whether the node has a lease and owns shards of the committed
// map.
func (s *stage) serves(id shardmap.NodeID) bool {
	a := s.actor(id)
	return a.up && a.holder.Left(s.now) > 0 && a.state.Committed().Count(id) > 0 && !a.state.Open()
}

// act is one look of a node at everything that may have changed.
func (s *stage) act(a *actor) {
	a.holder.Tick(s.now)
	if !a.held && a.state != s.state {
		a.state = s.state
		a.follower.Applied(s.now, a.state)
	}
	if e := a.follower.Draining(); e != 0 {
		if a.busy && a.follower.CutDue(s.now) {
			s.notef("%s cuts what it drains", a.id)
			a.busy = false
		}
		if !a.busy && a.follower.Drained(e) {
			s.notef("%s acknowledges %d", a.id, e)
			a.nextBeat = s.now
		}
	}
	if s.now >= a.nextBeat {
		a.nextBeat = s.now + s.pace.Heartbeat
		s.send(a, s.beat(a))
	}
	s.lease(a)
}

// lease notes that a lease began or ended.
func (s *stage) lease(a *actor) {
	if _, held := a.holder.Until(); held != a.leased {
		a.leased = held
		if held {
			s.notef("%s has a lease", a.id)
		} else {
			s.notef("%s has no lease any more", a.id)
		}
	}
}

// beat makes the node's next heartbeat.
func (s *stage) beat(a *actor) ack.Heartbeat {
	number, echo := a.holder.Beat(s.now)
	a.last = ack.Heartbeat{
		Node: a.id, Server: string(a.id) + "/d" + a.disk, Boot: a.boot, Nonce: a.nonce, Number: number, Echo: echo, Term: a.term,
		Applied: a.state.Committed().Epoch(), Acked: a.follower.Acked(), Weight: a.weight,
		Unhealthy: a.unhealthy, Leaving: a.leaving, Goodbye: a.goodbye, Gateway: a.gateway,
	}
	return a.last
}

// send delivers a heartbeat to the leader the node follows, and the answer back.
func (s *stage) send(a *actor, hb ack.Heartbeat) {
	l := s.leaders[a.follows]
	if a.mute || l == nil {
		return
	}
	l.answered = nil
	s.tell(l)
	if s.show {
		s.notef("%s → %s: number %d, echo %d/%d, applied %d, acknowledged %d%s", a.id, l.id, hb.Number, hb.Echo.Term, hb.Echo.Number, hb.Applied, hb.Acked, manner(hb))
	}
	s.step(l, ack.Heard{Heartbeat: hb, From: string(a.id) + ":1"})
	for _, ans := range l.answered {
		if s.show && ans.Refusal == 0 {
			s.notef("%s → %s: answer %d/%d, ok %v, epoch %d, serve %v%s", l.id, a.id, ans.Term, ans.Number, ans.OK, ans.Epoch, ans.Serve,
				map[bool]string{true: ", the map stays"}[ans.MapStays])
		}
		switch {
		case ans.Refusal == ack.RefusedBoot:
			s.notef("%s is told of its boot %d", a.id, ans.Known)
		case ans.Refusal == ack.RefusedDuplicate:
			s.notef("%s is refused: %q", a.id, ans.Elsewhere)
		case !a.deaf:
			a.holder.Answered(s.now, a.term, ans)
		}
	}
	s.lease(a)
}

// manner tells what else a heartbeat says.
func manner(hb ack.Heartbeat) string {
	var b strings.Builder
	for _, f := range []struct {
		on   bool
		name string
	}{{hb.Leaving, ", leaving"}, {hb.Goodbye, ", goodbye"}, {hb.Unhealthy, ", sick"}, {hb.Gateway, ", a gateway"}} {
		if f.on {
			b.WriteString(f.name)
		}
	}
	return b.String()
}

// tell brings the newest state to a leader whose log has it.
func (s *stage) tell(l *leaderPart) {
	if l.term == s.term && l.told != s.state {
		l.told = s.state
		s.step(l, ack.Applied{State: s.state})
	}
}

// step gives the leader's machine a message, and does what it asks for.
func (s *stage) step(l *leaderPart, m ack.Message) {
	term := l.term
	if l.revoked {
		term = s.term
	}
	effects := slices.Clone(l.machine.Step(s.now, ack.TermRead{Before: s.now, Term: term}))
	effects = append(effects, l.machine.Step(s.now, m)...)
	for _, e := range effects {
		switch e := e.(type) {
		case ack.Reply:
			l.answered = append(l.answered, e.Answer)
		case ack.Submit:
			s.waiting = append(s.waiting, submitted{by: l.id, term: l.term, entry: slices.Clone(e.Entry)})
		case ack.StepDown:
			l.steps++
			s.notef("%s steps down: %s", l.id, e.Reason)
		case ack.Noted:
			s.noted(l, e)
		}
	}
	if !s.stuck {
		s.flush()
	}
}

// flush lets what waits enter the log; what a leader of an older term submitted
// does not.
func (s *stage) flush() {
	for len(s.waiting) > 0 {
		e := s.waiting[0]
		s.waiting = s.waiting[1:]
		if e.term == s.term {
			s.append(e.term, e.entry)
		}
	}
}

func (s *stage) noted(l *leaderPart, e ack.Noted) {
	switch e.Kind {
	case ack.NoteProposing:
		s.notef("%s proposes: %s, %d moves", l.id, e.Reason, e.Moved)
	case ack.NoteCommitting:
		s.notef("%s commits %d", l.id, e.Epoch)
	case ack.NoteTaken:
		s.notef("%s takes from %s: %s", l.id, e.Node, e.Reason)
	case ack.NoteDuplicate:
		s.notef("%s sees %s twice: %s", l.id, e.Node, e.Reason)
	case ack.NoteSilent:
		s.notef("%s hears nothing from %s", l.id, e.Node)
	case ack.NoteBack:
		s.notef("%s hears %s again", l.id, e.Node)
	case ack.NoteDropped:
	}
}
