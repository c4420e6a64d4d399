package ack_test

import (
	"maps"
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// Roles in a schedule: an operator restricts shards to nodes with a role, and nodes restart with other roles. The
// checks compute the effect of the roles themselves, from the heartbeats that the leader had received.

// nodeRoles contains the roles in the newest heartbeat of each node that a leader has heard. A node that is missing has
// not been heard.
type nodeRoles map[shardmap.NodeID][]string

// has reports whether the node is known to have the role.
func (r nodeRoles) has(id shardmap.NodeID, role string) bool { return slices.Contains(r[id], role) }

// rolesOf returns the roles in the heartbeats that a leader has received.
func (l *leaderLoop) rolesOf() nodeRoles {
	all := nodeRoles{}
	for _, v := range l.turn.View() {
		if v.SinceHeartbeat >= 0 {
			all[v.Node] = v.Heartbeat.Roles
		}
	}
	return all
}

// earlierRoles returns the roles before the heartbeat of the turn.
func (l *leaderLoop) earlierRoles(all nodeRoles, hb leader.HeartbeatReceived) nodeRoles {
	earlier := maps.Clone(all)
	if before := l.earlierHeartbeat(hb); before.Number > 0 {
		earlier[hb.Node] = before.Roles
	} else {
		delete(earlier, hb.Node)
	}
	return earlier
}

// roleVariants returns the roles that the leader may have known when it computed the proposal: it may have taken the
// heartbeat of the turn before or after that.
func (q *queuedPolicy) roleVariants(role string) []nodeRoles {
	if role == "" || q.earlierRoles == nil {
		return []nodeRoles{q.roles}
	}
	return []nodeRoles{q.roles, q.earlierRoles}
}

// restricted adds the effect of a restriction to a role on a map of the given members to a policy. spare are the members
// without the role that could get shards.
func restricted(role string, members []shardmap.Member, roles nodeRoles, reports map[shardmap.NodeID]appReport, by shardmap.Policy) (result shardmap.Policy, spare []shardmap.NodeID) {
	if role == "" {
		return by, nil
	}
	var owners, lacking, unknown []shardmap.NodeID
	for _, m := range members {
		_, isKnown := roles[m.ID]
		isOpen := !by.Cordoned[m.ID] && !reports[m.ID].unable && !by.GraduallyDrained[m.ID] && !by.DrainsAll(m)
		if isKnown && isOpen && !by.Restarting[m.ID] && !roles.has(m.ID, role) {
			spare = append(spare, m.ID)
		}
		switch {
		case by.Restarting[m.ID]: // it keeps its shards
		case !isKnown:
			unknown = append(unknown, m.ID)
		case !roles.has(m.ID, role):
			lacking = append(lacking, m.ID)
		case isOpen:
			owners = append(owners, m.ID)
		}
	}
	by.Paused = by.Paused || len(unknown) > 0
	cordoned := unknown
	if len(owners) == 0 {
		cordoned = lacking
	}
	by.Cordoned, by.Emptied, by.Substitutes = maps.Clone(by.Cordoned), map[shardmap.NodeID]bool{}, map[shardmap.NodeID]bool{}
	for _, m := range members {
		isClosed := by.Cordoned[m.ID] || reports[m.ID].unable || by.GraduallyDrained[m.ID] || by.DrainsAll(m) || by.Restarting[m.ID]
		by.Substitutes[m.ID] = !isClosed && !roles.has(m.ID, role)
	}
	for _, id := range cordoned {
		if by.Cordoned == nil {
			by.Cordoned = map[shardmap.NodeID]bool{}
		}
		by.Cordoned[id] = true
	}
	for _, id := range lacking {
		by.Emptied[id] = len(owners) > 0
	}
	return by, spare
}

// checkRoles checks that a proposal moves no shard to a member without the role, while another member has it and may
// get further shards.
func (w *world) checkRoles(before, after *ack.State, e *logEntry) {
	p, policy := after.Proposed(), before.Policy()
	if policy.Role == "" || p.HasSameOwners(before.Proposed()) {
		return
	}
	always := func(id shardmap.NodeID) bool {
		return !slices.ContainsFunc(e.roleVariants(policy.Role), func(roles nodeRoles) bool { return !roles.has(id, policy.Role) })
	}
	isOpen := func(m shardmap.Member) bool {
		isUnable := e.reports[m.ID].unable || e.heard == m.ID && e.earlier.unable
		isClosed := policy.Cordoned[m.ID] || policy.IsDraining(m.ID) || policy.DrainsAll(m.ID, m.Instances) || before.Restarting(m.ID)
		return always(m.ID) && !isUnable && !isClosed && !e.stage.left[m.ID]
	}
	i := slices.IndexFunc(p.Members(), isOpen)
	if i < 0 {
		w.cover.roleMissing++
		return
	}
	for _, move := range shardmap.Diff(before.Committed(), p) {
		if move.To == "" || move.From == move.To {
			continue
		}
		w.cover.roleMoves++
		if slices.ContainsFunc(e.roleVariants(policy.Role), func(roles nodeRoles) bool { return roles.has(move.To, policy.Role) }) {
			continue
		}
		// A node without the role may own a shard of which each node with the role may have an old copy. It has none.
		isFresh := func(m shardmap.Member) bool { return isOpen(m) && !isBarredFrom(before, m, move.Shard) }
		if !before.IsBarred(p.OwnerInstanceID(move.Shard), move.Shard) && !slices.ContainsFunc(p.Members(), isFresh) {
			w.cover.roleSubstitutes++
			continue
		}
		// A node without the role may own a shard that no app with the role acquires.
		mayAcquire := func(m shardmap.Member) bool {
			isReported := slices.Contains(e.reports[m.ID].failed, move.Shard) || e.heard == m.ID && slices.Contains(e.earlier.failed, move.Shard)
			return isOpen(m) && !isReported && !isBarredFrom(before, m, move.Shard)
		}
		isReported := slices.ContainsFunc(slices.Collect(maps.Values(e.reports)), func(r appReport) bool { return slices.Contains(r.failed, move.Shard) })
		if (isReported || slices.Contains(e.earlier.failed, move.Shard)) && !slices.ContainsFunc(p.Members(), mayAcquire) {
			continue
		}
		w.fail("role: %d moves shard %d to %s, which is not known to have the role %s, and %s has it", p.Epoch(), move.Shard, move.To, policy.Role, p.Members()[i].ID)
	}
}

// isBarredFrom reports whether each instance of the member that is not drained is barred from the shard.
func isBarredFrom(s *ack.State, m shardmap.Member, shard shardmap.Shard) bool {
	for _, instance := range m.Instances.All() {
		if !s.Policy().Drained[shardmap.InstanceName(m.ID, instance)] && !s.IsBarred(shardmap.InstanceID(m.ID, instance), shard) {
			return false
		}
	}
	return true
}

// rolesSettled reports whether members without the role own no shards, if another member can own them. Nodes that may
// keep shards for another reason do not count.
func (w *world) rolesSettled() bool {
	policy, m := w.truth.Policy(), w.truth.Committed()
	if policy.Role == "" || policy.Pause > 0 {
		return true
	}
	hasOwner, remain := false, 0
	for _, h := range w.hosts {
		if !m.IsMember(h.id) || h.proc == nil || h.stuck() || h.app != nil || h.cache != nil || w.truth.Restarting(h.id) || policy.IsDraining(h.id) || h.drained() {
			continue
		}
		if slices.Contains(h.proc.roles, policy.Role) {
			hasOwner = hasOwner || !policy.Cordoned[h.id]
		} else {
			remain += m.ShardCount(h.id)
		}
	}
	return !hasOwner || remain == 0
}

// faultRole restricts shards to a role, which perhaps no node has, or ends the restriction.
func faultRole(w *world) bool {
	h := w.someLeader()
	if h == nil {
		return false
	}
	role := []string{"app", "app", "db", "db", "cache", ""}[w.pick(6)]
	return h.proc.lead.changePolicy(ack.Change{Kind: ack.ChangeRole, Role: role, Reason: []string{"", "licence"}[w.pick(2)]})
}

// faultRoleRestart restarts a node with other roles: in place, or after a crash.
func faultRoleRestart(w *world) bool {
	h := w.anyone()
	if h == nil || h.proc.leaving || h.proc.closing {
		return false
	}
	h.roles = [][]string{nil, {"app"}, {"db"}, {"app", "db"}}[w.pick(4)]
	w.logf("%s restarts with the roles %v", h.id, h.roles)
	down := w.span(10*time.Millisecond, 800*time.Millisecond)
	if w.pick(2) == 0 {
		h.restart(restarting{back: 1500 * time.Millisecond, down: down})
		return true
	}
	h.crash()
	w.back(h, down)
	return true
}
