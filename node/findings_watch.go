package node

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"shardway/proxy"
	"shardway/shardmap"
	"shardway/verdict"
)

const (
	// watchEvery is how often the inputs of the verdict are collected.
	watchEvery = 250 * time.Millisecond
	// calmAfter is how long nothing has to have changed, and the same node to have led, for every
	// other look to be left out.
	stableAfter = 10 * time.Second
	// askEvery is how often who does not lead asks who does what only that one knows, half as
	// often while all is calm and twice as often while what it said of a node is in doubt, and
	// askEach by how much less often for each node: so the leader is asked ten times a second
	// at most. Each time is a connection, and the calls that make and
	// end it keep the runtime's monitor thread awake for a millisecond each.
	leaderQueryEvery   = 2 * time.Second
	leaderQueryPerNode = 100 * time.Millisecond
	// probePause is between two attempts to reach a voter while nobody leads.
	probePause = time.Second
	// pairPatience is how long an even number of nodes votes before that is told: voters
	// are added one after the other.
	evenVotersAfter = 10 * time.Second
	// lately is for how long what happens now and then counts.
	recentPeriod = 10 * time.Second
)

// watch looks at what can be the matter, and says so when that changes. One goroutine
// runs it; what it found, any may read.
type watch struct {
	n      *Node
	result atomic.Pointer[watchResult]

	// What keeps the inputs steady; run's.
	leaderless, unleased, unmapped       verdict.For
	alone, joins, orphaned, acquires     verdict.Steady
	unstarted, even, ownerless, noOwners verdict.Steady
	current                              verdict.Steady // this node's log is not far behind
	refused                              verdict.Moments
	nodes                                map[string]*nodeSmoothers
	acquiringGeneration                  uint64 // the generation of the table of which acquiring is
	acquiring                            []shardmap.Shard
	leader                               leaderReport
	leaderLine                           line      // to who leads
	lastChange                           time.Time // when it last found something else than before
	peers                                peerCheck
	appSilence                           proxy.AppSilence
	appSilenceRead                       time.Time // when silence was read

	probing sync.WaitGroup
	probes  struct {
		sync.Mutex
		running map[string]bool // a probe is under way
		reached map[string]bool // what the last one came to
	}
}

// found is what one look came to. It never changes.
type watchResult struct {
	// vain says that somebody leads, and nobody who may own shards is there: requests would
	// wait for nothing.
	noOwners bool
	inputs   verdict.Inputs
	findings []verdict.Finding
	public   []string // of all, for everybody
}

// first returns the index of the finding whose code comes first, or -1.
func (f *watchResult) first(codes []verdict.Code) int {
	for _, c := range codes {
		if i := slices.IndexFunc(f.findings, func(f verdict.Finding) bool { return f.Code == c }); i >= 0 {
			return i
		}
	}
	return -1
}

// steadyNode keeps what is said of one node steady.
type nodeSmoothers struct{ present, gone, sick, lags verdict.Steady }

func newWatch(n *Node) *watch {
	w := &watch{
		n: n, nodes: map[string]*nodeSmoothers{},
		alone: verdict.Steady{On: 3 * time.Second}, joins: verdict.Steady{On: 3 * time.Second},
		orphaned: verdict.Steady{On: 1500 * time.Millisecond}, acquires: verdict.Steady{On: 2 * time.Second},
		current:   verdict.Steady{On: currentAfter},
		unstarted: verdict.Steady{On: 2 * time.Second}, even: verdict.Steady{On: evenVotersAfter}, ownerless: verdict.Steady{On: 2 * time.Second}, noOwners: verdict.Steady{On: 2 * time.Second},
		refused: verdict.Moments{Lately: recentPeriod},
	}
	w.result.Store(&watchResult{})
	w.probes.running, w.probes.reached = map[string]bool{}, map[string]bool{}
	return w
}

// Findings returns what is the matter as far as this node knows. The slice is nobody's to
// change.
func (n *Node) Findings() []verdict.Finding { return n.watch.result.Load().findings }

// finding returns the first finding of a code.
func (n *Node) finding(codes ...verdict.Code) (verdict.Finding, bool) {
	now := n.watch.result.Load()
	if i := now.first(codes); i >= 0 {
		return now.findings[i], true
	}
	return verdict.Finding{}, false
}

// run looks until ctx ends.
func (w *watch) run(ctx context.Context) {
	t := w.n.pulse.Every(watchEvery)
	defer t.Stop()
	defer w.probing.Wait()
	defer w.leaderLine.close()
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

// doubts reports whether something was seen of a node that does not count yet.
func (w *watch) hasPendingChange() bool {
	for _, st := range w.nodes {
		if st.present.Turns() || st.sick.Turns() || st.lags.Turns() {
			return true
		}
	}
	return false
}

// calm reports whether what was found has stayed the same for a while, as has who leads.
func (w *watch) isStable() bool {
	in := w.result.Load().inputs
	return in.Leader != "" && in.Leader == w.n.leader() && time.Since(w.lastChange) > stableAfter
}

// look judges anew, and tells what has changed.
func (w *watch) diagnose(ctx context.Context) {
	now := time.Now()
	w.queryLeaderIfDue(ctx, now)
	in := w.inputs(now)
	w.peers.look(ctx, w, now, in.Unborn)
	if in.Leader == "" && in.NoLeader > watchEvery {
		w.probeVoters(ctx, in)
	}
	// For as long as somebody has led who would have heard of them: until then they may be on
	// their way.
	nobody := in.Leader != "" && !hasOwner(in.Nodes, in.Leader)
	next := &watchResult{noOwners: w.noOwners.Look(now, nobody) && nobody, inputs: in, findings: verdict.Of(in)}
	for _, f := range next.findings {
		next.public = append(next.public, f.Public())
	}
	before := w.result.Swap(next)
	came, went := verdict.Changes(before.findings, next.findings)
	if len(came)+len(went) > 0 || next.noOwners != before.noOwners || in.Leader != before.inputs.Leader {
		w.lastChange = now
	}
	for _, f := range went {
		w.n.log.Info().Str("code", string(f.Code)).Str("text", f.Text).Msg("finding cleared")
		w.n.recordFinding(false, f)
	}
	for _, f := range came {
		w.n.log.WithLevel(logLevel(f.Severity)).Str("code", string(f.Code)).Str("text", f.Text).Str("remedy", f.Remedy).Msg("finding raised")
		w.n.recordFinding(true, f)
	}
}

// levelOf is the level of a finding in the log.
func logLevel(s verdict.Severity) zerolog.Level {
	switch s {
	case verdict.Outage:
		return zerolog.ErrorLevel
	case verdict.Warning:
		return zerolog.WarnLevel
	case verdict.Info:
	}
	return zerolog.InfoLevel
}

// ask asks the leader now and then what only it knows; a leader asks itself every time.
func (w *watch) queryLeaderIfDue(ctx context.Context, now time.Time) {
	n := w.n
	leader := n.leader()
	if leader == "" || leader == string(n.self) {
		w.leaderLine.close()
	}
	if leader == "" {
		w.leader = leaderReport{}
		return
	}
	if w.leader.isFresh(now, leader, leaderQueryPause(leader == string(n.self), len(w.nodes), w.hasPendingChange(), w.isStable())) {
		return
	}
	epoch := n.router.state.Load().Committed().Epoch()
	t := n.queryLeader(ctx, leader)
	t.leader, t.at, t.viewsAt, t.epoch = leader, now, now, epoch
	w.leader = t.withFallback(w.leader)
}

// askPause is how long after an answer the same leader is asked again.
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

// probe finds out which voters' processes answer, while nobody leads: gossip takes
// seconds to find that a node is gone.
func (w *watch) probeVoters(ctx context.Context, in verdict.Inputs) {
	w.probes.Lock()
	defer w.probes.Unlock()
	for _, x := range in.Nodes {
		if !x.Voter || x.ID == in.Self || w.probes.running[x.ID] {
			continue
		}
		w.probes.running[x.ID] = true
		w.probing.Go(func() {
			ok := w.n.isReachable(ctx, x.ID)
			w.probes.Lock()
			w.probes.reached[x.ID] = ok
			w.probes.Unlock()
			select { // a pause, or each look would dial again
			case <-time.After(probePause):
			case <-ctx.Done():
			}
			w.probes.Lock()
			w.probes.running[x.ID] = false
			w.probes.Unlock()
		})
	}
}
