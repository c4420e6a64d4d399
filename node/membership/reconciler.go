package membership

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
	"shardway/ack/leader"
	"shardway/internal/clock"
	"shardway/node/consensus"
	"shardway/node/disk"
	"shardway/node/gossip"
	"shardway/shardmap"
)

const (
	// reconcileInterval is the interval at which the leader compares the Raft configuration with the
	// nodes that gossip shows. It makes one change at a time.
	reconcileInterval = 100 * time.Millisecond
	// When nothing has changed for idleAfter, the interval is multiplied by idleIntervals, because
	// each check wakes the leader as well. idleAfter is longer than the time between the changes of
	// one sequence, such as adding a server and promoting it.
	idleIntervals = 3
	idleAfter     = 10 * time.Second
	// confirmInterval is the minimum interval between two requests to a node to identify its process,
	// and the timeout of such a request.
	confirmInterval = time.Second
	// minVoters is the number of voters that must remain after an automatic removal.
	minVoters = 3
)

// Reconciler changes the Raft configuration while this node leads: it adds nodes, makes them
// voters, replaces the old disk of a node by its new one, and removes servers that have been dead
// for long.
//
// Gossip only provides hints, because gossip messages can be replayed. Before the Reconciler adds
// a server that gossip shows, the node must confirm it on its peer port. Gossip never causes the
// removal of a server that sends heartbeats.
type Reconciler struct {
	o ReconcilerOptions
	// unheardFor is how long each server has sent no heartbeats. Time during which this process did
	// not run does not count.
	unheardFor map[string]time.Duration
	lastCheck  time.Time
	interval   time.Duration // current interval between two checks
	// lastChange is the time of the last configuration change, or of the start.
	lastChange time.Time
	// promotedAt is when this leader made each server a voter.
	promotedAt map[string]time.Time
	// identifiedAt is when each server was last asked to identify its process.
	identifiedAt map[string]time.Time
	unconfirmed  unconfirmedNodes

	started        time.Time
	levels         *leader.FormatUpgrade
	rejected       map[string]bool // servers below the current level for which this was logged
	loggedBlockers string          // nodes that block the next level, as logged last
	levelView      atomic.Pointer[leader.FormatUpgradeView]
	raiseRequests  chan chan<- error // unbuffered
}

// ReconcilerOptions configure a Reconciler.
type ReconcilerOptions struct {
	Raft   Raft
	Gossip Gossip
	// Identify requests the identity of the process of a node, and the level that it supports.
	Identify func(ctx context.Context, node string) (Process, error)
	// Heard returns the heartbeats that the leader has received. ok is false if this node no longer
	// leads.
	Heard func(ctx context.Context) (heard []leader.MemberView, ok bool)
	// State returns the replicated state.
	State func() State
	// Ready reports whether the state contains everything that earlier leaders have committed.
	Ready func() bool
	// Term is the term of this leadership. ProposeLevel appends an entry to the log and returns once
	// it is applied, or has failed.
	Term         uint64
	ProposeLevel func(entry []byte) error
	// MaxVoters is the maximum number of voters. Server is the server ID of the leader.
	MaxVoters int
	Server    string
	// RemoveDeadAfter is how long a server must have sent no heartbeat before it is removed. Zero
	// disables removal.
	RemoveDeadAfter time.Duration
	// FinalizeAfter is how long all servers must have supported a level before it is raised.
	FinalizeAfter time.Duration
	// Scheduler is the shared ticker.
	Scheduler *clock.Scheduler
	Log       zerolog.Logger
}

// State is the part of ack.State that affects membership.
type State interface {
	Bootstrapped() bool
	ClusterID() string
	Committed() *shardmap.Map
	FormatVersion() ack.FormatVersion
}

// Raft is the interface for changes of the configuration.
type Raft interface {
	// Configuration returns the latest configuration in the log of this node.
	Configuration() []consensus.Server
	AddNonvoter(server string) error
	Promote(server string) error
	Demote(server string) error
	Remove(server string) error
}

// Gossip returns the members that gossip shows.
type Gossip interface{ Members() []gossip.Member }

// NewReconciler returns the Reconciler for one leadership.
func NewReconciler(o ReconcilerOptions) *Reconciler {
	now := time.Now()
	return &Reconciler{
		o: o, unheardFor: map[string]time.Duration{}, promotedAt: map[string]time.Time{}, lastCheck: now, interval: reconcileInterval, lastChange: now, identifiedAt: map[string]time.Time{},
		started: now, levels: leader.NewFormatUpgrade(o.Term, o.FinalizeAfter), rejected: map[string]bool{}, raiseRequests: make(chan chan<- error),
	}
}

// Run returns when ctx ends, or when the leadership ends, which closes done.
func (k *Reconciler) Run(ctx context.Context, done <-chan struct{}) {
	t := k.o.Scheduler.NewTicker(reconcileInterval)
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
			_ = k.raiseLevelFrom(ctx, heard, false) // levelView contains the reason
		}
	}
}

// applyNextChange makes the next change. It reports whether there may be another.
func (k *Reconciler) applyNextChange(ctx context.Context, heard []leader.MemberView) (more bool) {
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

// updateUnheard updates how long each server has sent no heartbeats.
func (k *Reconciler) updateUnheard(r View) {
	now := time.Now()
	passed := min(now.Sub(k.lastCheck), 2*k.interval)
	k.lastCheck = now
	previous := k.unheardFor
	k.unheardFor = make(map[string]time.Duration, len(previous))
	for _, server := range r.All() {
		if !r.isConnected(server) {
			k.unheardFor[server] = previous[server] + passed
		}
	}
}

// configChange is a change of the Raft configuration. A nil apply means no change.
type configChange struct {
	name, server string
	apply        func(server string) error
}

// nextChange selects the next change, in this order: replace a disk, add a server, promote a
// server, demote a surplus voter, remove a replaced voter, remove a dead server.
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
			// The log on the old disk is lost, so the old server must not vote again. The server
			// with the new disk starts as a non-voter.
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

// surplusVoter returns a voter beyond --max-voters, or "". Such a voter exists if a dead voter was
// replaced and then returned before its removal. All voters must be heard, so that no vote is
// needed in place of another. A voter whose zone has another voter is preferred. The leader and
// three voters always keep their votes.
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

// isEligible reports whether gossip shows m as a node that this cluster may add.
func (k *Reconciler) isEligible(m gossip.Member) bool {
	return m.Node && m.Err == nil && disk.CheckNodeID(m.ID) == nil && m.Status == gossip.Alive && m.Tags.Disk != "" &&
		(m.Tags.Cluster == "" || m.Tags.Cluster == k.o.State().ClusterID())
}

// confirm reports whether the node itself confirms the disk that gossip shows, and supports the
// current level.
func (k *Reconciler) confirm(ctx context.Context, m gossip.Member) bool {
	server := consensus.ServerID(m.ID, m.Tags.Disk)
	p, err := k.identify(ctx, server)
	if err != errIdentifiedRecently { //nolint:errorlint // never wrapped
		k.unconfirmed.record(m.ID, err)
	}
	if err != nil || !k.admitsLevel(server, p.Level) {
		return false
	}
	delete(k.identifiedAt, server)
	return true
}

// errIdentifiedRecently means that no request was sent, because the previous one is too recent.
var errIdentifiedRecently = errors.New("membership: the node was asked a moment ago")

// identify requests the identity of the process of a server, at most once per confirmInterval. It
// returns errIdentifiedRecently, or an error if the node does not respond or has another disk.
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
	k.o.Log.Debug().Err(err).Str("server", server).Str("disk", p.Disk).Msg("server not confirmed by node")
	if err == nil {
		err = fmt.Errorf("membership: the process there has disk %s", p.Disk)
	}
	return Process{}, err
}

// promotable returns a non-voter that may become a voter, or "". A lease needs echoes of a quorum
// of voters, so a server must have shown that the replies of the leader reach it; otherwise its
// vote would reduce availability. A server in a zone without a heard voter is preferred, so that
// the loss of a zone leaves a quorum. No voter loses its vote for this.
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

// deadServerChange selects the change for a server that has been dead for RemoveDeadAfter, if this
// is set. If possible, another server becomes a voter first, so that the number of voters does not
// drop. Otherwise the dead voter is removed if enough voters remain. A dead non-voter is removed
// unless gossip still shows its node, because it would be added again.
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
		if r.isConnected(server) {
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
