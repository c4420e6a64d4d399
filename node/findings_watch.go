package node

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/diagnosis"
	"shardway/node/control"
	"shardway/node/crashdetect"
	"shardway/node/eventlog"
	"shardway/proxy/appsilence"
	"shardway/shardmap"
)

const (
	// watchEvery is the interval at which the inputs of the findings are collected.
	watchEvery = 250 * time.Millisecond
	// stableAfter is the time without a change of the findings or the leader after which every second
	// run of diagnose is skipped.
	stableAfter = 10 * time.Second
	// leaderQueryEvery is the interval at which a follower queries the leader. It is doubled while the
	// findings are stable, and halved while a condition of a node is about to change.
	// leaderQueryPerNode is the shortest interval per node of the cluster, so the leader receives at
	// most ten queries per second. Each query may open a connection, and the system calls that open and
	// close it keep the monitor thread of the runtime awake for a millisecond each.
	leaderQueryEvery   = 2 * time.Second
	leaderQueryPerNode = 100 * time.Millisecond
	// probePause is the pause between two probes of a voter while there is no leader.
	probePause = time.Second
	// evenVotersAfter is the time after which an even number of voters becomes a finding. It is not
	// zero because voters are added one after the other.
	evenVotersAfter = 10 * time.Second
	// recentPeriod is how long a single event, such as a refused request, counts as recent.
	recentPeriod = 10 * time.Second
)

// watch collects the inputs of the findings at intervals, and logs and records each change of the
// findings. One goroutine calls run. Any goroutine may read result.
type watch struct {
	n      *Node
	result atomic.Pointer[watchResult]

	// The following fields are used only by the goroutine of run. They smooth the inputs, so that a
	// short change raises no finding.
	leaderless, unleased, unmapped       diagnosis.TrueFor
	alone, joins, orphaned, acquires     diagnosis.Debouncer
	unstarted, even, ownerless, noOwners diagnosis.Debouncer
	current                              diagnosis.Debouncer // the log of this node is not far behind
	refused                              diagnosis.RecentCount
	nodes                                map[string]*nodeSmoothers
	acquiringGeneration                  uint64 // generation of the routing table that acquiring was computed from
	acquiring                            []shardmap.Shard
	lastReport                           leaderReport
	leaderStream                         control.PersistentStream // open stream to the leader
	lastChange                           time.Time                // when findings or leader changed last
	peers                                peerCheck
	appSilence                           appsilence.Report
	appSilenceRead                       time.Time // when appSilence was read

	probing sync.WaitGroup
	probes  struct {
		sync.Mutex
		running map[string]bool // nodes with a probe in progress
		reached map[string]bool // results of the last probes
	}
}

// watchResult is the result of one run of diagnose. It is immutable.
type watchResult struct {
	// noOwners means that there is a leader, but no node that may own shards. Requests must not wait
	// then.
	noOwners bool
	inputs   diagnosis.Inputs
	findings []diagnosis.Finding
	public   []string // the texts without internal details, for unauthenticated readers
}

// first returns the index of the finding with the first of codes that is present, or -1.
func (f *watchResult) first(codes []diagnosis.Code) int {
	for _, c := range codes {
		if i := slices.IndexFunc(f.findings, func(f diagnosis.Finding) bool { return f.Code == c }); i >= 0 {
			return i
		}
	}
	return -1
}

// nodeSmoothers smooth the inputs about one node.
type nodeSmoothers struct{ present, gone, sick, lags diagnosis.Debouncer }

// newWatch returns the watch of n. The durations are the times for which a condition must last before it counts.
func newWatch(n *Node) *watch {
	w := &watch{
		n: n, nodes: map[string]*nodeSmoothers{},
		alone: diagnosis.Debouncer{On: 3 * time.Second}, joins: diagnosis.Debouncer{On: 3 * time.Second},
		orphaned: diagnosis.Debouncer{On: 1500 * time.Millisecond}, acquires: diagnosis.Debouncer{On: 2 * time.Second},
		current:   diagnosis.Debouncer{On: currentAfter},
		unstarted: diagnosis.Debouncer{On: 2 * time.Second}, even: diagnosis.Debouncer{On: evenVotersAfter}, ownerless: diagnosis.Debouncer{On: 2 * time.Second}, noOwners: diagnosis.Debouncer{On: 2 * time.Second},
		refused: diagnosis.RecentCount{Window: recentPeriod},
	}
	w.result.Store(&watchResult{})
	w.probes.running, w.probes.reached = map[string]bool{}, map[string]bool{}
	return w
}

// Findings returns the current findings of this node. The caller must not modify the slice.
func (n *Node) Findings() []diagnosis.Finding { return n.watch.result.Load().findings }

// run calls diagnose every watchEvery until ctx ends.
func (w *watch) run(ctx context.Context) {
	t := w.n.scheduler.NewTicker(watchEvery)
	defer t.Stop()
	defer w.probing.Wait()
	defer w.leaderStream.Close()
	for skippable := false; ; skippable = !skippable {
		if !skippable || !w.isStable() {
			w.diagnose(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// hasPendingChange reports whether a condition of a node has changed, but not for long enough to count.
func (w *watch) hasPendingChange() bool {
	for _, st := range w.nodes {
		if st.present.IsChanging() || st.sick.IsChanging() || st.lags.IsChanging() {
			return true
		}
	}
	return false
}

// isStable reports whether there is a leader, and findings and leader have not changed for stableAfter.
func (w *watch) isStable() bool {
	in := w.result.Load().inputs
	return in.Leader != "" && in.Leader == w.n.view.Leader() && time.Since(w.lastChange) > stableAfter
}

// diagnose collects the inputs, computes the findings, and logs and records the changes.
func (w *watch) diagnose(ctx context.Context) {
	now := time.Now()
	w.queryLeaderIfDue(ctx, now)
	in := w.inputs(now)
	w.peers.startIfDue(ctx, w, now, in.Bootstrap)
	if in.Leader == "" && in.NoLeaderFor > watchEvery {
		w.probeVoters(ctx, in)
	}
	// Without a leader, nodes that may own shards may exist, but no leader has received their
	// heartbeats yet.
	nobody := in.Leader != "" && !hasOwner(in.Nodes, in.Leader)
	next := &watchResult{noOwners: w.noOwners.Update(now, nobody) && nobody, inputs: in, findings: diagnosis.Of(in)}
	for _, f := range next.findings {
		next.public = append(next.public, f.Public())
	}
	before := w.result.Swap(next)
	added, removed := diagnosis.Changes(before.findings, next.findings)
	if len(added)+len(removed) > 0 || next.noOwners != before.noOwners || in.Leader != before.inputs.Leader {
		w.lastChange = now
	}
	for _, f := range removed {
		w.n.log.Info().Str("code", string(f.Code)).Str("text", f.Text).Msg("finding cleared")
		w.n.events.Add(eventlog.Finding(false, f))
	}
	for _, f := range added {
		w.n.log.WithLevel(logLevel(f.Severity)).Str("code", string(f.Code)).Str("text", f.Text).Str("remedy", f.Remedy).Msg("finding raised")
		w.n.events.Add(eventlog.Finding(true, f))
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
func (w *watch) queryLeaderIfDue(ctx context.Context, now time.Time) {
	n := w.n
	leader := n.view.Leader()
	if leader == "" || leader == string(n.self) {
		w.leaderStream.Close()
	}
	if leader == "" {
		w.lastReport = leaderReport{}
		return
	}
	if w.lastReport.isFresh(now, leader, leaderQueryPause(leader == string(n.self), len(w.nodes), w.hasPendingChange(), w.isStable())) {
		return
	}
	epoch := n.router.State().Committed().Epoch()
	t := n.queryLeader(ctx, leader)
	t.leader, t.at, t.viewsAt, t.epoch = leader, now, now, epoch
	w.lastReport = t.withFallback(w.lastReport)
}

// leaderQueryPause returns the time between two queries of the same leader.
func leaderQueryPause(self bool, nodes int, doubts, calm bool) time.Duration {
	each := time.Duration(nodes) * leaderQueryPerNode
	pause := max(leaderQueryEvery, each)
	switch {
	case self:
		return 0
	case doubts:
		return max(leaderQueryEvery/2, each)
	case calm:
		return 2 * pause
	}
	return pause
}

// probeVoters checks in the background which voters are reachable. It is for the time without a leader,
// because without the leader's report, only gossip shows failures, and gossip needs seconds to detect them.
func (w *watch) probeVoters(ctx context.Context, in diagnosis.Inputs) {
	w.probes.Lock()
	defer w.probes.Unlock()
	for _, x := range in.Nodes {
		if !x.Voter || x.ID == in.Self || w.probes.running[x.ID] {
			continue
		}
		w.probes.running[x.ID] = true
		w.probing.Go(func() {
			ok := crashdetect.IsReachable(ctx, w.n.port, x.ID)
			w.probes.Lock()
			w.probes.reached[x.ID] = ok
			w.probes.Unlock()
			select { // without this pause, each call would dial again
			case <-time.After(probePause):
			case <-ctx.Done():
			}
			w.probes.Lock()
			w.probes.running[x.ID] = false
			w.probes.Unlock()
		})
	}
}
