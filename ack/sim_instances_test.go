package ack_test

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/agent"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// Nodes with several app instances in a schedule: instances end, hang, become unhealthy and
// return. No two instances may run requests of one shard at the same time, and a shard that
// moves between two instances gets another ownership epoch.

// simInstances is the maximum number of app instances of a host.
const simInstances = 3

// instanceFaults is the state of the app instances of a host. The zero value is a host with one
// instance.
type instanceFaults struct {
	count         int // zero or one: a node with one instance
	states        [simInstances]instanceState
	furtherApps   []*simApp   // with hooks, after the first one
	furtherCaches []*simCache // without hooks, after the first one
	// nextRemoved contains the instances that the next process of the node does not have.
	nextRemoved [simInstances]bool
}

// instanceState is the state of one app instance.
type instanceState struct {
	down  bool // it has ended, and refuses connections
	hangs bool // SIGSTOP
	sick  bool // its checks fail
	// removed means that the configuration of the node does not contain it. Its process may still run.
	removed bool
	falls   uint32
}

// instanceCoverage counts what occurred in schedules with several instances.
type instanceCoverage struct {
	instanceEnds, instanceHangs, instanceMoves, hungRequests, instanceRemovals, instanceDrains int
}

// addInstances gives most hosts several app instances.
func (w *world) addInstances() {
	for _, h := range w.hosts {
		if !h.gateway && w.n(5) > 0 {
			h.count = 2 + w.n(simInstances-1)
		}
	}
}

// instanceCount returns the number of app instances of the host.
func (h *host) instanceCount() int { return max(h.count, 1) }

// pickInstance returns a random instance of the host.
func (w *world) pickInstance(h *host) shardmap.Instance {
	if h.count < 2 {
		return 0
	}
	return shardmap.Instance(w.pick(h.count))
}

// apps returns the apps with hooks of the host, by instance.
func (h *host) apps() []*simApp {
	if h.app == nil {
		return nil
	}
	return append([]*simApp{h.app}, h.furtherApps...)
}

// appOf returns the app with hooks of an instance.
func (h *host) appOf(instance shardmap.Instance) *simApp { return h.apps()[instance] }

// caches returns the caching apps of the host, by instance.
func (h *host) caches() []*simCache {
	if h.cache == nil {
		return nil
	}
	return append([]*simCache{h.cache}, h.furtherCaches...)
}

// instanceIsDown reports whether the instance refuses connections.
func (h *host) instanceIsDown(instance shardmap.Instance) bool {
	return h.states[instance].down || h.states[instance].removed || h.hasServices && !h.runs[instance]
}

// instanceHangs reports whether the instance does not run.
func (h *host) instanceHangs(instance shardmap.Instance) bool { return h.states[instance].hangs }

// hasInstanceFault reports whether an instance does not work.
func (h *host) hasInstanceFault() bool {
	for _, state := range h.states {
		if state.down || state.hangs || state.sick || state.removed {
			return true
		}
	}
	return false
}

// healInstances ends the faults of all instances.
func (h *host) healInstances() {
	h.states, h.nextRemoved = [simInstances]instanceState{}, [simInstances]bool{}
}

// configured returns the instances in the list of the node.
func (h *host) configured() shardmap.InstanceSet {
	if h.hasServices {
		return h.configuredServices()
	}
	set, _ := shardmap.InstancesUpTo(max(h.count, 1)).Without(func(instance shardmap.Instance) bool { return h.states[instance].removed })
	return set
}

// readInstanceList applies the configured list of instances when a process of the node starts.
func (h *host) readInstanceList() {
	if h.hasServices {
		h.readServices()
		return
	}
	for i := range h.count {
		state := &h.states[i]
		if state.removed == h.nextRemoved[i] {
			continue
		}
		state.removed = h.nextRemoved[i]
		h.w.logf("%s starts without instance %d: %v", h.id, i+1, state.removed)
		if state.removed {
			h.w.cover.instanceRemovals++
		}
		if h.app != nil { // an app with hooks must end before its address is removed
			h.endInstance(shardmap.Instance(i), 0)
		}
	}
}

// instanceIDs returns the ids of all app instances.
func (w *world) instanceIDs() []shardmap.NodeID {
	var ids []shardmap.NodeID
	for _, h := range w.hosts {
		for i := range h.instanceCount() {
			ids = append(ids, shardmap.InstanceID(h.id, shardmap.Instance(i)))
		}
	}
	return ids
}

// reportInstances adds the health of the app instances to the observation of the node.
func (p *proc) reportInstances(s agent.Observation) agent.Observation {
	h := p.h
	if h.hasServices {
		return p.reportServices(s)
	}
	if h.count < 2 {
		return s
	}
	checks := make([]agent.InstanceCheck, h.count)
	for i := range checks {
		state := h.states[i]
		if state.removed {
			checks[i] = agent.InstanceCheck{Absent: true}
			continue
		}
		fails := state.down || state.hangs || state.sick
		checks[i] = agent.InstanceCheck{
			Unhealthy: fails || h.unhealthy,
			Health:    ack.AppHealth{Failing: fails || h.failing, Refused: state.down || h.failing && h.refused, FlapCount: state.falls},
		}
	}
	committed := p.fsm.Committed()
	health := p.selector.Update(p.clock(), checks, func(instance shardmap.Instance) bool {
		return committed.InstanceCount(h.id, instance) > 0
	})
	for i := range checks {
		if checks[i].Absent && health.Instances.Has(shardmap.Instance(i)) {
			p.w.fail("instances: %s reports that instance %d may own shards, which is not configured", h.id, i+1)
		}
	}
	s.Instances, s.Unhealthy, s.App = health.Instances, health.Unhealthy, health.App
	s.InstancesStartedAfter = make([]shardmap.Epoch, h.count-1)
	return s
}

// keepsShard reports whether the last proposal leaves the shard at this node, and moves it between
// no two instances of the node.
func (p *proc) keepsShard(s shardmap.Shard) bool {
	committed, proposed := p.table.Committed(), p.table.Proposed()
	if proposed.Owner(s) != p.h.id {
		return false
	}
	return committed.Len() != proposed.Len() || committed.Owner(s) != p.h.id || committed.HasSameOwner(proposed, s)
}

// checkInstances checks a map just committed: a shard moves to an instance only if that instance may own
// shards. checkOwner checks that such a move has another ownership epoch.
func (w *world) checkInstances(old, next *shardmap.Map) {
	instances := map[shardmap.NodeID]shardmap.InstanceSet{}
	for _, member := range next.Members() {
		instances[member.ID] = member.Instances
	}
	for _, move := range shardmap.Diff(old, next) {
		if move.To != "" && !instances[move.To].Has(next.Instance(move.Shard)) {
			w.fail("instances: %d moves shard %d to %s, which may own no shards", next.Epoch(), move.Shard, next.OwnerInstanceID(move.Shard))
		}
		if move.IsWithinNode() && move.From != "" {
			w.cover.instanceMoves++
		}
	}
}

// severalInstances returns a running host with several instances, or nil.
func (w *world) severalInstances() *host {
	return w.randomHost(func(h *host) bool { return h.count > 1 && running(h) })
}

// endInstance ends the process of an instance for a while.
func (h *host) endInstance(instance shardmap.Instance, down time.Duration) {
	w, state := h.w, &h.states[instance]
	w.cover.instanceEnds++
	state.down, state.hangs = true, false
	state.falls = min(state.falls+1, 4)
	if h.app != nil {
		h.appOf(instance).restart(down)
	}
	if h.cache != nil {
		h.restartCache(instance, down)
	}
	if p := h.proc; p != nil {
		for _, r := range append([]*simReq{}, p.reqs...) {
			if r.running && r.instance == instance {
				p.finish(r)
			}
		}
	}
	w.undo(down, func() { state.down = false })
}

// faultInstanceDie ends an instance.
func faultInstanceDie(w *world) bool {
	h := w.severalInstances()
	if h == nil {
		return false
	}
	instance, down := w.pickInstance(h), w.faultDuration()
	w.logf("instance %d of %s ends for %v", instance.Number(), h.id, down.Round(time.Millisecond))
	h.endInstance(instance, down)
	return true
}

// faultInstanceHang stops an instance. It continues later with the requests that it has.
func faultInstanceHang(w *world) bool {
	h := w.severalInstances()
	if h == nil {
		return false
	}
	instance, d := w.pickInstance(h), w.faultDuration()
	w.logf("instance %d of %s hangs for %v", instance.Number(), h.id, d.Round(time.Millisecond))
	w.cover.instanceHangs++
	state := &h.states[instance]
	state.hangs = true
	state.falls = min(state.falls+1, 4)
	for _, r := range h.proc.reqs {
		if r.running && r.instance == instance {
			w.cover.hungRequests++
		}
	}
	if h.app != nil {
		app := h.appOf(instance)
		app.ill = appIllness{hangs: 1000}
		w.undo(d, func() { app.ill = appIllness{} })
	}
	w.undo(d, func() { state.hangs = false })
	return true
}

// faultInstanceUnhealthy makes the checks of an instance fail.
func faultInstanceUnhealthy(w *world) bool {
	h := w.severalInstances()
	if h == nil {
		return false
	}
	instance := w.pickInstance(h)
	w.logf("instance %d of %s is sick", instance.Number(), h.id)
	state := &h.states[instance]
	state.sick = true
	state.falls = min(state.falls+1, 4)
	w.undo(w.faultDuration(), func() { state.sick = false })
	return true
}

// faultInstanceRoll restarts the instances of a host one after the other.
func faultInstanceRoll(w *world) bool {
	h := w.severalInstances()
	if h == nil {
		return false
	}
	w.logf("the instances of %s restart one after the other", h.id)
	at := time.Duration(0)
	for i := range h.count {
		down := w.span(50*time.Millisecond, 400*time.Millisecond)
		w.undo(at, func() { h.endInstance(shardmap.Instance(i), down) })
		at += down + w.span(0, 500*time.Millisecond)
	}
	w.run(w.now+w.span(0, at), nil)
	return true
}

// faultInstanceDrain drains an instance, or ends its drain.
func faultInstanceDrain(w *world) bool {
	l, h := w.someLeader(), w.severalInstances()
	if l == nil || h == nil {
		return false
	}
	change := ack.Change{Kind: ack.ChangeDrain, Node: shardmap.InstanceName(h.id, w.pickInstance(h))}
	if w.pick(3) == 0 {
		change.Kind = ack.ChangeUncordon
	}
	if !l.proc.lead.changePolicy(change) {
		return false
	}
	w.cover.instanceDrains++
	return true
}

// faultInstanceList restarts a node with another list of instances: it removes an instance, or adds one
// that was removed. The data directory keeps the numbers, so the order of the list has no effect.
func faultInstanceList(w *world) bool {
	h := w.severalInstances()
	if h == nil || h.proc.leaving || h.proc.closing {
		return false
	}
	instance, remaining := w.pickInstance(h), 0
	next := h.nextRemoved
	next[instance] = !next[instance]
	for i := range h.count {
		if !next[i] {
			remaining++
		}
	}
	if remaining == 0 {
		return false
	}
	h.nextRemoved = next
	h.restart(restarting{back: 6 * time.Second, down: w.span(10*time.Millisecond, 800*time.Millisecond)})
	return true
}

// checkInstanceDrains checks a proposal: no shard moves to a drained instance.
func (w *world) checkInstanceDrains(base, proposed *shardmap.Map, policy *ack.Policy) {
	for _, move := range shardmap.Diff(base, proposed) {
		if move.To != "" && policy.Drained[shardmap.InstanceName(move.To, move.ToInstance)] {
			w.fail("instances: %d moves shard %d to the drained instance %s", proposed.Epoch(), move.Shard, proposed.OwnerInstanceID(move.Shard))
		}
	}
}

// candidates returns the members that the leader passed to Assign. A proposal does not contain their
// drained instances.
func (n stageNote) candidates(before *ack.State, members []shardmap.Member) []shardmap.Member {
	members = slices.Clone(members)
	for i, member := range members {
		members[i].Instances = n.instancesOf(before, member.ID)
	}
	return members
}

// hasFailed reports whether the instance that owns the shard in the committed map has failed, as far as
// the leader knew.
func (n stageNote) hasFailed(before *ack.State, s shardmap.Shard) bool {
	base := before.Committed()
	if instances, isKnown := n.deferring[base.Owner(s)]; isKnown {
		return !instances.Has(base.Instance(s))
	}
	return !n.instancesOf(before, base.Owner(s)).Has(base.Instance(s))
}

// instancesOf returns the instances of a node that have not failed, as far as the leader knew. While
// the node restarts or has sent no heartbeat in its term, those of the last map count, and the drained
// ones, which no map contains.
func (n stageNote) instancesOf(before *ack.State, id shardmap.NodeID) shardmap.InstanceSet {
	if reported, known := n.instances[id]; known && !before.Restarting(id) {
		return reported
	}
	last := shardmap.InstanceSet(0)
	for _, m := range []*shardmap.Map{before.Committed(), before.Proposed()} {
		for _, member := range m.Members() {
			if member.ID == id {
				last = member.Instances
			}
		}
	}
	for i := range shardmap.Instance(simInstances) {
		if before.Policy().DrainsInstance(id, i) {
			last = last.With(i)
		}
	}
	return last
}

// setEarlierInstances records the instances in the heartbeat before the one of this turn.
func (n *stageNote) setEarlierInstances(before ack.Heartbeat, hb leader.HeartbeatReceived) {
	isFirst := before.Number == 0
	if n.instances == nil || !isFirst && before.Instances == hb.Instances {
		return
	}
	n.earlierInstances = maps.Clone(n.instances)
	if isFirst {
		delete(n.earlierInstances, hb.Node)
	} else {
		n.earlierInstances[hb.Node] = before.Instances
	}
}
