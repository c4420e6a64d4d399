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

// appReport is the report about the app in the newest heartbeat of a node, when the leader
// submitted an entry.
type appReport struct {
	failed []shardmap.Shard
	unable bool
}

// reportsOf returns the reports about apps that a leader has received.
func (l *leaderLoop) reportsOf() map[shardmap.NodeID]appReport {
	all := map[shardmap.NodeID]appReport{}
	for _, v := range l.turn.View() {
		if v.SinceHeartbeat >= 0 {
			all[v.Node] = appReport{v.Heartbeat.UnacquiredShards, v.Heartbeat.AcquiresNone}
		}
	}
	return all
}

// earlierHeartbeat returns the heartbeat before hb.
func (l *leaderLoop) earlierHeartbeat(hb leader.HeartbeatReceived) ack.Heartbeat {
	before := l.beats[hb.Node]
	if before.Number == hb.Number {
		before = l.prior[hb.Node]
	}
	return before
}

// earlierReport returns the report in the heartbeat before hb.
func (l *leaderLoop) earlierReport(hb leader.HeartbeatReceived) appReport {
	before := l.earlierHeartbeat(hb)
	return appReport{before.UnacquiredShards, before.AcquiresNone}
}

// relocated adds the effect of the reports on a map of the given members to a policy. The spare members get only shards
// that no other member can acquire.
func relocated(base *shardmap.Map, members []shardmap.Member, reports map[shardmap.NodeID]appReport, by shardmap.Policy, spare []shardmap.NodeID) shardmap.Policy {
	cordoned, pins := map[shardmap.NodeID]bool{}, map[shardmap.Shard]shardmap.Pin{}
	maps.Copy(cordoned, by.Cordoned)
	maps.Copy(pins, by.Pins)
	counts := map[shardmap.NodeID]int{}
	for _, m := range members {
		if reports[m.ID].unable {
			cordoned[m.ID] = true
		}
		if !cordoned[m.ID] && !by.Restarting[m.ID] && !by.GraduallyDrained[m.ID] && !by.Emptied[m.ID] && !by.DrainsAll(m) {
			counts[m.ID] = base.ShardCount(m.ID)
		}
	}
	spareCounts := map[shardmap.NodeID]int{}
	for _, id := range spare {
		spareCounts[id] = base.ShardCount(id)
	}
	by.Assigned = map[shardmap.Shard]shardmap.NodeID{}
	for s := range shardmap.Shard(base.Len()) {
		able, failed := ableFor(s, members, reports, by, counts)
		owner, pin := base.Owner(s), by.Pins[s]
		keeps := has(members, owner) && runsFor(s, members, owner, by) && !by.GraduallyDrained[owner] && (!by.Emptied[owner] || by.Paused) && !drainsAll(members, owner, by)
		to := owner
		ableSpares, _ := ableFor(s, members, reports, by, spareCounts)
		if len(failed) > 0 && len(able) == 0 && (!keeps || slices.Contains(failed, owner)) && !by.Paused {
			if slices.Contains(spare, owner) && !slices.Contains(failed, owner) {
				by.Assigned[s] = owner
				continue
			}
			if len(ableSpares) > 0 {
				to = slices.MinFunc(ableSpares, func(a, b shardmap.NodeID) int { return spareCounts[a] - spareCounts[b] })
				by.Assigned[s] = to
				spareCounts[to]++
				continue
			}
		}
		switch {
		case len(failed) == 0, pin.Node != "" && slices.Contains(able, pin.Node):
			continue // nothing follows, or an operator wants it where it can be
		case keeps && !slices.Contains(failed, owner):
		case len(able) > 0:
			to = slices.MinFunc(able, func(a, b shardmap.NodeID) int { return counts[a] - counts[b] })
		case !keeps:
			continue
		}
		pins[s] = shardmap.Pin{Node: to}
		if to != owner {
			counts[to]++
		}
	}
	by.Cordoned, by.Pins = cordoned, pins
	return by
}

// drainsAll reports whether the policy drains the member, or each of its app instances.
func drainsAll(members []shardmap.Member, id shardmap.NodeID, by shardmap.Policy) bool {
	return slices.ContainsFunc(members, func(m shardmap.Member) bool { return m.ID == id && by.DrainsAll(m) })
}

func has(members []shardmap.Member, id shardmap.NodeID) bool {
	return slices.ContainsFunc(members, func(m shardmap.Member) bool { return m.ID == id })
}

// instancesFor returns the instances of a member that run the service of the shard.
func instancesFor(s shardmap.Shard, m shardmap.Member, by shardmap.Policy) []shardmap.Instance {
	for _, service := range by.Services {
		if instances, runs := service.Instances[m.ID]; service.Contains(s) {
			if !runs {
				return nil
			}
			return instances.All()
		}
	}
	return m.Instances.All()
}

// runsFor reports whether the node is a member that runs the service of the shard.
func runsFor(s shardmap.Shard, members []shardmap.Member, id shardmap.NodeID, by shardmap.Policy) bool {
	return slices.ContainsFunc(members, func(m shardmap.Member) bool { return m.ID == id && len(instancesFor(s, m, by)) > 0 })
}

// isBarred reports whether no instance of a member may get a shard, because its app may still hold
// an old copy.
func isBarred(s shardmap.Shard, m shardmap.Member, by shardmap.Policy) bool {
	return !slices.ContainsFunc(instancesFor(s, m, by), func(instance shardmap.Instance) bool {
		return !by.Drained[shardmap.InstanceName(m.ID, instance)] && !by.Barred[shardmap.InstanceID(m.ID, instance)].Has(s)
	})
}

// ableFor returns the members that may get a shard, and those whose apps have failed to
// acquire it.
func ableFor(s shardmap.Shard, members []shardmap.Member, reports map[shardmap.NodeID]appReport, by shardmap.Policy, counts map[shardmap.NodeID]int) (able, failed []shardmap.NodeID) {
	pin := by.Pins[s]
	for _, m := range members {
		_, may := counts[m.ID]
		switch {
		case by.DrainsAll(m): // it keeps only shards that its app has failed to release, so its reports do not count
		case slices.Contains(reports[m.ID].failed, s):
			failed = append(failed, m.ID)
		case may && (pin.Zone == "" || by.Zones[m.ID] == pin.Zone) && !isBarred(s, m, by):
			able = append(able, m.ID)
		}
	}
	return able, failed
}

// checkRelocated checks what a proposal does with shards that apps fail to acquire: none moves
// to a node that reports it, and none stays at such a node if another may own it, unless its
// owner temporarily keeps busy shards, or keeps the shard because of a safe drain.
func (w *world) checkRelocated(base, p *shardmap.Map, members []shardmap.Member, reports map[shardmap.NodeID]appReport, by shardmap.Policy, spare []shardmap.NodeID) {
	counts, spareCounts := map[shardmap.NodeID]int{}, map[shardmap.NodeID]int{}
	for _, id := range spare {
		spareCounts[id] = 0
	}
	for _, m := range members {
		if !reports[m.ID].unable && !by.Cordoned[m.ID] && !by.Restarting[m.ID] && !by.GraduallyDrained[m.ID] && !by.Emptied[m.ID] && !by.DrainsAll(m) {
			counts[m.ID] = 0
		}
	}
	for s := range shardmap.Shard(base.Len()) {
		able, failed := ableFor(s, members, reports, by, counts)
		was, is := base.Owner(s), p.Owner(s)
		if len(failed) == 0 || !slices.Contains(failed, is) || by.Paused || by.KeptShards[s] || by.Restarting[is] || (by.DefersMoves[is] || by.GraduallyDrained[is]) && !by.IdleShards[s] {
			if slices.Contains(failed, was) && was != is {
				w.cover.relocated++
			}
			if len(failed) > 0 && slices.Contains(spare, is) && !slices.Contains(failed, is) {
				w.cover.substitutes++
			}
			continue
		}
		ableSpares, _ := ableFor(s, members, reports, by, spareCounts)
		isBound := by.Restarting[was] || by.GraduallyDrained[was]
		wasServed := (!by.Emptied[was] || slices.Contains(spare, was)) && !slices.Contains(failed, was)
		switch {
		case len(ableSpares) > 0 && !isBound:
			w.fail("unacquired: %d has shard %d at %s, whose app has failed to acquire it, and %v without the role may have it", p.Epoch(), s, is, ableSpares)
		case len(able) > 0:
			w.fail("unacquired: %d has shard %d at %s, whose app has failed to acquire it, and %v may have it", p.Epoch(), s, is, able)
		case has(members, was) && runsFor(s, members, was, by) && was != is && !by.GraduallyDrained[was] && wasServed && !drainsAll(members, was, by):
			w.fail("unacquired: %d moves shard %d from %s to %s, and no app acquires it", p.Epoch(), s, was, is)
		default:
			w.cover.unrelocated++
		}
	}
}

// checkReport checks the report about the app in a heartbeat.
func (w *world) checkReport(p *proc, h ack.Heartbeat) {
	if p.h.app == nil && (len(h.UnacquiredShards) > 0 || h.AcquiresNone || h.WaitingShards > 0) {
		w.fail("unacquired: %s has no hooks, and reports %+v", p.h.id, h.UnacquiredShards)
	}
	if len(h.UnacquiredShards) > 0 {
		w.cover.reported++
	}
	for _, s := range h.UnacquiredShards {
		// What is served now, and was when the app was looked at last, is acquired.
		epoch, serves := p.owns(s)
		switch since, known := p.servedSince[shardEpoch{s, epoch}]; {
		case !serves:
			delete(p.servedSince, shardEpoch{s, epoch})
		case !known:
			p.servedSince[shardEpoch{s, epoch}] = w.now
		case w.now-since > 5*time.Second && !p.stoppedOnce:
			w.fail("unacquired: %s reports shard %d, which it has served for %v", p.h.id, s, w.now-since)
		}
	}
	if h.AcquiresNone {
		w.cover.unable++
	}
}

// releaseEnded checks the end of a release: under a safe drain, a shard whose release failed
// does not move.
func (p *proc) releaseEnded(e agent.ReleaseEnd) {
	if e.Kept {
		p.w.cover.keptSafe++
	}
	s := p.table
	d, _ := s.Drop(p.h.id)
	if e.Result == agent.ReleaseOK || e.Kept || d.InForce || p.closing || e.Reason == errApp.Error() || e.Reason == "the app refuses connections" || !s.Policy().DrainOptions[p.h.id].Safe {
		return
	}
	p.w.fail("safe: %s moves shard %d, which its app has not released: %s", p.h.id, e.Shard, e.Reason)
}
