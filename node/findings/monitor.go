package findings

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/diagnosis"
	"shardway/event"
	"shardway/event/webhook"
	"shardway/internal/clock"
	"shardway/node/adminapi"
	"shardway/node/apphealth"
	"shardway/node/cluster"
	"shardway/node/control"
	"shardway/node/crashdetect"
	"shardway/node/disk"
	"shardway/node/eventlog"
	"shardway/node/gossip"
	"shardway/node/leaderloop"
	"shardway/node/membership"
	"shardway/node/router"
	"shardway/node/selfcheck"
	"shardway/peer"
	"shardway/proxy"
	"shardway/proxy/appsilence"
	"shardway/queue"
	"shardway/shardmap"
)

const (
	// runEvery is the interval at which the inputs of the findings are collected.
	runEvery = 250 * time.Millisecond
	// stableAfter is the time without a change of the findings or the leader after which every second
	// run of diagnose is skipped.
	stableAfter = 10 * time.Second
	// leaderQueryEvery is the interval at which a follower queries the leader. It is doubled while the findings are
	// stable, and halved while a condition of a node is about to change. leaderQueryPerNode is the minimum interval
	// per node of the cluster, so the leader receives at most ten queries per second. Each query may open a
	// connection, and the system calls that open and close it keep the monitor thread of the runtime awake for a
	// millisecond each.
	leaderQueryEvery   = 2 * time.Second
	leaderQueryPerNode = 100 * time.Millisecond
	// probePause is the pause between two probes of a voter while there is no leader.
	probePause = time.Second
	// evenVotersAfter is the time after which an even number of voters becomes a finding. It is not zero because
	// voters are added one by one.
	evenVotersAfter = 10 * time.Second
	// recentPeriod is how long a single event, such as a refused request, counts as recent.
	recentPeriod = 10 * time.Second
	// lostEventsPeriod is how long the loss of events of the webhook counts as recent.
	lostEventsPeriod = 10 * time.Minute
)

// Agent is this node's side of the lease protocol.
type Agent interface {
	// IsLeaving reports whether this node gives up all its shards.
	IsLeaving() bool
	// IsUpToDate reports whether this node has had the newest proposed map of the leader.
	IsUpToDate() bool
	// DuplicateAddr returns the address of another process with the same node ID. It returns "" if the
	// leader accepts the heartbeats of this node.
	DuplicateAddr() string
	// LastPause returns the length of the last pause of the process that was long enough to report, and the time
	// since its end. The length is zero if there was none.
	LastPause() (length, sinceEnd time.Duration)
	// HasHooks reports whether the app is informed of its shards.
	HasHooks() bool
	// AcquireFailures returns the list of the shards that the app has failed to acquire, and the error of
	// the first shard. Both are empty if there are none.
	AcquireFailures() (list, firstError string)
	// RecentlyUnreleased counts the shards that moved recently without a release, and returns the error of
	// the first of them.
	RecentlyUnreleased() (count int, firstError string)
	// KeptShards counts the shards that a safe drain keeps on this node because the app has not released
	// them, and returns the error of the first of them.
	KeptShards() (count int, firstError string)
	// LeaseGrantedUntil returns the latest end of a lease that the leader has granted to this node.
	LeaseGrantedUntil() time.Duration
}

// Options contains the parts of a node that the monitor reads.
type Options struct {
	Self            shardmap.NodeID
	Gateway         bool
	Shards          int
	BootstrapExpect int
	// RaftTimeout is the time without a leader after which a voter starts an election. Zero means 500 ms.
	RaftTimeout time.Duration
	// Joins is set if addresses of other nodes are configured.
	Joins bool
	// FailingProcesses counts the keys or shards whose app process fails repeatedly, and returns the error of the
	// process that has failed most often. It is nil if the node starts no processes.
	FailingProcesses func() (count int, worstError string)
	// Webhook returns the state of event delivery. It is nil if there is no webhook.
	Webhook func() webhook.Status
	// ServiceConflicts returns the services whose numbers of shards in the configuration differ from those in the cluster.
	ServiceConflicts func() []diagnosis.ServiceConflict
	// Exposed returns the ports that are accessible without protection, and the certificates in use. It is nil if
	// there are neither.
	Exposed func() ([]diagnosis.Exposure, []diagnosis.Certificate)

	Clock     clock.Clock
	Scheduler *clock.Scheduler
	Log       zerolog.Logger
	Events    *event.Ring

	View   *cluster.View
	Gossip *gossip.Gossip
	// State returns the newest state of the log, which may be newer than that of Router.
	State func() *ack.State
	// Servers returns the IDs of Raft's servers, see cluster.View.Servers.
	Servers func() (voters, nonvoters []string)
	// Statement returns the current statement of this node.
	Statement func() selfcheck.Statement
	Router    *router.Router
	Proxy     *proxy.Server
	Queue     *queue.Queue
	Stores    *disk.Stores
	// Health checks the app; nil for a gateway and for an app without a health check.
	Health *apphealth.Group
	Agent  Agent
	API    *adminapi.API

	Port   *peer.Port
	Client *control.Client
	Leader *leaderloop.Client
	Poison *crashdetect.PoisonDetector

	// Bootstrapper returns the bootstrapper. It is called only by Run.
	Bootstrapper func() *membership.Bootstrapper
	// OwnJoin is the state of the join request of this node.
	OwnJoin *membership.OwnJoin
	// AddressChanges returns the claims of new addresses that this node has not accepted.
	AddressChanges func() []diagnosis.AddressChange
	// RequestIdentity returns an error if the peer port of a node is unreachable.
	RequestIdentity func(ctx context.Context, node string) error
	// IsStopping reports whether the node has handed over its shards, or has failed.
	IsStopping func() bool
	// IsDiskStalled reports whether a write to the disk has stalled.
	IsDiskStalled func() bool
}

// Monitor collects the inputs of the findings at intervals, and logs and records each change of the
// findings. One goroutine calls Run.
type Monitor struct {
	options Options
	result  atomic.Pointer[Result]

	// The following fields are used only by the goroutine of Run. They smooth the inputs, so that a short
	// change raises no finding.
	noLeader, noLease, noMap    diagnosis.ConditionTimer
	joinFailing, missingInMap   diagnosis.Debouncer
	orphaned, acquiring         diagnosis.Debouncer
	unstarted                   diagnosis.Debouncer
	notBootstrapped, evenVoters diagnosis.Debouncer
	onlyGateways, noOwners      diagnosis.Debouncer
	upToDate                    diagnosis.Debouncer  // the log of this node is not far behind
	joinsSeen                   map[uint64]time.Time // time at which this node first saw each open join request, by ticket
	refusedRequests             diagnosis.BurstCounter
	lostEvents                  diagnosis.BurstCounter
	hasOperated                 bool // see diagnosis.Inputs
	nodes                       map[string]*nodeDebouncers
	acquiringGeneration         uint64 // generation of the routing table that acquiringShards was computed from
	acquiringShards             []shardmap.Shard
	lastReport                  LeaderReport
	leaderStream                control.PersistentStream // open stream to the leader
	lastChange                  time.Time                // when findings or leader changed last
	peerPort                    peerPortCheck
	selfCheck                   selfCheck
	appSilence                  appsilence.Report
	appSilenceRead              time.Time // when appSilence was read

	background sync.WaitGroup // probes of voters and checks of the peer port
	probes     struct {
		sync.Mutex
		running map[string]bool // nodes with a probe in progress
		reached map[string]bool // results of the last probes
	}
}

// Result is the result of one run of the diagnosis. It is immutable.
type Result struct {
	// NoOwners is set if there is a leader, but no node that may own shards. Requests must not wait then.
	NoOwners bool
	Inputs   diagnosis.Inputs
	Findings []diagnosis.Finding
	// ClusterState is the state of the cluster; zero before the first run.
	ClusterState diagnosis.ClusterState
	public       []string // the texts without internal details, for unauthenticated readers
}

// indexOfFirst returns the index of the finding with the first of codes that is present, or -1.
func (r *Result) indexOfFirst(codes []diagnosis.Code) int {
	for _, c := range codes {
		if i := slices.IndexFunc(r.Findings, func(f diagnosis.Finding) bool { return f.Code == c }); i >= 0 {
			return i
		}
	}
	return -1
}

// nodeDebouncers smooth the inputs about one node.
type nodeDebouncers struct {
	present, lost, unhealthy, lagging diagnosis.Debouncer
	instances                         map[int]*diagnosis.Debouncer // by the number of the app instance
}

// New returns a monitor with an empty result. The durations are the times for which a condition must last
// before it counts.
func New(options Options) *Monitor {
	after := func(d time.Duration) diagnosis.Debouncer { return diagnosis.Debouncer{OnDelay: d} }
	m := &Monitor{
		options: options, nodes: map[string]*nodeDebouncers{},
		joinFailing: after(3 * time.Second), missingInMap: after(3 * time.Second),
		orphaned: after(1500 * time.Millisecond), unstarted: after(1500 * time.Millisecond), acquiring: after(2 * time.Second),
		upToDate:        after(upToDateAfter),
		notBootstrapped: after(2 * time.Second), evenVoters: after(evenVotersAfter), onlyGateways: after(2 * time.Second), noOwners: after(2 * time.Second),
		refusedRequests: diagnosis.BurstCounter{Window: recentPeriod},
		lostEvents:      diagnosis.BurstCounter{Window: lostEventsPeriod},
	}
	m.result.Store(&Result{})
	m.probes.running, m.probes.reached = map[string]bool{}, map[string]bool{}
	return m
}

// Result returns the result of the last run of the diagnosis.
func (m *Monitor) Result() *Result { return m.result.Load() }

// Run calls diagnose every runEvery until ctx ends.
func (m *Monitor) Run(ctx context.Context) {
	ticker := m.options.Scheduler.NewTicker(runEvery)
	defer ticker.Stop()
	defer m.background.Wait()
	defer m.leaderStream.Close()
	for maySkip := false; ; maySkip = !maySkip { // every second run, see stableAfter
		if !maySkip || !m.isStable() {
			m.diagnose(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// hasPendingChange reports whether a condition of a node has changed, but not for long enough to count.
func (m *Monitor) hasPendingChange() bool {
	for _, d := range m.nodes {
		if d.present.IsChanging() || d.unhealthy.IsChanging() || d.lagging.IsChanging() {
			return true
		}
	}
	return false
}

// isStable reports whether there is a leader, and findings and leader have not changed for stableAfter.
func (m *Monitor) isStable() bool {
	lastLeader := m.result.Load().Inputs.Leader
	hasSameLeader := lastLeader != "" && lastLeader == m.options.View.Leader()
	return hasSameLeader && time.Since(m.lastChange) > stableAfter
}

// diagnose collects the inputs, computes the findings, and logs and records the changes.
func (m *Monitor) diagnose(ctx context.Context) {
	now := time.Now()
	m.queryLeaderIfDue(ctx, now)
	in := m.inputs(ctx, now)
	m.peerPort.startIfDue(ctx, m, now, in.Bootstrap)
	if in.Leader == "" && in.NoLeaderFor > runEvery {
		m.probeVoters(ctx, in)
	}
	// Without a leader, nodes that may own shards may exist, but no leader has received their
	// heartbeats yet.
	isOwnerMissing := in.Leader != "" && !hasOwner(in.Nodes, in.Leader)
	current := &Result{NoOwners: m.noOwners.Update(now, isOwnerMissing) && isOwnerMissing, Inputs: in, Findings: diagnosis.Findings(in)}
	var reason string
	current.ClusterState, reason = in.ClusterState()
	for _, f := range current.Findings {
		current.public = append(current.public, f.Public())
	}
	previous := m.result.Swap(current)
	raised, cleared := diagnosis.Changes(previous.Findings, current.Findings)
	if len(raised)+len(cleared) > 0 || current.NoOwners != previous.NoOwners || in.Leader != previous.Inputs.Leader {
		m.lastChange = now
	}
	if current.ClusterState != previous.ClusterState {
		m.options.Events.Add(eventlog.ClusterState(current.ClusterState, reason))
	}
	m.recordChanges(raised, cleared)
}

// recordChanges logs the findings that were raised and cleared, and records events for them.
func (m *Monitor) recordChanges(raised, cleared []diagnosis.Finding) {
	for _, f := range cleared {
		m.options.Log.Info().Str("code", string(f.Code)).Str("text", f.Text).Msg("finding cleared")
		m.options.Events.Add(eventlog.Finding(false, f))
	}
	for _, f := range raised {
		m.options.Log.WithLevel(logLevel(f.Severity)).Str("code", string(f.Code)).Str("text", f.Text).Str("remedy", f.Remedy).Msg("finding raised")
		m.options.Events.Add(eventlog.Finding(true, f))
	}
}

// logLevel returns the log level of a finding.
func logLevel(s diagnosis.Severity) zerolog.Level {
	switch s {
	case diagnosis.Outage:
		return zerolog.ErrorLevel
	case diagnosis.Warning:
		return zerolog.WarnLevel
	case diagnosis.Info:
	}
	return zerolog.InfoLevel
}

// queryLeaderIfDue queries the leader if the last report is older than leaderQueryPause. A leader
// queries itself on every call.
func (m *Monitor) queryLeaderIfDue(ctx context.Context, now time.Time) {
	leader := m.options.View.Leader()
	if leader == "" || leader == string(m.options.Self) {
		m.leaderStream.Close()
	}
	if leader == "" {
		m.lastReport = LeaderReport{}
		return
	}
	pause := leaderQueryPause(leader == string(m.options.Self), len(m.nodes), m.hasPendingChange(), m.isStable())
	if m.lastReport.isFresh(now, leader, pause) {
		return
	}
	epoch := m.options.Router.State().Committed().Epoch()
	report := m.QueryLeader(ctx, leader)
	report.leader, report.at, report.viewsAt, report.epoch = leader, now, now, epoch
	m.lastReport = report.withFallback(m.lastReport)
}

// leaderQueryPause returns the time between two queries of the same leader. isSelf is set if this node is the
// leader. nodes is the number of nodes of the cluster. hasPendingChange is set if a condition of a node is about to
// change, and isStable if the findings have not changed for stableAfter.
func leaderQueryPause(isSelf bool, nodes int, hasPendingChange, isStable bool) time.Duration {
	minPause := time.Duration(nodes) * leaderQueryPerNode
	pause := max(leaderQueryEvery, minPause)
	switch {
	case isSelf:
		return 0
	case hasPendingChange:
		return max(leaderQueryEvery/2, minPause)
	case isStable:
		return 2 * pause
	}
	return pause
}

// probeVoters checks in the background which voters are reachable. It is used while there is no leader: without the
// leader's report, only gossip shows failures, and gossip needs seconds to detect them.
func (m *Monitor) probeVoters(ctx context.Context, in diagnosis.Inputs) {
	m.probes.Lock()
	defer m.probes.Unlock()
	for _, node := range in.Nodes {
		if !node.Voter || node.ID == in.Self || m.probes.running[node.ID] {
			continue
		}
		m.probes.running[node.ID] = true
		m.background.Go(func() {
			reached := crashdetect.CheckReach(ctx, m.options.Port, node.ID) == crashdetect.Reached
			m.probes.Lock()
			m.probes.reached[node.ID] = reached
			m.probes.Unlock()
			select { // without this pause, each call would dial again
			case <-time.After(probePause):
			case <-ctx.Done():
			}
			m.probes.Lock()
			m.probes.running[node.ID] = false
			m.probes.Unlock()
		})
	}
}
