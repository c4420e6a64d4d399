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
	"shardway/ack/join"
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
// voters, replaces the old disk of a node with its new one, and removes servers that have been dead
// for a long time.
//
// Gossip only provides hints, because gossip messages can be replayed. Before the Reconciler adds
// a server that gossip shows, the node must confirm it on its peer port. Gossip never causes the
// removal of a server that sends heartbeats.
type Reconciler struct {
	options ReconcilerOptions
	// silentFor is how long each server has sent no heartbeats, not counting time during which this
	// process did not run.
	silentFor     map[string]time.Duration
	lastCheck     time.Time
	checkInterval time.Duration // current interval between two checks
	// lastChange is the time of the last configuration change, or of the start.
	lastChange time.Time
	// promotionTimes contains the time at which this leader made each server a voter.
	promotionTimes map[string]time.Time
	// identifyTimes contains the time at which each server was last asked to identify its process.
	identifyTimes    map[string]time.Time
	unconfirmedNodes unconfirmedTable

	startedAt        time.Time
	upgrade          *leader.FormatUpgrade
	loggedRejections map[string]bool // servers whose rejection because of their format version was logged
	loggedBlockers   string          // nodes that block the next format version, as logged last
	upgradeView      atomic.Pointer[leader.FormatUpgradeView]
	upgradeRequests  chan chan<- error // requests of RaiseLevel with a channel for the result; unbuffered

	approval      *join.Approval
	joinDecisions chan joinDecision // requests of DecideJoin; unbuffered
}

// ReconcilerOptions configure a Reconciler.
type ReconcilerOptions struct {
	Raft   Raft
	Gossip Gossip
	// Identify requests the identity of the process of a node, and the format version that it supports.
	Identify func(ctx context.Context, node string) (Process, error)
	// MemberViews returns the heartbeats that the leader has received. leads is false if this node no longer
	// leads.
	MemberViews func(ctx context.Context) (views []leader.MemberView, leads bool)
	// State returns the replicated state.
	State func() State
	// Ready reports whether the state contains everything that earlier leaders have committed.
	Ready func() bool
	// Term is the term of this leadership. ProposeLevel appends an entry to the log and returns once
	// it is applied, or has failed.
	Term         uint64
	ProposeLevel func(entry []byte) error
	// Joins configures the approval of new servers. ProposeJoin appends an entry with changes of join requests to the log
	// like ProposeLevel, and NotifyJoin sends the state of its request to a node that waits. SnapshotIndex returns the
	// index of the newest snapshot of this node, zero without one.
	Joins         join.Options
	ProposeJoin   func(entry []byte) error
	NotifyJoin    func(ctx context.Context, node string, status JoinStatus)
	SnapshotIndex func() uint64
	// MaxVoters is the maximum number of voters. Server is the server ID of the leader.
	MaxVoters int
	Server    string
	// RemoveDeadAfter is how long a server must have sent no heartbeat before it is removed. Zero
	// disables removal.
	RemoveDeadAfter time.Duration
	// FinalizeAfter is how long all servers must have supported a format version before it is put into
	// force.
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
	Joins() join.Records
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
func NewReconciler(options ReconcilerOptions) *Reconciler {
	now := time.Now()
	return &Reconciler{
		options:   options,
		silentFor: map[string]time.Duration{}, promotionTimes: map[string]time.Time{}, identifyTimes: map[string]time.Time{},
		startedAt: now, lastCheck: now, lastChange: now, checkInterval: reconcileInterval,
		upgrade:          leader.NewFormatUpgrade(options.Term, options.FinalizeAfter),
		upgradeRequests:  make(chan chan<- error),
		approval:         join.NewApproval(options.Joins),
		joinDecisions:    make(chan joinDecision),
		loggedRejections: map[string]bool{},
	}
}

// Run makes changes until ctx ends, or until the leadership ends, which closes leadershipEnded.
func (r *Reconciler) Run(ctx context.Context, leadershipEnded <-chan struct{}) {
	ticker := r.options.Scheduler.NewTicker(reconcileInterval)
	defer ticker.Stop()
	for tick := 0; ; tick++ {
		select {
		case <-ctx.Done():
			return
		case <-leadershipEnded:
			return
		case <-ticker.C:
		case result := <-r.upgradeRequests:
			result <- r.raiseFormatVersion(ctx, true)
			continue
		case request := <-r.joinDecisions:
			request.result <- r.decideJoin(request.decision)
			continue
		}
		r.checkInterval = reconcileInterval
		if isIdle := time.Since(r.lastChange) > idleAfter; isIdle {
			r.checkInterval *= idleIntervals
		}
		isCheckDue := tick%int(r.checkInterval/reconcileInterval) == 0
		if isCheckDue && r.options.Ready() && r.options.State().Bootstrapped() {
			r.reconcile(ctx)
		}
	}
}

// reconcile makes all configuration changes that are possible now, one by one. Then it raises the
// format version in force, if possible.
func (r *Reconciler) reconcile(ctx context.Context) {
	views, leads := r.options.MemberViews(ctx)
	for leads && r.applyNextChange(ctx, views) {
		r.lastChange = time.Now()
		views, leads = r.options.MemberViews(ctx)
	}
	if leads {
		r.recordJoinStages(views)
		_ = r.raiseFormatVersionWith(ctx, views, false) // upgradeView contains the reason
	}
}

// applyNextChange makes the next change. It reports whether there may be another.
func (r *Reconciler) applyNextChange(ctx context.Context, views []leader.MemberView) (more bool) {
	view := View{Servers: ServersOf(r.options.Raft.Configuration()), MemberViews: views}
	r.updateSilence(view)
	change := r.nextChange(ctx, view)
	if change.apply == nil {
		return false
	}
	if err := change.apply(change.server); err != nil {
		r.options.Log.Warn().Err(err).Str("server", change.server).Str("change", change.name).Msg("configuration not changed")
		return false
	}
	r.recordChange(change)
	r.options.Log.Info().Str("server", change.server).Str("change", change.name).Msg("configuration changed")
	return true
}

// updateSilence updates silentFor from the heartbeats in view.
func (r *Reconciler) updateSilence(view View) {
	now := time.Now()
	elapsed := min(now.Sub(r.lastCheck), 2*r.checkInterval)
	r.lastCheck = now
	previous := r.silentFor
	r.silentFor = make(map[string]time.Duration, len(previous))
	for _, server := range view.All() {
		if !view.isConnected(server) {
			r.silentFor[server] = previous[server] + elapsed
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
func (r *Reconciler) nextChange(ctx context.Context, view View) configChange {
	if change := r.newServerChange(ctx, view); change.apply != nil {
		return change
	}
	if len(view.Voters) < r.options.MaxVoters || r.awaitsReplacement(view) {
		if server := r.promotableServer(view); server != "" {
			return configChange{"promote", server, r.options.Raft.Promote}
		}
	}
	if surplus := r.surplusVoter(view); surplus != "" {
		return configChange{"demote", surplus, r.options.Raft.Demote}
	}
	if server := r.replacedVoter(view); server != "" {
		return configChange{"remove", server, r.options.Raft.Remove}
	}
	return r.deadServerChange(view)
}

// newServerChange selects the change for a server that gossip shows and the configuration does not contain. If
// its node has a server with an old disk, that server is removed first: the log on the old disk is lost,
// so the old server must not vote again. The server with the new disk is then added as a non-voter. A server that
// needs an approval only gets a join request.
func (r *Reconciler) newServerChange(ctx context.Context, view View) configChange {
	servers := view.All()
	for _, member := range r.options.Gossip.Members() {
		server := consensus.ServerID(member.ID, member.Tags.Disk)
		if !r.canAdd(member) || slices.Contains(servers, server) {
			continue
		}
		oldServer := view.Of(member.ID)
		hasOldServer := oldServer != ""
		isAdmitted := r.mayAdd(server)
		if isAdmitted && hasOldServer && !view.canReplace(oldServer) {
			continue
		}
		process, isConfirmed := r.confirm(ctx, member)
		if !isConfirmed {
			continue
		}
		if !isAdmitted {
			r.requestJoin(ctx, server, process)
			continue
		}
		if hasOldServer {
			return configChange{"remove", oldServer, r.options.Raft.Remove}
		}
		return configChange{"add", server, r.options.Raft.AddNonvoter}
	}
	return configChange{}
}

// surplusVoter returns a voter beyond --max-voters, or "". Such a voter exists if a dead voter was
// replaced and then returned before its removal. All voters must be heard, so that no vote is
// needed in place of another. A voter whose zone has another voter is preferred. The leader and
// three voters always keep their votes.
func (r *Reconciler) surplusVoter(view View) string {
	if len(view.Voters) <= max(r.options.MaxVoters, minVoters) {
		return ""
	}
	surplus := ""
	for _, server := range slices.Backward(view.Voters) {
		if !view.hasWorkingLink(server) {
			return ""
		}
		if isLeader := server == r.options.Server; isLeader {
			continue
		}
		keepsMoreZones := surplus != "" && view.isOnlyInZone(surplus) && !view.isOnlyInZone(server)
		if surplus == "" || keepsMoreZones {
			surplus = server
		}
	}
	return surplus
}

// canAdd reports whether gossip shows a member as a node that this cluster may add.
func (r *Reconciler) canAdd(member gossip.Member) bool {
	isValidNode := member.Node && member.Err == nil && member.Tags.Disk != "" && disk.CheckNodeID(member.ID) == nil
	belongsElsewhere := member.Tags.Cluster != "" && member.Tags.Cluster != r.options.State().ClusterID()
	return isValidNode && member.Status == gossip.Alive && !belongsElsewhere
}

// confirm reports whether the node itself confirms the disk that gossip shows, and supports the format
// version in force.
func (r *Reconciler) confirm(ctx context.Context, member gossip.Member) (process Process, isConfirmed bool) {
	server := consensus.ServerID(member.ID, member.Tags.Disk)
	process, err := r.identify(ctx, server)
	if err != errIdentifiedRecently { //nolint:errorlint // never wrapped
		r.unconfirmedNodes.record(member.ID, err)
	}
	if err != nil || !r.admitsFormatVersion(server, process.Level) {
		return Process{}, false
	}
	delete(r.identifyTimes, server)
	return process, true
}

// errIdentifiedRecently reports that no request was sent, because the previous one is too recent.
var errIdentifiedRecently = errors.New("membership: the node was asked a moment ago")

// identify requests the identity of the process of a server, at most once per confirmInterval. It
// returns errIdentifiedRecently, or an error if the node does not respond or has another disk.
func (r *Reconciler) identify(ctx context.Context, server string) (Process, error) {
	if last, ok := r.identifyTimes[server]; ok && time.Since(last) < confirmInterval {
		return Process{}, errIdentifiedRecently
	}
	ctx, cancel := context.WithTimeout(ctx, confirmInterval)
	defer cancel()
	process, err := r.options.Identify(ctx, nodeOf(server))
	r.identifyTimes[server] = time.Now()
	if err == nil && consensus.ServerID(nodeOf(server), process.Disk) == server {
		return process, nil
	}
	r.options.Log.Debug().Err(err).Str("server", server).Str("disk", process.Disk).Msg("server not confirmed by node")
	if err == nil {
		err = fmt.Errorf("membership: the process there has disk %s", process.Disk)
	}
	return Process{}, err
}

// promotableServer returns a non-voter that may become a voter, or "". A lease needs echoes of a quorum
// of voters, so a server must have shown that the replies of the leader reach it; otherwise its
// vote would reduce availability. A server in a zone without a heard voter is preferred, so that
// the loss of a zone leaves a quorum. No voter loses its vote for this.
func (r *Reconciler) promotableServer(view View) string {
	first := ""
	for _, server := range view.NonVoters {
		if !view.hasWorkingLink(server) || !view.isCaughtUp(server, r.options.State().Committed().Epoch()) {
			continue
		}
		if view.isInUncoveredZone(server) {
			return server
		}
		first = cmp.Or(first, server)
	}
	return first
}

// deadServerChange selects the change for a server that has been dead for RemoveDeadAfter, if that
// is set. If possible, another server becomes a voter first, so that the number of voters does not
// drop. Otherwise the dead voter is removed if enough voters remain. A dead non-voter is removed
// unless gossip still shows its node, because it would be added again.
func (r *Reconciler) deadServerChange(view View) configChange {
	if r.options.RemoveDeadAfter <= 0 {
		return configChange{}
	}
	for _, server := range view.NonVoters {
		if r.isDead(server) && !isAlive(r.options.Gossip, nodeOf(server)) {
			return configChange{"remove", server, r.options.Raft.Remove}
		}
	}
	firstDead := slices.IndexFunc(view.Voters, r.isDead)
	if firstDead < 0 {
		return configChange{}
	}
	living, connected := 0, 0
	for _, server := range view.Voters {
		if !r.isDead(server) {
			living++
		}
		if view.isConnected(server) {
			connected++
		}
	}
	needsReplacement := living < min(r.options.MaxVoters, len(view.Voters))
	if candidate := r.promotableServer(view); candidate != "" && needsReplacement {
		return configChange{"promote", candidate, r.options.Raft.Promote}
	}
	hasQuorum := connected > len(view.Voters)/2
	if hasQuorum && len(view.Voters) > minVoters {
		return configChange{"remove", view.Voters[firstDead], r.options.Raft.Remove}
	}
	return configChange{}
}

// isDead reports whether a server has sent no heartbeat for longer than RemoveDeadAfter, which must be set.
func (r *Reconciler) isDead(server string) bool {
	return r.silentFor[server] > r.options.RemoveDeadAfter
}
