package ack_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"shardway/ack"
	"shardway/shardmap"
)

// coverage counts what occurred in schedules. A full run must have met all of it, otherwise it
// proves less than it seems.
type coverage struct {
	instanceCoverage
	serviceCoverage
	schedules                                          int
	steps, faults                                      spreadOf
	lost, repeated, delayed, stalled                   int
	elections, openElections, openLeads                int
	crashes, wipes, pauses, pausedWrites               int
	partitions, oneWays, bridges, noLogs               int
	oldStarts, installs, openRestores                  int
	snapshots, reconfigured                            int
	commits, voids, voidCommits, lateSubmits           int
	failedSubmits, leases, requests                    int
	lateBarriers, failedBarriers                       int
	cuts, cutDrains, damped                            int
	refusedBoots, refusedDuplicates                    int
	retimed, tooSoon, rekeyed                          int
	forged, forgedTakeovers, removed                   int
	excusedAdmits, excusedForged                       int
	excusedStops, extremeClocks                        int
	rivals, undecided, secondVotes                     int
	blackouts, torn, waited, cutOffs                   int
	slowWrites, hungWrites, failedWrites               int
	inherited, inheritedConfs                          int
	lostEntries, lostConfs                             int
	trails, skips, lateLeaders                         int
	demoted, expelled, leftLeaders, removedDead        int
	bootstraps, lateBootstraps, failedBootstraps       int
	retimedElections, retimedHalves                    int
	amends, amended, pausesOver                        int
	quarantined, quarantinesOver                       int
	emptied, gradualDrainsOver, idles, wentIdle        int
	staged, deferred, stagedIdle, freed                int
	pausedCluster                                      int
	twins                                              [2]int
	rollbacks, excusedCopies, forgedNames              int
	stuck                                              [8]int
	cutCalls, refusedCalls, hungCalls                  int
	keptSafe, relocated, unrelocated, reported, unable int
	foundOpen                                          int
	staleCalls, absentShards, appRestarts, asked       int
	restarts, restartEntries, movedBeside, without     int
	exact, passedOn, givenBack, undelivered            int
	kept, keptNothing, exactInPlace                    int
	flaps, panics                                      int
	spokes, majorities, unreached, reached             int
	laterReturns                                       int
	marked, unmarked, markedRestarts                   int
	roleMoves, roleMissing, substitutes                int
	roleSubstitutes                                    int
	suspicions, suspicionCampaigns, hangs, splits      int
	rounds, drops, takeovers, stepDowns, calls         map[string]int
	returnsCoverage
}

func newCoverage() *coverage {
	return &coverage{rounds: map[string]int{}, drops: map[string]int{}, takeovers: map[string]int{}, stepDowns: map[string]int{}, calls: map[string]int{}}
}

// The minimum coverage of every ordinary mix.
const (
	leastSteps  = 300
	leastFaults = 3
)

// figure is one line of the coverage. Rare ones may be missing in a short run.
type figure struct {
	name string
	n    int
	rare bool
}

// counter is where a figure is counted.
type counter struct {
	name string
	n    *int
	rare bool
}

// spreadOf counts a property of each schedule.
type spreadOf []int

func (s spreadOf) sum() int {
	n := 0
	for _, k := range s {
		n += k
	}
	return n
}

func (s spreadOf) String() string {
	if len(s) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(s))
	return fmt.Sprintf("%d (in a schedule at least %d, median %d, at most %d)", s.sum(), sorted[0], sorted[len(s)/2], sorted[len(s)-1])
}

// played counts a successful schedule.
func (c *coverage) played(w *world) {
	c.schedules++
	c.steps = append(c.steps, w.steps)
	c.faults = append(c.faults, w.faulted)
	slow, fast := fastClock, slowClock
	for _, h := range w.hosts {
		slow, fast = min(slow, int(h.rate)), max(fast, int(h.rate))
	}
	if slow == slowClock && fast == fastClock {
		c.extremeClocks++
	}
}

// counters returns all counters except those in maps.
func (c *coverage) counters() []counter {
	return []counter{
		{"schedules", &c.schedules, false},
		{"schedules with the largest difference of clock rates", &c.extremeClocks, false},
		{"messages lost", &c.lost, false},
		{"messages repeated", &c.repeated, false},
		{"messages much delayed", &c.delayed, false},
		{"messages stalled", &c.stalled, false},
		{"elections", &c.elections, false},
		{"leader changes with an open proposal", &c.openElections, false},
		{"leaderships begun with an open proposal", &c.openLeads, false},
		{"kills", &c.crashes, false},
		{"wiped disks", &c.wipes, false},
		{"pauses", &c.pauses, false},
		{"pauses before a write", &c.pausedWrites, false},
		{"partitions", &c.partitions, false},
		{"one-way partitions", &c.oneWays, false},
		{"bridges", &c.bridges, false},
		{"nodes without Raft messages for a while", &c.noLogs, false},
		{"restarts with an old log", &c.oldStarts, false},
		{"snapshots written", &c.snapshots, false},
		{"snapshots sent", &c.installs, false},
		{"restores with an open proposal", &c.openRestores, true},
		{"configuration changes", &c.reconfigured, false},
		{"maps committed", &c.commits, false},
		{"void entries", &c.voids, false},
		{"void commits", &c.voidCommits, true},
		{"entries submitted late", &c.lateSubmits, false},
		{"entries not submitted", &c.failedSubmits, false},
		{"barriers submitted late", &c.lateBarriers, false},
		{"barriers not submitted", &c.failedBarriers, false},
		{"leases granted", &c.leases, false},
		{"requests admitted", &c.requests, false},
		{"requests cut", &c.cuts, false},
		{"drains cut", &c.cutDrains, false},
		{"damped drops", &c.damped, true},
		{"boots refused", &c.refusedBoots, false},
		{"duplicates refused", &c.refusedDuplicates, false},
		{"timings changed", &c.retimed, false},
		{"keys changed", &c.rekeyed, false},
		{"changes of the timing refused as too soon", &c.tooSoon, false},
		{"timings changed during elections", &c.retimedElections, false},
		{"timings changed on both sides of a partition", &c.retimedHalves, true},
		{"changes of the policy queued", &c.amends, false},
		{"changes of the policy", &c.amended, false},
		{"restarts in place", &c.restarts, false},
		{"restarts in place that the log contains", &c.restartEntries, false},
		{"shards that moved during a restart of another node", &c.movedBeside, false},
		{"commits without the acknowledgement of a restarting node", &c.without, false},
		{"pauses that ended", &c.pausesOver, false},
		{"keys put in quarantine", &c.quarantined, false},
		{"quarantines that ended automatically", &c.quarantinesOver, false},
		{"gradual drains", &c.emptied, false},
		{"reports of idle shards", &c.idles, false},
		{"idle shards that moved", &c.wentIdle, false},
		{"gradual drains that ended automatically", &c.gradualDrainsOver, false},
		{"maps that defer moves", &c.staged, false},
		{"answers about busy shards of an open round", &c.freed, false},
		{"shards that a map defers", &c.deferred, false},
		{"idle shards of staged owners that move", &c.stagedIdle, false},
		{"refusals forged", &c.forged, false},
		{"takeovers after a forged refusal", &c.forgedTakeovers, true},
		{"removals", &c.removed, false},
		{"admissions with rebalance mode stop-the-world", &c.pausedCluster, false},
		{"excused: admitted by both, refusal forged", &c.excusedAdmits, true},
		{"excused: ran beside, refusal forged", &c.excusedForged, true},
		{"excused: ran beside, process stopped", &c.excusedStops, true},
		{"elections with rivals in one term", &c.rivals, false},
		{"elections without a winner", &c.undecided, false},
		{"voters that received two vote requests in one term", &c.secondVotes, false},
		{"power failures", &c.blackouts, false},
		{"slow writes", &c.slowWrites, false},
		{"hung writes", &c.hungWrites, false},
		{"failed writes", &c.failedWrites, false},
		{"processes that ended during a write", &c.torn, false},
		{"messages that waited for a write", &c.waited, false},
		{"leaders cut off for a hung disk", &c.cutOffs, true},
		{"entries committed by a later leader", &c.inherited, false},
		{"entries lost with their leader", &c.lostEntries, false},
		{"configurations committed by a later leader", &c.inheritedConfs, false},
		{"configurations lost with their leader", &c.lostConfs, true},
		{"snapshots with a log that trails", &c.trails, false},
		{"snapshots sent that skip entries", &c.skips, false},
		{"leaders elected far behind the committed entries", &c.lateLeaders, false},
		{"voters demoted", &c.demoted, false},
		{"running servers removed", &c.expelled, false},
		{"servers removed that left or were dead for a long time", &c.removedDead, false},
		{"bootstraps", &c.bootstraps, false},
		{"bootstrap entries submitted late", &c.lateBootstraps, false},
		{"bootstraps that failed", &c.failedBootstraps, false},
		{"second processes with a disk of their own", &c.twins[0], false},
		{"second processes with a copy of the disk", &c.twins[1], false},
		{"excused: admitted or ran beside a copy", &c.excusedCopies, true},
		{"names given by a forged refusal", &c.forgedNames, true},
		{"processes refused permanently", &c.rollbacks, true},
		{"leaders that lost their vote", &c.leftLeaders, false},
		{"hook calls cancelled", &c.cutCalls, false},
		{"hook calls without a response", &c.refusedCalls, false},
		{"hook calls that hung", &c.hungCalls, false},
		{"hook calls that arrived after later ones", &c.staleCalls, true},
		{"proposals of a leader that replace one of an earlier leader", &c.foundOpen, false},
		{"releases that failed under a safe drain", &c.keptSafe, true},
		{"proposals that move a shard because an app does not acquire it", &c.relocated, true},
		{"proposals that leave a shard that no app acquires", &c.unrelocated, true},
		{"heartbeats that report shards as not acquired", &c.reported, true},
		{"heartbeats of nodes whose app acquires nothing", &c.unable, true},
		{"releases of shards that the app does not hold", &c.absentShards, true},
		{"apps restarted", &c.appRestarts, false},
		{"requests for shards that the app had not acquired", &c.asked, false},
		{"shards passed on as released", &c.passedOn, false},
		{"shards acquired as released", &c.exact, false},
		{"shards passed back as released", &c.givenBack, false},
		{"shards kept as released by restarts in place", &c.kept, false},
		{"shards acquired as released in place", &c.exactInPlace, false},
		{"restarts in place without notes", &c.keptNothing, true},
		{"releases that did not reach the leader", &c.undelivered, false},
		{"apps that flapped", &c.flaps, false},
		{"maps proposed while most apps were unhealthy", &c.panics, false},
		{"nodes that only some nodes reach", &c.spokes, false},
		{"nodes that most members report", &c.majorities, false},
		{"nodes excluded because of reports", &c.unreached, false},
		{"nodes that returned after the reports", &c.reached, false},
		{"nodes that returned later after a repetition", &c.laterReturns, true},
		{"nodes marked as failed", &c.marked, false},
		{"marks that an operator ended", &c.unmarked, false},
		{"restarts in place that a mark ended", &c.markedRestarts, true},
		{"shards that move under a restriction to a role", &c.roleMoves, false},
		{"maps proposed while no node with the role can get shards", &c.roleMissing, false},
		{"shards at nodes without the role because no app with it acquires them", &c.substitutes, true},
		{"shards that move to nodes without the role because others may have an old copy", &c.roleSubstitutes, true},
		{"shards that left an app which caches", &c.departures, false},
		{"shards that returned to such an app because no other node could own them", &c.staleReturns, false},
		{"excused: cached by an app process that no check met", &c.excusedReturns, true},
		{"reports of apps in the log", &c.appReports, false},
		{"apps that cache restarted", &c.cacheRestarts, false},
		{"apps that cache closed their ports", &c.closedPorts, false},
		{"app instances that ended", &c.instanceEnds, false},
		{"app instances that hung", &c.instanceHangs, false},
		{"shards moved between instances of a node", &c.instanceMoves, false},
		{"requests that ran at a hung instance", &c.hungRequests, false},
		{"app instances removed from the list of a node", &c.instanceRemovals, true},
		{"requests to drain an instance, or to end its drain", &c.instanceDrains, true},
		{"services added", &c.servicesAdded, false},
		{"services added because all nodes had loaded them", &c.servicesLoaded, true},
		{"services removed", &c.servicesRemoved, true},
		{"nodes started with other services", &c.serviceLists, false},
		{"shards of further services moved", &c.serviceMoves, false},
		{"shards of services without a node", &c.serviceOrphans, true},
		{split, &c.splits, true},
		{"voters asked whether they miss their leader", &c.suspicions, false},
		{"candidates that miss their leader", &c.suspicionCampaigns, false},
		{"leaders that hung in a healthy cluster", &c.hangs, false},
	}
}

func (c *coverage) figures() []figure {
	var f []figure
	for _, k := range c.counters() {
		f = append(f, figure{k.name, *k.n, k.rare})
	}
	for i, what := range []string{"held", "deaf", "mute", "stopped", "down", "cut off", "unheard", "unreachable"} {
		f = append(f, figure{"permanently: " + what, c.stuck[i], true})
	}
	f = append(f, namedFigures("taken by ", c.takeovers, "acknowledged", "silence", "evidence", "refusal", "goodbye", "new-boot", "removed")...)
	f = append(f, namedFigures("dropped: ", c.drops, "silent", "crashed", "missed-ack", "behind", "removed", "marked-failed")...)
	f = append(f, namedFigures("round: ", c.rounds, "new leader", "join", "leave", "silent", "crashed", "missed-ack", "marked-failed", "app-unhealthy", "weight", "drain", "policy")...)
	f = append(f, namedFigures("app told: ", c.calls, "release", "acquire", "lost")...)
	f = append(f, namedFigures("step down: ", c.stepDowns, "barrier not applied within dead-after", "no member acknowledged")...)
	return f
}

// namedFigures lists the counts of a map: the required ones, then all others.
func namedFigures(prefix string, m map[string]int, must ...string) []figure {
	var f []figure
	for _, k := range must {
		f = append(f, figure{prefix + k, m[k], true})
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(must, k) {
			f = append(f, figure{prefix + k, m[k], true})
		}
	}
	return f
}

func (c *coverage) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "steps: %v\nfaults: %v\n", c.steps, c.faults)
	for _, f := range c.figures() {
		fmt.Fprintf(&b, "%12d  %s\n", f.n, f.name)
	}
	return b.String()
}

const (
	// split is the figure of an excuse: it is bounded (see TestSimulation), and may be zero.
	split = "excused: no leader elected in time, two candidates"
)

// missing returns what never occurred, rare figures only if all is set.
func (c *coverage) missing(all bool) []string {
	var out []string
	for _, f := range c.figures() {
		if f.n == 0 && (all || !f.rare) && f.name != split {
			out = append(out, f.name)
		}
	}
	if c.schedules == 0 {
		return out
	}
	if n := slices.Min(c.steps); n < leastSteps {
		out = append(out, fmt.Sprintf("%d steps in every schedule (one has %d)", leastSteps, n))
	}
	if n := slices.Min(c.faults); n < leastFaults {
		out = append(out, fmt.Sprintf("%d faults in every schedule (one has %d)", leastFaults, n))
	}
	return out
}

// A long run without one of these proves less than it claims, and fails.
func TestLongRunReportsKindsThatNeverHappened(t *testing.T) {
	full := newCoverage()
	full.schedules, full.steps, full.faults = 1, spreadOf{leastSteps}, spreadOf{leastFaults}
	missing := full.missing(true)
	for _, name := range []string{
		"taken by silence", "taken by evidence", "taken by goodbye", "taken by new-boot", "taken by refusal",
		"leader changes with an open proposal", "void commits", "restarts with an old log",
	} {
		if !slices.Contains(missing, name) {
			t.Errorf("no test requires %q", name)
		}
	}
	for _, k := range []*spreadOf{&full.steps, &full.faults} {
		*k = append(*k, 2)
		if n := len(missing); len(full.missing(true)) <= n {
			t.Errorf("no test requires this figure: %v", *k)
		}
		missing = full.missing(true)
	}
}

// add adds the counts of another run.
func (c *coverage) add(o *coverage) {
	theirs := o.counters()
	for i, k := range c.counters() {
		*k.n += *theirs[i].n
	}
	c.steps, c.faults = append(c.steps, o.steps...), append(c.faults, o.faults...)
	for i := range c.stuck {
		c.stuck[i] += o.stuck[i]
	}
	for _, p := range [][2]map[string]int{{c.rounds, o.rounds}, {c.drops, o.drops}, {c.takeovers, o.takeovers}, {c.stepDowns, o.stepDowns}, {c.calls, o.calls}} {
		for k, n := range p[1] {
			p[0][k] += n
		}
	}
}

// describe describes the state of a schedule that makes no progress.
func (w *world) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "map %d (%s), last %d (%s)", w.truth.Committed().Epoch(), spread(w.truth.Committed()), w.truth.Proposed().Epoch(), spread(w.truth.Proposed()))
	for _, h := range w.hosts {
		p := h.proc
		if p == nil {
			fmt.Fprintf(&b, "; %s is down", h.id)
			continue
		}
		left := p.until - p.clock()
		fmt.Fprintf(&b, "; %s: term %d, leads %v, applied %d of %d, map %d, acknowledged %d, draining %d, lease %v",
			h.id, p.disk.term, p.leader, p.raftApplied, p.disk.last(), p.table.Committed().Epoch(), p.machine.Acked(), p.machine.Draining(), left)
		if l := p.lead; l != nil && !l.over {
			b.WriteString(", knows")
			for _, v := range l.turn.View() {
				fmt.Fprintf(&b, " %s(boot %d, silent %v, crashed %v, eligible %v)", v.Node, v.Heartbeat.Boot, v.Silent, v.Crashed, v.Eligible)
			}
		}
	}
	return b.String()
}

// spread describes how many shards each member owns.
func spread(m *shardmap.Map) string {
	var b strings.Builder
	for i, mb := range m.Members() {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%d", mb.ID, m.ShardCount(mb.ID))
	}
	return b.String()
}

// drops lists the nodes that the last proposal dropped.
func drops(s *ack.State) string {
	var b strings.Builder
	for _, id := range []shardmap.NodeID{"a", "b", "c", "d", "e", "f", "g"} {
		if d, ok := s.Drop(id); ok && d.InForce && d.Epoch == s.Proposed().Epoch() {
			fmt.Fprintf(&b, ", %s dropped: %s", id, d.Cause)
			if d.ConsecutiveDrops > 0 {
				fmt.Fprintf(&b, " (%d)", d.ConsecutiveDrops)
			}
		}
	}
	return b.String()
}
