package ack_test

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// Gradual drains in a schedule: leaders ask drained nodes which shards are idle, and use the
// answers.

// gradualDrainChecks is global knowledge about gradual drains.
type gradualDrainChecks struct {
	emptyAt map[drainStart]time.Duration // when it was first applied
	idle    map[idleReport]map[shardmap.Shard]bool
}

// drainStart is an entry that starts a gradual drain.
type drainStart struct {
	node  shardmap.NodeID
	since uint64
}

// idleReport is the answer of a node to a leader, for one map.
type idleReport struct {
	term uint64
	node shardmap.NodeID
	base shardmap.Epoch
}

func newGradualDrainChecks() gradualDrainChecks {
	return gradualDrainChecks{emptyAt: map[drainStart]time.Duration{}, idle: map[idleReport]map[shardmap.Shard]bool{}}
}

// anyGradualDrain returns a random gradual drain.
func (w *world) anyGradualDrain(node shardmap.NodeID) ack.Change {
	return ack.Change{Kind: ack.ChangeDrainGradually, Node: node, Duration: []time.Duration{300 * time.Millisecond, soonOver, time.Hour}[w.pick(3)]}
}

// queryIdleShards periodically asks all nodes with a gradual drain. Query and answer are delayed,
// and may get lost.
func (l *leaderLoop) queryIdleShards() {
	w, all := l.p.w, l.driverState().Policy().GradualDrains
	if len(all) == 0 || w.n(4) > 0 {
		return
	}
	for _, h := range w.hosts {
		if _, asked := all[h.id]; !asked {
			continue
		}
		w.send(l.p.h, h, func(q *proc) {
			m := q.idle()
			w.send(h, l.p.h, func(p *proc) {
				if p.lead != l || l.over {
					return
				}
				key := idleReport{l.term, m.Node, m.MapEpoch}
				if w.idle[key] == nil {
					w.idle[key] = map[shardmap.Shard]bool{}
				}
				for _, s := range m.Shards {
					w.idle[key][s] = true
				}
				w.cover.idles++
				l.receive(m, origin{})
			})
		})
	}
}

// idle is the answer of a node.
func (p *proc) idle() leader.IdleShards {
	m := leader.IdleShards{Node: p.h.id, MapEpoch: p.table.Committed().Epoch()}
	for s := range p.table.Committed().Shards(p.h.id) {
		if !slices.ContainsFunc(p.reqs, func(r *simReq) bool { return r.shard == s }) {
			m.Shards = append(m.Shards, s)
		}
	}
	return m
}

// checkGradualDrain checks the effect of a policy change on gradual drains: a leader ends only
// those whose time is over, or whose node owns nothing.
func (w *world) checkGradualDrain(before, after *ack.State, e *logEntry) {
	was, is := before.Policy(), after.Policy()
	for id, x := range is.GradualDrains {
		if was.GradualDrains[id] != x {
			w.emptyAt[drainStart{id, x.Index}] = w.now
			w.cover.emptied++
		}
		if is.Drained[id] {
			w.fail("gradual drain: %s is drained, and emptied", id)
		}
	}
	for id, x := range was.GradualDrains {
		if _, stays := is.GradualDrains[id]; stays || e.byOperator {
			continue
		}
		w.cover.gradualDrainsOver++
		owns := before.Committed().ShardCount(id) + before.Proposed().ShardCount(id)
		if lasted := w.now - w.emptyAt[drainStart{id, x.Index}]; owns > 0 && lasted < x.Duration*9/10 {
			w.fail("gradual drain: busy shards of %s move after %v of %v", id, lasted, x.Duration)
		}
	}
}

// movedFrom returns the shards that a map takes from members with a gradual drain.
func movedFrom(base, p *shardmap.Map, policy *ack.Policy) map[shardmap.Shard]bool {
	idle := map[shardmap.Shard]bool{}
	for s := range shardmap.Shard(base.Len()) {
		owner := base.Owner(s)
		if _, emptied := policy.GradualDrains[owner]; emptied && p.IsMember(owner) && p.Owner(s) != owner {
			idle[s] = true
		}
	}
	return idle
}

// checkIdleMoves checks the shards that a proposal takes from members with a gradual drain, and
// returns them. The members must have reported them as idle for this map, to this leader or to
// the leader of the open round, whose proposal was checked before. A shard must also move if its
// instance may own no shards and its siblings are barred from the shard.
func (w *world) checkIdleMoves(before, after *ack.State, e *logEntry, by shardmap.Policy) map[shardmap.Shard]bool {
	p, base, policy := after.Proposed(), before.Committed(), before.Policy()
	idle, open := movedFrom(base, p, policy), map[shardmap.Shard]bool{}
	if before.HasOpenProposal() {
		open = movedFrom(base, before.Proposed(), policy)
	}
	for s := range maps.Clone(idle) {
		owner := shardmap.Member{ID: base.Owner(s), Instances: e.stage.instancesOf(before, base.Owner(s))}
		if policy.DrainsInstance(owner.ID, base.Instance(s)) && isBarred(s, owner, by) {
			delete(idle, s) // Assign moves it
			continue
		}
		w.cover.wentIdle++
		if !open[s] && !e.stage.hasFailed(before, s) && !w.idle[idleReport{e.asked, base.Owner(s), base.Epoch()}][s] {
			w.fail("gradual drain: %d takes shard %d from %s, which has not reported it as idle", p.Epoch(), s, base.Owner(s))
		}
	}
	return idle
}

// mayReplaceNothing reports whether the proposal replaces an open round, and idle shards are no
// reason for that. The shards of nodes that have started or finished a restart since the round
// began are subject to another rule. A new leader repeats the proposal unchanged.
func (w *world) mayReplaceNothing(before, after *ack.State, e *logEntry) bool {
	p, last, policy := after.Proposed(), before.Proposed(), before.Policy()
	if len(policy.GradualDrains) == 0 || len(policy.Pins) > 0 || policy.Role != "" || len(e.stage.deferred) > 0 || !before.HasOpenProposal() {
		return false
	}
	if slices.ContainsFunc(p.Members(), func(m shardmap.Member) bool { return e.stage.left[m.ID] }) { // it gets nothing any more
		return false
	}
	if before.ProposedTerm() != e.asked && last.HasSameOwners(p) {
		return false
	}
	return uint64(last.Epoch()) > max(policy.ChangedIndex, w.restartEntryAt) && slices.Equal(last.Members(), p.Members())
}

// onlyIdleShardsDiffer reports whether the open proposal is still the result of Assign for the
// current inputs, except for the idle shards. The inputs include the shards that apps have failed
// to acquire: such a shard moves to another node, although a round is open.
func onlyIdleShardsDiffer(before *ack.State, members []shardmap.Member, by shardmap.Policy) bool {
	base, last := before.Committed(), before.Proposed()
	by.IdleShards = movedFrom(base, last, before.Policy())
	return last.HasSameOwners(shardmap.Assign(base, members, by))
}

// gradualDrainsLast reports whether a gradual drain is in force that should end soon.
func (w *world) gradualDrainsLast() bool {
	for x := range maps.Values(w.truth.Policy().GradualDrains) {
		if x.Duration <= soonOver {
			return true
		}
	}
	return false
}
