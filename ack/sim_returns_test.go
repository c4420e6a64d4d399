package ack_test

import (
	"fmt"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/shardmap"
)

// Caching apps in a schedule: an app process keeps what it has read of each shard. A shard
// that was elsewhere must not return to such a process, unless no other node can own it.

// simCache is the caching app of a host. It outlives the processes of the node.
type simCache struct {
	// had are the newest ownership epochs by which this app process ran requests, by shard.
	had map[shardmap.Shard]shardmap.Epoch
	// process counts the processes of the app. named means that checks see which one it is.
	process   int
	named     bool
	downUntil time.Duration
	met       int // the process that a check met last
	// any means that the node lets shards return at any time.
	any bool
}

// returnChecks is global knowledge about returns.
type returnChecks struct {
	// needed are the ownerships that no other member could have got.
	needed map[shardEpoch]bool
	// placed are the members for which the last map was computed: a proposal may also have
	// owners that leave, and keep what is busy for a moment.
	placed []shardmap.Member
}

// returnsCoverage counts what occurred in schedules with caching apps.
type returnsCoverage struct {
	departures, staleReturns, appReports, cacheRestarts, closedPorts, excusedReturns int
}

// addCachingApps gives each host a caching app.
func (w *world) addCachingApps() {
	w.needed = map[shardEpoch]bool{}
	for _, h := range w.hosts {
		h.cache = &simCache{had: map[shardmap.Shard]shardmap.Epoch{}, named: w.n(2) == 0, any: w.n(6) == 0}
		for range h.instanceCount() - 1 {
			h.furtherCaches = append(h.furtherCaches, &simCache{had: map[shardmap.Shard]shardmap.Epoch{}, named: w.n(2) == 0, any: h.cache.any})
		}
	}
}

// instance is the instance that the app reports in response to a check.
func (c *simCache) instance() string {
	if !c.named {
		return ""
	}
	return fmt.Sprint("process ", c.process)
}

// watchApp starts the watches of a node's app instances.
func (p *proc) watchApp() {
	if p.h.cache == nil || p.h.gateway {
		return
	}
	for i := range p.h.caches() {
		p.watches = append(p.watches, agent.NewAppWatch(p.disk.instances[i]))
	}
	for i := range p.watches {
		p.checkApp(shardmap.Instance(i))
	}
}

// checkApp checks an app instance periodically. The map is read before the check begins.
func (p *proc) checkApp(instance shardmap.Instance) {
	w, c, watch := p.w, p.h.caches()[instance], p.watches[instance]
	attempt := watch.BeginAttempt(p.fsm.Committed().Epoch())
	w.after(w.span(0, 20*time.Millisecond), p, func() {
		refused, process, reported := w.now < c.downUntil, c.process, c.instance()
		late := w.span(0, 10*time.Millisecond)
		if w.n(4) == 0 {
			late = w.span(0, 600*time.Millisecond)
		}
		w.after(late, p, func() {
			if w.plant == plantLateCheck {
				attempt = watch.BeginAttempt(p.fsm.Committed().Epoch())
			}
			p.checkedApp(instance, attempt, refused, process, reported)
		})
	})
}

// checkedApp handles the result of a check.
func (p *proc) checkedApp(instance shardmap.Instance, a agent.Attempt, refused bool, process int, reported string) {
	c, watch := p.h.caches()[instance], p.watches[instance]
	switch {
	case p.h.states[instance].removed: // it is not checked
	case refused:
		watch.Refused(a)
	default:
		c.met = process
		if watch.Checked(a, reported) {
			p.disk.instances[instance] = reported
		}
	}
	p.w.after(p.w.span(20*time.Millisecond, 150*time.Millisecond), p, func() { p.checkApp(instance) })
}

// reportApp adds the reports about the app instances to the observation of the node.
func (p *proc) reportApp(s agent.Observation) agent.Observation {
	for i, watch := range p.watches {
		if i == 0 {
			s.ReturnsNeedRestart, s.AppStartedAfter = !p.h.cache.any, watch.StartedAfter()
			continue
		}
		s.InstancesStartedAfter[i-1] = watch.StartedAfter()
	}
	return s
}

// watchLease reports a lease to the watches right after it was published.
func (p *proc) watchLease(now time.Duration, s agent.Observation) {
	for _, watch := range p.watches {
		watch.Applied(s.State.Committed().Epoch(), p.machine.LeaseRemaining(now) > 0)
	}
}

// leavesApp excuses the cache of an app process that restarted so shortly before the end of
// the process of the node that no check reached it: the next process assumes that it started
// after that end.
func (p *proc) leavesApp() {
	for _, c := range p.h.caches() {
		if c.named && c.met != c.process {
			p.w.cover.excusedReturns += len(c.had)
			clear(c.had)
		}
	}
}

// appRefuses reports whether the app instance is down, so that the request does not run.
func (p *proc) appRefuses(instance shardmap.Instance) bool {
	if len(p.watches) == 0 {
		return false
	}
	watch := p.watches[instance]
	if p.w.now < p.h.caches()[instance].downUntil {
		watch.Refused(watch.BeginAttempt(p.fsm.Committed().Epoch()))
		return true
	}
	watch.Connected()
	return false
}

// checkCached checks a request that the app processes, and records that the app has the shard.
func (w *world) checkCached(p *proc, r *simReq) {
	if p.h.cache == nil || r.late || r.forged || p.h.twin != nil {
		return
	}
	c := p.h.caches()[r.instance]
	had, ok := c.had[r.shard]
	if ok && had < r.epoch && !c.any && !w.needed[shardEpoch{r.shard, r.epoch}] {
		w.fail("returns: the app of %s runs a request for shard %d of epoch %d with its cache of epoch %d", p.h.id, r.shard, r.epoch, had)
	}
	c.had[r.shard] = max(had, r.epoch)
}

// checkReturns records which moves of a proposal had no other target.
func (w *world) checkReturns(before, after *ack.State) {
	if w.needed == nil {
		return
	}
	p, policy := after.Proposed(), before.Policy()
	var present, open []shardmap.NodeID
	for _, m := range w.placed {
		if policy.IsDraining(m.ID) || before.Restarting(m.ID) {
			continue
		}
		for _, instance := range m.Instances.All() {
			if policy.Drained[shardmap.InstanceName(m.ID, instance)] {
				continue
			}
			present = append(present, shardmap.InstanceID(m.ID, instance))
			if !policy.Cordoned[m.ID] {
				open = append(open, shardmap.InstanceID(m.ID, instance))
			}
		}
	}
	if len(open) == 0 {
		open = present
	}
	for _, mv := range shardmap.Diff(before.Committed(), p) {
		w.cover.departures++
		barred := func(id shardmap.NodeID) bool { return before.IsBarred(id, mv.Shard) }
		if mv.To != "" && barred(p.OwnerInstanceID(mv.Shard)) && !slices.ContainsFunc(open, func(id shardmap.NodeID) bool { return !barred(id) }) {
			w.needed[shardEpoch{mv.Shard, p.Epoch()}] = true
			w.cover.staleReturns++
		}
	}
}

// checkAppReport checks the reports of nodes that a leader writes into the log.
func (w *world) checkAppReport(after *ack.State, e *logEntry) {
	w.cover.appReports++
	w.logf("log: %d reports apps", after.Index())
	if e.asked != e.term {
		w.fail("returns: a report to the leader of term %d counts in term %d", e.asked, e.term)
	}
}

// sameReturns reports whether two states bar the same shards.
func (w *world) sameReturns(a, b *ack.State) bool {
	for _, id := range w.instanceIDs() {
		if a.ReturnsNeedRestart(id) != b.ReturnsNeedRestart(id) || a.StaleReturns(id) != b.StaleReturns(id) {
			return false
		}
		for s := range shardmap.Shard(a.Committed().Len()) {
			if a.IsBarred(id, s) != b.IsBarred(id, s) {
				return false
			}
		}
	}
	return true
}

// barred returns the barred shards of a state, for shardmap.Assign.
func (w *world) barred(s *ack.State) map[shardmap.NodeID]shardmap.ShardSet {
	all := map[shardmap.NodeID]shardmap.ShardSet{}
	for _, id := range w.instanceIDs() {
		var set shardmap.ShardSet
		for shard := range shardmap.Shard(s.Committed().Len()) {
			if s.IsBarred(id, shard) {
				set.Add(shard)
			}
		}
		all[id] = set
	}
	return all
}

// faultCacheRestart restarts the app of a node, which may be down: so briefly that no check
// notices, or for a while.
func faultCacheRestart(w *world) bool {
	h := w.randomHost(func(h *host) bool { return h.cache != nil && !h.gateway })
	if h == nil {
		return false
	}
	d := time.Duration(0)
	if w.pick(3) > 0 {
		d = w.faultDuration() / 2
	}
	w.logf("the app of %s restarts, and is gone for %v", h.id, d.Round(time.Millisecond))
	w.cover.cacheRestarts++
	instance := w.pickInstance(h)
	h.restartCache(instance, d)
	if d > 100*time.Millisecond && w.pick(2) == 0 && h.instanceCount() == 1 {
		h.unhealthy = true
		w.undo(d+w.span(0, 100*time.Millisecond), func() { h.unhealthy = false })
	}
	return true
}

// restartCache restarts an app instance, which may be down for a while.
func (h *host) restartCache(instance shardmap.Instance, down time.Duration) {
	c := h.caches()[instance]
	c.process++
	clear(c.had)
	c.downUntil = h.w.now + down
	if p := h.proc; p != nil {
		for _, r := range slices.Clone(p.reqs) {
			if r.running && r.instance == instance {
				p.finish(r)
			}
		}
	}
}

// faultAppPort makes the app of a node close its port and continue, so new connections are
// refused. Only an app that reports its instance may do so, and only after a check has reached
// it.
func faultAppPort(w *world) bool {
	h := w.randomHost(func(h *host) bool {
		return h.cache != nil && !h.gateway && h.cache.named && h.cache.met == h.cache.process && h.cache.downUntil < w.now
	})
	if h == nil {
		return false
	}
	d := w.faultDuration() / 2
	w.logf("the app of %s closes its port for %v", h.id, d.Round(time.Millisecond))
	w.cover.closedPorts++
	h.cache.downUntil = w.now + d
	if d > 100*time.Millisecond && w.pick(2) == 0 {
		h.unhealthy = true
		w.undo(d+w.span(0, 100*time.Millisecond), func() { h.unhealthy = false })
	}
	return true
}

// mutantsOfDepartures are mutants by which a shard returns to an app with an old copy of it.
func mutantsOfDepartures() []mutant {
	caches := func(list string) *simMix {
		m := aimed(list)
		m.caches = 100
		return m
	}
	moves := caches("leave 6, join 2, sick 4, policy 6, kill 3, cache-restart 3")
	restarts := caches("cache-restart 8, kill 8, leave 4, sick 3, restart 3")
	return []mutant{
		{
			name: "returns: a commit does not record the shards that leave a node", mix: moves, caught: "returns",
			edits: in("ack.departures.recordMoves", "		if _, known := dp.byNode[from]; known {\n", "		if _, known := dp.byNode[from]; known && !PLANTED {\n"),
		},
		{
			name: "returns: a shard goes to a stale process", mix: moves, caught: "returns|G9",
			edits: in("ack/leader.placementInputs.placement", "	placement.Barred = pi.state.BarredShards()\n", "	if !PLANTED {\n		placement.Barred = pi.state.BarredShards()\n	}\n"),
		},
		{
			name: "returns: a node gets shards before the log has its report", mix: moves, caught: "returns",
			edits: in("ack/leader.Leader.reconcile", "l.submitPolicyChange() || l.submitRestart() || l.submitAppReports() {", "l.submitPolicyChange() || l.submitRestart() || !PLANTED && l.submitAppReports() {"),
		},
		{
			name: "returns: a report ends departures after it", mix: restarts, caught: "returns",
			edits: both(in("ack.departures.applyReport", "	for expired < len(departed) && departed[expired].epoch <= report.StartedAfter {\n", "	for expired < len(departed) && (PLANTED || departed[expired].epoch <= report.StartedAfter) {\n"),
				in("ack.departures.isChangedBy", "	return len(departed) > 0 && departed[0].epoch <= report.StartedAfter\n", "	return len(departed) > 0 && (PLANTED || departed[0].epoch <= report.StartedAfter)\n")),
		},
		{
			name: "returns: a report to an earlier leader counts", mix: caches("cache-restart 6, leave 4, sick 4, depose 5, elect 5, restart 3").late(), caught: "returns",
			edits: in("ack.State.applyAppReports", "	if !s.Bootstrapped() || term != entry.Term {\n", "	if !s.Bootstrapped() || !PLANTED && term != entry.Term {\n"),
		},
		{
			name: "returns: a new process of the node treats its app as restarted", mix: restarts, caught: "returns",
			edits: in("ack/agent.NewAppWatch", "return &AppWatch{instance: instance}", "return &AppWatch{instance: instance, start: appStart{noRequestYet: PLANTED}}"),
		},
		{
			name: "returns: an app that has had requests still counts as unused", mix: restarts, caught: "returns",
			edits: in("ack/agent.AppWatch.Connected", "	w.start.noRequestYet = false\n", "	w.start.noRequestYet = w.start.noRequestYet && PLANTED\n"),
		},
		{
			name: "returns: a refused connection counts after later ones", mix: restarts, caught: "returns",
			edits: in("ack/agent.AppWatch.Refused", "	noConnectionSince := attempt.", "	noConnectionSince := PLANTED || attempt."),
		},
		{
			name: "returns: an app that reports its instance counts as restarted if it refuses connections", mix: caches("app-port 8, leave 4, sick 4, policy 4, kill 2"), caught: "returns",
			edits: in("ack/agent.AppWatch.Refused", "	if mayReportInstances {\n", "	if mayReportInstances && !PLANTED {\n"),
		},
		{
			name: "returns: another instance counts from the check that sees it", mix: restarts, caught: "returns",
			edits: in("ack/agent.AppWatch.Checked", "		w.instanceChanged(instance)\n", "		if PLANTED && w.instance != \"\" && w.sawInstance && w.hadLease {\n			w.start.recordStartAfter(attempt.committedEpoch)\n		}\n		w.instanceChanged(instance)\n"),
		},
		{
			name: "returns: the map is read after the check", mix: restarts, plant: plantLateCheck, caught: "returns",
		},
		{
			name: "rule 8: snapshots forget departed shards", mix: caches("leave 6, sick 4, policy 6, compact 4, kill 4, wipe 2"), caught: "G5|returns",
			edits: in("ack.State.MarshalWithRegistry", "	w.writeDepartures(s.departures)\n", "	w.writeDepartures([]departures{s.departures, {}}[plantedAs(PLANTED)])\n"),
		},
	}
}

// pointsOfDepartures are those of docs/internals/protocol-returns.md.
func pointsOfDepartures() []point {
	planted := func(clause string, names ...string) point {
		return point{of: "returns", clause: clause, planted: names}
	}
	return []point{
		planted("a commit records for each shard which node it leaves", "returns: a commit does not record the shards that leave a node"),
		planted("a node does not get such a shard", "returns: a shard goes to a stale process"),
		planted("the log has a node's report before the node gets shards", "returns: a node gets shards before the log has its report"),
		planted("the report counts in the term of the leader that received it", "returns: a report to an earlier leader counts"),
		planted("a report forgets the shards that left up to the map that it names", "returns: a report ends departures after it"),
		{
			of: "returns", clause: "sets are merged, never dropped",
			explained: "No schedule has so many departures of one node between two restarts of its app. TestDepartedShardsAreBounded.",
		},
		planted("the map is read before the check", "returns: the map is read after the check"),
		planted("the evidence of a refused connection ends with later requests", "returns: a refused connection counts after later ones"),
		planted("an app that reports its instance and refuses connections may continue", "returns: an app that reports its instance counts as restarted if it refuses connections"),
		planted("another instance started after the last check of the previous one", "returns: another instance counts from the check that sees it"),
		planted("a new process of the node does not treat the app as restarted", "returns: a new process of the node treats its app as restarted"),
		planted("an app that refused a connection counts as started later while it has had no request", "returns: an app that has had requests still counts as unused"),
		planted("snapshots contain it", "rule 8: snapshots forget departed shards"),
		{
			of: "returns", clause: "a shard that no other member may get goes to a barred member",
			explained: "It concerns progress: Assign never refuses such a shard. TestBarredMembersReceiveOnlyShardsThatNoOtherMemberCanOwn; the coverage counts such returns.",
		},
	}
}
