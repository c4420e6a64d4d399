package ack

import (
	"time"

	"shardway/shardmap"
)

const (
	// burstEvery and burstMost let a node that has just met a leader get its lease
	// within a few round trips instead of a few heartbeats. burstLeast is how often it
	// speaks so if it has that at once: others are granted theirs only after it has
	// confirmed the leader once more (the first lease of a boot needs a later Q).
	burstEvery = 10 * time.Millisecond
	burstMost  = 8
	burstLeast = 4
)

// Gate is the way of requests to a node's app, as its Agent needs it: they pass by
// the lease and the table that were published last. The agent calls it from within
// its own methods. No method may block or call the agent.
//
// Whoever admits a request counts it first and looks at table and lease then; the
// agent publishes first and lets count then. So one of the two sees the other.
type Gate interface {
	// Lease publishes until when requests may be admitted, zero for not at all. It
	// reports whether one may have met the end of what was published before.
	Lease(until time.Duration) (missed bool)
	// Route publishes a table, and lets requests that wait look at it.
	Route(Routing)
	// Running counts the requests that run here for shards of which may is false.
	// If there are any, their end must lead to a Look soon.
	Running(may func(shardmap.Shard) bool) int
	// Cut cuts those. It does not wait for their end.
	Cut(why Cutting, may func(shardmap.Shard) bool)
}

// AgentOptions are the fixed facts of a process. None may be missing but Gateway, Zone
// and Hooks.
type AgentOptions struct {
	Node shardmap.NodeID
	// Server is the Raft server id, node/disk.
	Server string
	// Boot is on disk, and higher than those before (see Heartbeat).
	Boot, Nonce uint64
	Pace        Pace
	// Timing is what it goes by as long as its log tells none.
	Timing  Timing
	Gateway bool
	// Hooks tell the app which shards it holds. Nil: it is not told.
	Hooks *HookOptions
	// Zone is where the node stands, up to 64 bytes; empty: nowhere.
	Zone string

	Gate Gate
	// Term reads the node's Raft term anew at each call.
	Term func() uint64
	// Send hands a heartbeat to whoever leads. It must not block; what is lost is
	// made up for by the next one.
	Send func(Heartbeat)
	// Raise takes a boot above known and the present one, on disk before it returns.
	// If it cannot, the node is lost: it returns false, and nothing is sent any more.
	Raise func(known uint64) (boot uint64, ok bool)
}

// Seen is what a node sees of itself at one look.
type Seen struct {
	// State is the newest of its own log.
	State *State
	// Unready is true until its app was checked once: till then it says nothing.
	// Unhealthy reports that the app does not answer.
	Unready, Unhealthy bool
	// App is what else is known of the app's health.
	App AppHealth
	// Leaving: it wants to own nothing. Parting: it is to admit and run nothing any
	// more, and to say goodbye then. Neither is taken back.
	Leaving, Parting bool
	// Back is within what time a node that parts comes back, zero for never. Then it
	// leaves with its shards, so what runs here has the time of a drain to end.
	Back time.Duration
	// Weight is its share in the map, above zero.
	Weight uint32
	// AfterRestart and AppSince are what it reports of its app, see AppReport.
	AfterRestart bool
	AppSince     shardmap.Epoch
	// Keys is the KeysDigest of the key configuration that the node has loaded; zero: none.
	Keys uint64
	// Asked is whether requests have come since the last Look.
	Asked bool
}

// Cutting says why running requests are cut.
type Cutting uint8

// The causes.
const (
	CutLapsed   Cutting = iota + 1 // the lease ended a while ago (why 3)
	CutDraining                    // their shards move, and the drain has lasted too long (rule 7)
	CutBoot                        // the node takes a higher boot
	CutGoodbye                     // the node leaves
)

var cuttingNames = [...]string{CutLapsed: "lease lost", CutDraining: "draining", CutBoot: "new boot", CutGoodbye: "goodbye"}

// String returns the cause as metrics name it.
func (c Cutting) String() string { return nameOf(cuttingNames[:], uint8(c), "Cutting") }

// Verdict is what an answer means for the process that gets it.
type Verdict uint8

// The verdicts.
const (
	// Ignored: it is none of this boot, or of a leader that is none any more.
	Ignored Verdict = iota + 1
	// Counted: a leader hears this node.
	Counted
	// Outbooted: a higher boot of this node is known, of another disk. It cuts what it
	// runs and takes the next one. It is told once.
	Outbooted
	// RolledBack: this disk is an older image of itself, or a copy. The process must
	// stop, and the disk must not be used any more.
	RolledBack
	// Duplicate: another process has this id. A restart meets that for a moment.
	Duplicate
	// Usurped: it has it for so long that the process must stop.
	Usurped
)

// Agent is a node's own side of the protocol: it owns Holder and Follower, and
// decides when the node admits, routes, drains, acknowledges and speaks. See Look
// for the order of that. The zero Agent is not usable.
type Agent struct {
	o        AgentOptions
	holder   *Holder
	follower *Follower
	hooks    *hooks // nil: none

	nextBeat time.Duration
	later    time.Duration // by how much the one after the next is to be, see BeatWith
	near     time.Duration // of it, by how much it was drawn near; see drawNear
	burst    int
	echoTerm uint64        // of the last answer that counted
	inForce  uint64        // the term of the lease in force at the last look; zero: there was none
	reboot   uint64        // a higher boot of this node that the leader knows; zero: none
	refused  time.Duration // since when the leader refuses this node for another process; zero: it does not
	granted  time.Duration // until when the lease would hold that was ended for Parting
	parted   bool
	// partSince is when it was to admit nothing any more; zero: it is not.
	partSince time.Duration
	stays     bool
	current   bool
	away      bool          // it admits nothing any more, and its shards wait for its next process
	askedAt   time.Duration // when a look last found that requests had come; zero: never
}

// NewAgent returns the agent of a process that begins now, before its first state.
func NewAgent(o AgentOptions, now time.Duration) *Agent {
	a := &Agent{o: o, holder: NewHolder(o.Boot, now), follower: NewFollower(o.Node, o.Pace.DrainTimeout)}
	if o.Hooks != nil && !o.Gateway {
		a.hooks = newHooks(*o.Hooks, o.Node, o.Server, o.Boot)
	}
	return a
}

// Look looks at everything that may have changed. It is due as Due says, and at once
// after BeatNow, BeatEarly, Answered, Called and NotAcquired, a new state, and the end of a request
// that Running or Busy counted. now is the time at which the clock was read last; the agent reads none.
//
// The order is that of G1: what ends the lease or takes a shard is published before
// anything is counted, counted before the app is told to release and before it is
// acknowledged, and acknowledged before the leader hears of it.
func (a *Agent) Look(now time.Duration, s Seen) {
	if s.Asked {
		a.askedAt = now
	}
	a.holder.Tick(now)
	if s.Parting || a.reboot != 0 {
		if until, held := a.holder.Until(); held && a.reboot == 0 {
			a.granted = until
		}
		a.holder.Void()
	}
	if s.Parting && s.Back > 0 && !a.away {
		a.away = true
		a.route(a.follower.State())
	}
	a.lease()
	a.table(now, s.State)
	if a.holder.CutDue(now) {
		a.o.Gate.Cut(CutLapsed, nothing)
		if a.hooks != nil {
			a.hooks.endAll()
		}
	}
	a.hook(now, s)
	a.drain(now)
	if a.hooks != nil && a.reboot == 0 && a.hooks.deliver(now) {
		a.nextBeat = 0
	}
	a.takeBoot()
	a.part(now, s)
	if now >= a.nextBeat && a.reboot == 0 && !s.Unready {
		a.beat(now, s)
	}
}

// nothing may run.
func nothing(shardmap.Shard) bool { return false }

// lease publishes the lease. One that comes back makes a new table, because that is
// what waiting requests wait for.
func (a *Agent) lease() {
	until, held := a.holder.Until()
	if !held {
		until = 0
	}
	missed := a.o.Gate.Lease(until)
	was := a.inForce
	a.inForce = a.holder.Term()
	switch {
	case held && (was == 0 || missed):
		a.route(a.follower.State())
	case a.inForce != was && a.pauses(): // it matters whose lease it is, and that there is none
		a.route(a.follower.State())
	}
	if !held && was != 0 {
		a.burst, a.nextBeat = 0, 0 // ask at once: a busy machine looks like a pause
	}
}

// CutBy returns when what the node runs is to be cut, if the lease that it had last has
// ended by then and no other one has come: Gate.Cut is told when the agent looks. Zero
// before the first lease.
func (a *Agent) CutBy() time.Duration { return a.holder.cutBy }

// pauses reports that no request is started without a lease, and whose lease it is
// matters.
func (a *Agent) pauses() bool { return a.follower.State().Timing().Pause == PauseCluster }

func (a *Agent) route(s *State) {
	r := RoutingOf(a.o.Node, s, a.inForce, a.o.Gateway)
	if a.hooks != nil {
		r = r.Acquired(a.hooks.acquired)
	}
	if a.away {
		r = r.Away()
	}
	a.o.Gate.Route(r)
}

// table makes s what the node routes and drains by.
func (a *Agent) table(now time.Duration, s *State) {
	if s != a.follower.State() {
		a.route(s)
		a.follower.Applied(now, s)
	}
}

// hook tells the app which shards it is to hold. A boot that is given up tells nothing
// more.
func (a *Agent) hook(now time.Duration, s Seen) {
	if a.hooks == nil || a.reboot != 0 {
		return
	}
	state := a.follower.State()
	_, leased := a.holder.Until()
	a.hooks.look(now, sight{
		state: state, leased: leased, granted: leased || s.Parting && now < a.granted,
		draining: a.follower.Draining(), parting: s.Parting, back: s.Parting && s.Back > 0,
	}, func() { a.route(state) })
	if a.hooks.spoke {
		a.hooks.spoke, a.nextBeat = false, 0
	}
}

// drain acknowledges once nothing runs for a shard that must not run here, and the app
// knows.
func (a *Agent) drain(now time.Duration) {
	e := a.follower.Draining()
	if e == 0 {
		return
	}
	if a.o.Gate.Running(a.follower.MayRun) > 0 {
		a.cutDue(now)
		return
	}
	if a.hooks != nil {
		if !a.hooks.settled(now, a.follower.Keeps) {
			return
		}
		a.hooks.giveUp(now, e)
	}
	a.follower.Drained(e)
	a.nextBeat = 0
}

// cutDue cuts what has drained for too long.
func (a *Agent) cutDue(now time.Duration) {
	if !a.follower.CutDue(now) {
		return
	}
	if a.hooks != nil {
		a.hooks.cutting()
	}
	a.o.Gate.Cut(CutDraining, a.follower.MayRun)
}

// takeBoot takes a higher boot once nothing of the present one runs: when the leader
// hears of it, it takes that as the end of the old one.
func (a *Agent) takeBoot() {
	if a.reboot == 0 {
		return
	}
	if empty := a.empty(CutBoot); !empty || a.hooks != nil && !a.hooks.ended() {
		return
	}
	if boot, ok := a.o.Raise(a.reboot); ok {
		a.holder.Reboot(boot)
		if a.hooks != nil {
			a.hooks.reboot(boot)
			a.route(a.follower.State())
		}
		a.reboot, a.nextBeat = 0, 0
	}
}

// part finds out whether the node may say goodbye: the leader gives its shards to
// others at that word, so it must admit and run nothing any more, and its app has
// released what nobody took.
func (a *Agent) part(now time.Duration, s Seen) {
	if !s.Parting || a.parted {
		return
	}
	if a.partSince == 0 {
		a.partSince = now
	}
	if s.Back > 0 && now-a.partSince < a.o.Pace.DrainTimeout && a.o.Gate.Running(nothing) > 0 {
		return
	}
	if !a.empty(CutGoodbye) {
		return
	}
	if was := a.released(); a.hooks != nil && !a.hooks.parted(now, a.follower.Acked()) {
		if a.released() != was {
			a.nextBeat = 0 // the leader is to hear of it
		}
		return
	}
	a.parted, a.nextBeat = true, 0
}

// empty reports that nothing runs here, and cuts what does.
func (a *Agent) empty(why Cutting) bool {
	if a.o.Gate.Running(nothing) == 0 {
		return true
	}
	a.o.Gate.Cut(why, nothing)
	return false
}

// beat sends a heartbeat. The lease that answers it counts from now. The echo is read
// before the Raft term (why 6): the term then says that no newer one had begun when
// the echoed answer was sent.
func (a *Agent) beat(now time.Duration, s Seen) {
	a.nextBeat, a.near, a.later = now+a.o.Pace.Heartbeat+a.later, 0, 0
	if !a.parted {
		s.Back = 0
	}
	number, echo := a.holder.Beat(now)
	unacquired, waiting, unable := a.unacquired()
	kept, keepsAll := a.kept()
	a.o.Send(Heartbeat{
		Level: a.follower.State().Level(), Node: a.o.Node, Server: a.o.Server, Boot: a.holder.Boot(), Nonce: a.o.Nonce, Number: number, Echo: echo,
		Term:    a.o.Term(),
		Applied: a.follower.State().Committed().Epoch(), Acked: a.follower.Acked(), Every: a.o.Pace.Heartbeat,
		Weight: s.Weight, Zone: a.o.Zone, Unhealthy: s.Unhealthy, Leaving: s.Leaving, Goodbye: a.parted, Gateway: a.o.Gateway, App: s.App,
		Release: a.releases(), Released: a.released(), Back: s.Back, Keys: s.Keys, NotReleased: a.notReleased(now),
		NotAcquired: waiting, Unacquired: unacquired, Unable: unable, Kept: kept, KeepsAll: keepsAll,
		AfterRestart: s.AfterRestart && !a.o.Gateway, AppSince: s.AppSince,
	})
}

// releases returns how much longer the leader is to wait for an acknowledgement.
func (a *Agent) releases() time.Duration {
	if a.hooks == nil {
		return 0
	}
	return a.hooks.release()
}

// released returns the digest of what the acknowledgement gives up shards with.
func (a *Agent) released() [32]byte {
	if a.hooks == nil {
		return [32]byte{}
	}
	return a.hooks.digest
}

// Answered takes an answer. A Look must follow.
func (a *Agent) Answered(now time.Duration, ans Answer) Verdict {
	if ans.Boot != a.holder.Boot() {
		return Ignored
	}
	if ans.Refusal != 0 && ans.Term >= a.o.Term() {
		a.holder.reached(ans.Beat) // that leader is there
	}
	switch ans.Refusal {
	case RefusedBoot:
		return a.outbooted(ans.Known)
	case RefusedRollback:
		return RolledBack
	case RefusedDuplicate:
		return a.duplicate(now, ans.Elsewhere)
	}
	if !a.holder.Answered(now, a.o.Term(), ans) {
		return Ignored
	}
	a.refused, a.stays = 0, ans.MapStays
	a.current = a.current || ans.OK
	a.drawNear(ans)
	if a.hooks != nil {
		a.hooks.told(now, ans, a.parted)
	}
	if ans.Term != a.echoTerm {
		// A new leader grants nothing before it is shown an answer of its own, and
		// what the old one granted is running out.
		a.echoTerm, a.burst = ans.Term, 0
		a.nextBeat = now
	}
	// Who holds a lease asks on too: it may be of a leader that is gone, and the new
	// one not ready to grant yet.
	if _, held := a.holder.Until(); a.burst < burstLeast || (!held || ans.Serve <= 0) && !a.o.Gateway && a.burst < burstMost {
		a.burst++
		a.nextBeat = min(a.nextBeat, now+burstEvery)
	}
	return Counted
}

func (a *Agent) outbooted(known uint64) Verdict {
	if a.reboot != 0 || known <= a.holder.Boot() {
		return Ignored
	}
	a.reboot = known
	return Outbooted
}

// duplicate notes that another process has this node's id; one that lasts is a mistake
// of the operator's.
func (a *Agent) duplicate(now time.Duration, elsewhere string) Verdict {
	if elsewhere == "" {
		return Ignored // it is gone, and its lease has to run out
	}
	if a.refused == 0 {
		a.refused = now
	}
	if now-a.refused > 2*a.Timing().DeadAfter {
		return Usurped
	}
	return Duplicate
}

// Ran tells, before Look and Answered, that the process has run until now, however late
// those come: a machine that is busy is not paused, and a lease that holds is kept.
func (a *Agent) Ran(now time.Duration) { a.holder.Ran(now) }

// BeatNow makes the next Look send a heartbeat.
func (a *Agent) BeatNow() { a.nextBeat = 0 }

// Boot returns the boot under which the node sends heartbeats.
func (a *Agent) Boot() uint64 { return a.holder.Boot() }

// State returns the state that the node routes by.
func (a *Agent) State() *State { return a.follower.State() }

// Acked returns the last proposal that was acknowledged, Draining the one that the node
// drains for, zero if none.
func (a *Agent) Acked() shardmap.Epoch { return a.follower.Acked() }

// Draining see Acked.
func (a *Agent) Draining() shardmap.Epoch { return a.follower.Draining() }

// LeaseLeft returns how much of the lease is left, zero without one.
func (a *Agent) LeaseLeft(now time.Duration) time.Duration { return a.holder.Left(now) }

// Timing is what the cluster goes by, as far as the node's log tells.
func (a *Agent) Timing() Timing {
	if s := a.follower.State(); s.Born() {
		return s.Timing()
	}
	return a.o.Timing
}

// MapStays reports that nobody is left to take the shards of this node, which leaves.
func (a *Agent) MapStays() bool { return a.stays }

// Parted reports that the node admits and runs nothing any more, for good, and says so.
func (a *Agent) Parted() bool { return a.parted }

// Current reports that a leader has said that this node has the last map proposed: its
// log is not far behind.
func (a *Agent) Current() bool { return a.current }
