package ack_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/ack/leader"
	"shardway/shardmap"
)

const ms = time.Millisecond

// stageTick is the tick interval of all nodes on a stage.
const stageTick = 10 * time.Millisecond

// stage runs a small cluster with a perfect log and instant messages, so that a test can show
// one sequence of events. It records events as lines.
type stage struct {
	t        testing.TB
	pace     ack.Pace
	timing   ack.Timing     // of the birth, which is when the first one is elected
	replicas map[string]int // number of standbys of each shard, by service
	expect   int            // number of nodes for which the first map waits; zero means those that are up then

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
	// excluded are the exclusions of nodes.
	excluded []leader.Event
}

// submitted is an entry that waits to enter the log.
type submitted struct {
	by    shardmap.NodeID
	term  uint64
	entry []byte
}

// leaderPart is the machine of a leader, and the state that it has been given.
type leaderPart struct {
	id       shardmap.NodeID
	term     uint64
	turn     *leader.Driver
	voters   []string
	revoked  bool // its Raft has a newer term
	steps    int  // StepDowns
	answered []ack.Answer
}

// actor is one node: its process, if it is up, and its faults.
type actor struct {
	id      shardmap.NodeID
	boot    uint64
	disk    string // of another disk than the first one
	nonce   uint64
	up      bool
	follows shardmap.NodeID // the leader that it follows
	term    uint64
	machine *agent.Agent
	routing ack.Routing
	leased  bool
	last    ack.Heartbeat // last heartbeat

	answers []ack.Answer // that have come

	held, deaf, mute, busy               bool
	runs                                 map[shardmap.Shard]bool // shards with a request, in addition to busy
	reticent                             bool                    // it does not report idle shards
	begins                               []shardmap.Shard        // requests begin for these after its next answer
	keys                                 string                  // the key configuration that it has loaded
	leaving, goodbye, unhealthy, gateway bool
	app                                  ack.AppHealth
	unreachable                          []shardmap.NodeID
	back                                 time.Duration // with goodbye
	keeps                                *ack.Releases // then, too; nil: nothing
	weight                               uint32
	zone                                 string // from its next start on
	// instances are those that may own shards; zero means a node with one instance.
	instances shardmap.InstanceSet
	// roles are those of the node, from its next start on.
	roles []string
	// releaseTime is the additional time that its acknowledgements may take because of hooks.
	releaseTime time.Duration
	// unacquired are shards that its app has failed to acquire. acquiresNone means that it acquires no shard.
	unacquired   []shardmap.Shard
	acquiresNone bool
	// caches means that its app may keep old copies of shards. appStartedAfter is the map after which the app started.
	caches          bool
	appStartedAfter shardmap.Epoch
	// services are the instances of each configured service that the node runs; nil means that none are
	// configured. unhealthyServices are those whose apps do not respond.
	services          map[string]shardmap.InstanceSet
	unhealthyServices map[string]bool
}

// newStage returns a stage with the given nodes down and no leader. The cluster
// has twelve shards.
func newStage(tb testing.TB, nodes ...shardmap.NodeID) *stage {
	tb.Helper()
	s := &stage{t: tb, pace: ack.DefaultPace(), timing: ack.DefaultTiming(), state: ack.NewState(), leaders: map[shardmap.NodeID]*leaderPart{}}
	for _, id := range nodes {
		s.actors = append(s.actors, newActor(id))
	}
	return s
}

// serving returns a stage on which the nodes serve and the first one leads.
func serving(tb testing.TB, nodes ...shardmap.NodeID) *stage {
	tb.Helper()
	return servingUnder(tb, ack.TakeoverLease, nodes...)
}

// servingUnder is serving with a takeover.
func servingUnder(tb testing.TB, f ack.Takeover, nodes ...shardmap.NodeID) *stage {
	tb.Helper()
	s := newStage(tb, nodes...)
	s.timing.Takeover = f
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
	a := newActor(id)
	s.actors = append(s.actors, a)
	return a
}

func newActor(id shardmap.NodeID) *actor {
	return &actor{id: id, weight: 1, routing: ack.NewRouting(id, ack.NewState(), 0, false)}
}

// start starts processes, each under its next boot.
func (s *stage) start(ids ...shardmap.NodeID) {
	for _, id := range ids {
		a := s.actor(id)
		a.boot++
		a.nonce += 100 + uint64(len(id))
		a.up, a.leased, a.goodbye, a.leaving, a.last = true, false, false, false, ack.Heartbeat{}
		a.machine = agent.New(agent.Options{
			Node: id, Server: string(id) + "/d" + a.disk, Boot: a.boot, Nonce: a.nonce, Pace: s.pace, Timing: s.timing, Gateway: a.gateway, Zone: a.zone, Roles: a.roles,
			Gate: gate{s, a}, RaftTerm: func() uint64 { return a.term }, SendHeartbeat: func(hb ack.Heartbeat) { s.send(a, hb) },
			RaiseBoot:        func(known uint64) (uint64, bool) { return known + 1, true },
			IsFollowingVoter: func() bool { return !a.gateway && a.follows != a.id },
		}, s.now)
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
		s.step(l, leader.ConnClosed{Node: id, Nonce: a.nonce})
	}
}

// elect makes id the leader of the next term. All live nodes follow it except those in but,
// which stay with an older leader.
func (s *stage) elect(id shardmap.NodeID, but ...shardmap.NodeID) *leaderPart {
	l := s.electStuck(id, but...)
	s.step(l, leader.BarrierApplied{})
	return l
}

// electStuck is elect without the barrier.
func (s *stage) electStuck(id shardmap.NodeID, but ...shardmap.NodeID) *leaderPart {
	if !s.state.Bootstrapped() {
		s.append(1, ack.EncodeBootstrap("demo", 12, s.timing))
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
	l := &leaderPart{id: id, term: s.term, voters: s.voters()}
	l.turn = leader.NewDriver(leader.DriverOptions{
		Leader: leader.Options{Server: string(id) + "/d", Term: s.term, Pace: s.pace, Timing: s.timing, BootstrapExpect: s.expected(), Replicas: s.replicas},
		Raft:   stageRaft{s, l}, Clock: func() time.Duration { return s.now }, NewestState: func() *ack.State { return s.newest(l) },
		KeyConfig: func() string { return s.actor(id).keys }, ServicesOf: servicesOfKeys,
	})
	s.leaders[id] = l
	s.notef("%s leads term %d", id, s.term)
	s.step(l, leader.Tick{})
	return l
}

// expected returns the number of nodes that form the cluster.
func (s *stage) expected() int {
	if s.expect > 0 {
		return s.expect
	}
	up := 0
	for _, a := range s.actors {
		if a.up {
			up++
		}
	}
	return up
}

// newest returns the newest state in the log of a leader.
func (s *stage) newest(l *leaderPart) *ack.State {
	if l.turn != nil && l.term != s.term {
		return l.turn.State()
	}
	return s.state
}

// stageRaft is the Raft server of a leader.
type stageRaft struct {
	s *stage
	l *leaderPart
}

// Term returns the term of the leader until its Raft server gets a newer one.
func (r stageRaft) Term() uint64 {
	if r.l.revoked {
		return r.s.term
	}
	return r.l.term
}

// Voters returns the servers that voted for it.
func (r stageRaft) Voters() []string { return r.l.voters }

// Nonvoters returns all other servers, such as another disk of a voter.
func (r stageRaft) Nonvoters() []string {
	var others []string
	for _, a := range r.s.actors {
		if server := string(a.id) + "/d" + a.disk; !slices.Contains(r.l.voters, server) {
			others = append(others, server)
		}
	}
	slices.Sort(others)
	return others
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
		s.notef("log %d: proposed %s%s", s.index, spread(next.Proposed()), drops(next))
	case ack.OutcomeCommitted:
		s.notef("log %d: committed %d", s.index, next.Committed().Epoch())
	case ack.OutcomeIgnored:
		s.notef("log %d: ignored", s.index)
	case ack.OutcomeTimingChanged:
		t := next.Timing()
		s.notef("log %d: lease %v, dead-after %v, takeover %v", s.index, t.Lease, t.DeadAfter, t.Takeover)
	case ack.OutcomeBootstrapped, ack.OutcomeFormatVersionRaised, ack.OutcomePolicyChanged, ack.OutcomeRestartChanged, ack.OutcomeAppsReported, ack.OutcomeRegistry, ack.OutcomeJoinChanged:
	}
	return outcome
}

// run lets time pass.
func (s *stage) run(d time.Duration) {
	for end := s.now + d; s.now < end; {
		s.now += stageTick
		for _, l := range s.leaderParts() {
			s.step(l, leader.Tick{})
		}
		for _, a := range s.actors {
			if a.up {
				s.act(a)
				s.receiveAnswers(a)
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
	return a.up && a.machine.LeaseRemaining(s.now) > 0 && a.state().Committed().ShardCount(id) > 0 && !a.state().HasOpenProposal()
}

func (a *actor) state() *ack.State { return a.routing.State() }

// act is one poll of a node.
func (s *stage) act(a *actor) {
	newest := s.state
	if a.held {
		newest = a.machine.State()
	}
	observation := agent.Observation{State: newest, Unhealthy: a.unhealthy, App: a.app, Leaving: a.leaving, Stopping: a.goodbye, RestartWithin: a.back, Weight: a.weight, KeyConfigDigest: ack.KeyConfigDigest(a.keys), Instances: a.instances, Unreachable: a.unreachable}
	a.reportServices(&observation)
	a.machine.Poll(s.now, observation)
}

// beat returns the next heartbeat of the node without sending it.
func (s *stage) beat(a *actor) ack.Heartbeat {
	follows := a.follows
	a.follows = ""
	a.machine.HeartbeatNow()
	s.act(a)
	a.follows = follows
	return a.last
}

// gate is the Gate of a node: it has at most one request, for a moving shard.
type gate struct {
	s *stage
	a *actor
}

// PublishLease records that a lease began or ended.
func (g gate) PublishLease(until time.Duration) bool {
	if held := until != 0; held != g.a.leased {
		g.a.leased = held
		g.s.notef("%s has %s", g.a.id, map[bool]string{true: "a lease", false: "no lease any more"}[held])
	}
	return false
}

func (g gate) PublishRouting(r ack.Routing) { g.a.routing = r }

func (g gate) CountRunning(may func(shardmap.Shard) bool) int {
	n := 0
	for s := range g.a.runs {
		if !may(s) {
			n++
		}
	}
	if g.a.busy {
		n++
	}
	return n
}

func (g gate) AbortRequests(why agent.AbortReason, may func(shardmap.Shard) bool) {
	for _, s := range slices.Sorted(maps.Keys(g.a.runs)) {
		if !may(s) {
			g.s.notef("%s cuts a request of shard %d: %s", g.a.id, s, why)
			delete(g.a.runs, s)
		}
	}
	if g.a.busy {
		g.s.notef("%s cuts running requests: %s", g.a.id, why)
		g.a.busy = false
	}
}

// send delivers a heartbeat to the leader that the node follows, and the answer back.
func (s *stage) send(a *actor, hb ack.Heartbeat) {
	if hb.Acked != a.last.Acked && hb.Acked != 0 {
		s.notef("%s acknowledges %d", a.id, hb.Acked)
	}
	if a.keeps != nil && hb.Goodbye {
		a.keeps.Proposal = hb.Acked
		hb.ReleasesDigest, hb.ReleaseTime = a.keeps.Digest(), 4*time.Second
	}
	hb.UnacquiredShards, hb.AcquiresNone = a.unacquired, a.acquiresNone
	hb.ReturnsNeedRestart, hb.AppStartedAfter = a.caches, a.appStartedAfter
	hb.ReleaseTime = max(hb.ReleaseTime, a.releaseTime)
	a.last = hb
	l := s.leaders[a.follows]
	if a.mute || l == nil {
		return
	}
	l.answered = nil
	if s.show {
		s.notef("%s → %s: number %d, echo %d/%d, applied %d, acknowledged %d%s", a.id, l.id, hb.Number, hb.Echo.Term, hb.Echo.Number, hb.Applied, hb.Acked, manner(hb))
	}
	s.step(l, leader.HeartbeatReceived{Heartbeat: hb, From: string(a.id) + ":1"})
	for _, ans := range l.answered {
		if s.show && ans.Refusal == 0 {
			s.notef("%s → %s: answer %d/%d, ok %v, epoch %d, serve %v%s", l.id, a.id, ans.Term, ans.Number, ans.OK, ans.Epoch, ans.ServeFor,
				map[bool]string{true: ", the map stays"}[ans.MapUnchanged])
		}
		if !a.deaf {
			a.answers = append(a.answers, ans)
		}
	}
}

// receiveAnswers gives a node the received answers.
func (s *stage) receiveAnswers(a *actor) {
	answers := a.answers
	a.answers = nil
	for _, ans := range answers {
		switch ans.Refusal {
		case ack.RefusedBoot:
			s.notef("%s learns of its boot %d", a.id, ans.KnownBoot)
		case ack.RefusedDuplicate:
			s.notef("%s is refused: %q", a.id, ans.DuplicateAddr)
		case ack.RefusedRollback:
			s.notef("%s gets the answer that its disk was rolled back", a.id)
		}
		a.machine.HandleAnswer(s.now, ans)
		s.act(a)
	}
}

// manner describes the further fields of a heartbeat.
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

// step gives the machine of the leader a message, and performs its effects.
func (s *stage) step(l *leaderPart, m leader.Message) { s.effect(l, slices.Clone(l.turn.Step(m))) }

func (s *stage) effect(l *leaderPart, effects []leader.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case leader.Reply:
			l.answered = append(l.answered, e.Answer)
		case leader.Submit:
			s.waiting = append(s.waiting, submitted{by: l.id, term: l.term, entry: slices.Clone(e.Entry)})
		case leader.Barrier: // see elect
		case leader.IdleShardsQuery:
			s.reportIdle(l, s.actor(e.Node))
		case leader.StepDown:
			l.steps++
			s.notef("%s steps down: %s", l.id, e.Reason)
		case leader.Event:
			s.noted(l, e)
		}
	}
	if !s.stuck {
		s.flush()
	}
}

// reportIdle answers a query of a leader at once: all shards without a request are idle. The
// request in busy begins after the answer.
func (s *stage) reportIdle(l *leaderPart, a *actor) {
	if !a.up || a.mute || a.reticent {
		return
	}
	m := leader.IdleShards{Node: a.id, MapEpoch: a.state().Committed().Epoch(), IsAnswer: true}
	for x := range a.state().Committed().Shards(a.id) {
		if !a.runs[x] {
			m.Shards = append(m.Shards, x)
		}
	}
	for _, x := range a.begins {
		s.runs(a.id, x)
	}
	a.begins = nil
	s.step(l, m)
}

// flush lets the waiting entries enter the log. Entries of leaders of older terms are
// discarded.
func (s *stage) flush() {
	for len(s.waiting) > 0 {
		e := s.waiting[0]
		s.waiting = s.waiting[1:]
		if e.term == s.term {
			s.append(e.term, e.entry)
		}
	}
}

func (s *stage) noted(l *leaderPart, e leader.Event) {
	switch e.Kind {
	case leader.EventProposing:
		s.notef("%s proposes: %s, %d moves", l.id, e.Reason, e.Moved)
	case leader.EventCommitting:
		s.notef("%s commits %d", l.id, e.Epoch)
	case leader.EventTakeover:
		s.notef("%s takes from %s: %s", l.id, e.Node, e.Reason)
	case leader.EventDuplicate:
		s.notef("%s sees %s twice: %s", l.id, e.Node, e.Reason)
	case leader.EventNodeUnresponsive:
		s.notef("%s receives nothing from %s", l.id, e.Node)
	case leader.EventRestart:
		s.notef("%s has %s absent for %v", l.id, e.Node, e.Grace)
	case leader.EventNodeRecovered:
		s.notef("%s receives heartbeats of %s again", l.id, e.Node)
	case leader.EventNodeExcluded:
		s.excluded = append(s.excluded, e)
	case leader.EventNodeUnreachable:
		s.notef("%s: %v cannot connect to %s", l.id, e.Reporters, e.Node)
	case leader.EventNodeReachable:
		s.notef("%s: most members can connect to %s again", l.id, e.Node)
	case leader.EventNoteRejected:
	}
}
