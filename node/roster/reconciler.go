package roster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/internal/clock"
	"shardway/node/consensus"
	"shardway/node/disk"
	"shardway/node/gossip"
	"shardway/shardmap"
)

const (
	// membersEvery is how often the leader compares Raft's configuration with the
	// nodes that gossip shows. One change is made at a time.
	reconcileInterval = 100 * time.Millisecond
	// restLooks is which of those looks it takes at rest: once nothing was changed for restAfter,
	// which the steps follow that one of them leads to. Each look wakes the leader, too.
	idleIntervals = 3
	idleAfter     = 10 * time.Second
	// confirmEvery is how often a node is asked whether it is what gossip says, and
	// for how long.
	confirmInterval = time.Second
	// fewestVoters is how many voters there must be for one to be taken out
	// unasked, not counting that one.
	minVoters = 3
)

// Keeper keeps Raft's configuration while this node leads: it adds nodes, makes
// them voters, puts a node's new disk in the place of its old one, and takes out
// who has been dead for long.
//
// Gossip only gives hints: it can be replayed. What it says of a server is acted
// upon once the node has said so itself, on the peer port, and nothing of it takes
// out a server whose own heartbeats come.
type Reconciler struct {
	o ReconcilerOptions
	// absent is for how long each server has not been heard, as far as this leader
	// has looked: a time in which it did not run counts for nobody's absence.
	unheardFor map[string]time.Duration
	lastCheck  time.Time
	interval   time.Duration // it looks
	// changed is when it last changed anything, or began.
	lastChange time.Time
	// promoted is when this leader made each server a voter.
	promotedAt map[string]time.Time
	// asked is when each server was last asked who it is.
	identifiedAt map[string]time.Time
	unconfirmed  unconfirmedNodes

	started        time.Time
	levels         *ack.Levels
	rejected       map[string]bool // servers that are below the level in force; that was said
	loggedBlockers string          // who holds the next level up, as it was said last
	levelView      atomic.Pointer[ack.LevelView]
	raiseRequests  chan chan<- error // unbuffered
}

// KeeperOptions is what a Keeper is made from.
type ReconcilerOptions struct {
	Raft   Raft
	Gossip Gossip
	// Who asks a node's process which one it is, and which level it knows.
	Identify func(ctx context.Context, node string) (Process, error)
	// Heard returns what the leader has heard of the nodes; false: it is none any
	// more.
	Heard func(ctx context.Context) ([]ack.MemberView, bool)
	// State returns the replicated state.
	State func() State
	// Ready reports that it is no older than what earlier leaders committed.
	Ready func() bool
	// Term is the leadership's. Raise puts an entry into the log and returns when it is
	// applied, or not in the log.
	Term         uint64
	ProposeLevel func(entry []byte) error
	// MaxVoters is how many nodes vote at most; Server is the leader's own.
	MaxVoters int
	Server    string
	// RemoveDeadAfter takes out a server that was not heard for so long; zero: none.
	RemoveDeadAfter time.Duration
	// LevelAfter is how long all servers must have known a level before it is raised.
	LevelAfter time.Duration
	// Pulse tells when to look.
	Pulse *clock.Pulse
	Log   zerolog.Logger
}

// State is what an ack.State says of who belongs to the cluster.
type State interface {
	Bootstrapped() bool
	Cluster() string
	Committed() *shardmap.Map
	Level() ack.Level
}

// Raft is what a Keeper changes.
type Raft interface {
	// Configuration returns the latest one in the own log.
	Configuration() []consensus.Server
	AddNonvoter(server string) error
	Promote(server string) error
	Demote(server string) error
	Remove(server string) error
}

// Gossip shows who is there.
type Gossip interface{ Members() []gossip.Member }

// NewKeeper returns the Keeper of one leadership.
func NewReconciler(o ReconcilerOptions) *Reconciler {
	now := time.Now()
	return &Reconciler{
		o: o, unheardFor: map[string]time.Duration{}, promotedAt: map[string]time.Time{}, lastCheck: now, interval: reconcileInterval, lastChange: now, identifiedAt: map[string]time.Time{},
		started: now, levels: ack.NewLevels(o.Term, o.LevelAfter), rejected: map[string]bool{}, raiseRequests: make(chan chan<- error),
	}
}

// Run returns when ctx ends, or the leadership, which closes done.
func (k *Reconciler) Run(ctx context.Context, done <-chan struct{}) {
	t := k.o.Pulse.Every(reconcileInterval)
	defer t.Stop()
	for tick := 0; ; tick++ {
		select {
		case <-ctx.Done():
			return
		case <-done:
			return
		case <-t.C:
		case answer := <-k.raiseRequests:
			answer <- k.raiseLevel(ctx, true)
			continue
		}
		k.interval = reconcileInterval
		if time.Since(k.lastChange) > idleAfter {
			k.interval *= idleIntervals
		}
		if tick%int(k.interval/reconcileInterval) != 0 || !k.o.Ready() || !k.o.State().Bootstrapped() {
			continue
		}
		heard, ok := k.o.Heard(ctx)
		for ok && k.applyNextChange(ctx, heard) {
			k.lastChange = time.Now()
			heard, ok = k.o.Heard(ctx)
		}
		if ok {
			_ = k.raiseLevelFrom(ctx, heard, false) // why not is in the view
		}
	}
}

// change makes the next change and reports whether there may be another.
func (k *Reconciler) applyNextChange(ctx context.Context, heard []ack.MemberView) bool {
	r := View{Servers: ServersOf(k.o.Raft.Configuration()), Heard: heard}
	k.updateUnheard(r)
	c := k.nextChange(ctx, r)
	if c.apply == nil {
		return false
	}
	if err := c.apply(c.server); err != nil {
		k.o.Log.Warn().Err(err).Str("server", c.server).Str("change", c.name).Msg("configuration not changed")
		return false
	}
	k.recordChange(c)
	k.o.Log.Info().Str("server", c.server).Str("change", c.name).Msg("configuration changed")
	return true
}

// look adds up the absence of every server.
func (k *Reconciler) updateUnheard(r View) {
	now := time.Now()
	passed := min(now.Sub(k.lastCheck), 2*k.interval)
	k.lastCheck = now
	previous := k.unheardFor
	k.unheardFor = make(map[string]time.Duration, len(previous))
	for _, server := range r.All() {
		if !r.isHeard(server) {
			k.unheardFor[server] = previous[server] + passed
		}
	}
}

// change is one step of Raft's configuration.
type configChange struct {
	name, server string
	apply        func(server string) error
}

// next picks the next step: a replaced disk first, then a new server, then a
// voter, then a dead one.
func (k *Reconciler) nextChange(ctx context.Context, r View) configChange {
	all := r.All()
	for _, m := range k.o.Gossip.Members() {
		if !k.isEligible(m) {
			continue
		}
		server := consensus.ServerID(m.ID, m.Tags.Disk)
		if slices.Contains(all, server) {
			continue
		}
		old := r.Of(m.ID)
		if old != "" && (!r.isGone(old) || !r.isExpendable(old)) || !k.confirm(ctx, m) {
			continue
		}
		if old != "" {
			// The disk that the old server's log was on is gone: it must not
			// vote again, and its successor starts without a vote.
			return configChange{"remove", old, k.o.Raft.Remove}
		}
		return configChange{"add", server, k.o.Raft.AddNonvoter}
	}
	if len(r.Voters) < k.o.MaxVoters {
		if server := k.promotable(r); server != "" {
			return configChange{"promote", server, k.o.Raft.Promote}
		}
	}
	if surplus := k.surplusVoter(r); surplus != "" {
		return configChange{"demote", surplus, k.o.Raft.Demote}
	}
	if server := k.replacedVoter(r); server != "" {
		return configChange{"remove", server, k.o.Raft.Remove}
	}
	return k.deadServerChange(r)
}

// surplus returns a voter that there is beyond --max-voters, or "": the place of a dead one is
// filled before that one is taken out, and it may come back between the two. Every voter
// must be heard, so that nobody's vote is needed for another's, and one whose zone has
// another voter is preferred. The leader keeps its vote, and three do.
func (k *Reconciler) surplusVoter(r View) string {
	if len(r.Voters) <= max(k.o.MaxVoters, minVoters) {
		return ""
	}
	last := ""
	for _, server := range slices.Backward(r.Voters) {
		switch {
		case !r.hasWorkingLink(server):
			return ""
		case server == k.o.Server:
		case last == "" || r.isOnlyInZone(last) && !r.isOnlyInZone(server):
			last = server
		}
	}
	return last
}

// may reports whether gossip shows a node that this cluster may have.
func (k *Reconciler) isEligible(m gossip.Member) bool {
	return m.Node && m.Err == nil && disk.CheckNodeID(m.ID) == nil && m.Status == gossip.Alive && m.Tags.Disk != "" &&
		(m.Tags.Cluster == "" || m.Tags.Cluster == k.o.State().Cluster())
}

// confirmed reports that a node says itself that it has the disk that gossip tells of,
// and a program that this cluster may have.
func (k *Reconciler) confirm(ctx context.Context, m gossip.Member) bool {
	server := consensus.ServerID(m.ID, m.Tags.Disk)
	p, err := k.identify(ctx, server)
	if err != errIdentifiedRecently { //nolint:errorlint // it is never wrapped
		k.unconfirmed.record(m.ID, err)
	}
	if err != nil || !k.admitsLevel(server, p.Level) {
		return false
	}
	delete(k.identifiedAt, server)
	return true
}

// errAskedLately is the error of a question that is not asked, because the last one is too recent.
var errIdentifiedRecently = errors.New("roster: the node was asked a moment ago")

// who asks a server's node which process it is, now and then. The error says that the node
// does not answer, or has another disk, or is errAskedLately.
func (k *Reconciler) identify(ctx context.Context, server string) (Process, error) {
	if last, ok := k.identifiedAt[server]; ok && time.Since(last) < confirmInterval {
		return Process{}, errIdentifiedRecently
	}
	ctx, cancel := context.WithTimeout(ctx, confirmInterval)
	defer cancel()
	p, err := k.o.Identify(ctx, nodeOf(server))
	k.identifiedAt[server] = time.Now()
	if err == nil && consensus.ServerID(nodeOf(server), p.Disk) == server {
		return p, nil
	}
	k.o.Log.Debug().Err(err).Str("server", server).Str("disk", p.Disk).Msg("server not confirmed by its node")
	if err == nil {
		err = fmt.Errorf("roster: the process there has disk %s", p.Disk)
	}
	return Process{}, err
}

// spare returns a server without a vote that may have one, or "". A lease needs what a
// quorum of the voters has echoed, so one that has not shown that it can would count
// against it from the start. One from a zone in which no voter is heard is preferred:
// the loss of a zone shall leave a quorum. Nobody loses its vote for that.
func (k *Reconciler) promotable(r View) string {
	first := ""
	for _, server := range r.Others {
		if !r.hasWorkingLink(server) || !r.isCaughtUp(server, k.o.State().Committed().Epoch()) {
			continue
		}
		if r.isInUncoveredZone(server) {
			return server
		}
		first = cmp.Or(first, server)
	}
	return first
}

// dead picks what is to be done about a server that has been dead for
// remove-dead-after, if that is asked for. The place of a voter is filled first, so
// that there are never fewer; with no spare for it, it goes if enough are left. A
// server without a vote goes unless gossip still shows its node: it would be added
// again.
func (k *Reconciler) deadServerChange(r View) configChange {
	if k.o.RemoveDeadAfter <= 0 {
		return configChange{}
	}
	isDead := func(server string) bool { return k.unheardFor[server] > k.o.RemoveDeadAfter }
	if i := slices.IndexFunc(r.Others, func(s string) bool { return isDead(s) && !isAlive(k.o.Gossip, nodeOf(s)) }); i >= 0 {
		return configChange{"remove", r.Others[i], k.o.Raft.Remove}
	}
	i := slices.IndexFunc(r.Voters, isDead)
	if i < 0 {
		return configChange{}
	}
	remaining, heard := 0, 0
	for _, server := range r.Voters {
		if !isDead(server) {
			remaining++
		}
		if r.isHeard(server) {
			heard++
		}
	}
	if spare := k.promotable(r); spare != "" && remaining < min(k.o.MaxVoters, len(r.Voters)) {
		return configChange{"promote", spare, k.o.Raft.Promote}
	}
	if len(r.Voters) > minVoters && heard > len(r.Voters)/2 {
		return configChange{"remove", r.Voters[i], k.o.Raft.Remove}
	}
	return configChange{}
}
