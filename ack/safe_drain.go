package ack

import (
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// DrainTerms are the options of a drain.
type DrainTerms struct {
	// Release replaces the release timeout of the node, up to MaxReleaseTimeout; zero means
	// not set.
	Release time.Duration
	// Safe: a shard that the app does not release remains at the node.
	Safe bool
	// Since is the index of the entry that started the drain.
	Since uint64
}

// setTerms sets the terms of a drain.
func (p *Policy) setTerms(index uint64, c Change) {
	if c.Release == 0 && !c.Safe {
		delete(p.Terms, c.Node)
		return
	}
	setKey(&p.Terms, c.Node, DrainTerms{Release: c.Release, Safe: c.Safe, Since: index})
}

// drainTerms writes the terms of drains in the order of the nodes.
func (w *writer) drainTerms(all map[shardmap.NodeID]DrainTerms) {
	w.uint(uint64(len(all)))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		w.text(string(id))
		w.uint(uint64(all[id].Release))
		w.bool(all[id].Safe)
		w.uint(all[id].Since)
	}
}

func (r *reader) drainTerms() map[shardmap.NodeID]DrainTerms {
	return readSorted(r, r.node, func() DrainTerms {
		t := DrainTerms{Release: time.Duration(r.uint(0, uint64(MaxReleaseTimeout))), Safe: r.bool(), Since: r.uint(1, maxUint)}
		if r.err == nil && t.Release == 0 && !t.Safe {
			r.fail("empty drain terms")
		}
		return t
	})
}

// safeDrainState contains the shards that a safe drain leaves at this node, with the reasons.
type safeDrainState struct {
	drainIndex uint64 // DrainTerms.Since of the drain
	keptShards map[shardmap.Shard]string
}

// drainTerms returns the terms of the drain of this node. Zero means that the node is not
// drained, or stops.
func (m *hookMachine) drainTerms() DrainTerms {
	if m.seen.state == nil || m.seen.stopping {
		return DrainTerms{}
	}
	return m.seen.state.Policy().Terms[m.self]
}

// releaseTimeout returns the release timeout in force.
func (m *hookMachine) releaseTimeout() time.Duration {
	if t := m.drainTerms().Release; t > 0 {
		return t
	}
	return m.o.ReleaseTimeout
}

// attemptTimeout returns the timeout of one release call. An operator who sets the release
// timeout of a drain has a slow app, so one call may take half of it.
func (m *hookMachine) attemptTimeout() time.Duration {
	return min(max(maxAttempt, m.drainTerms().Release/2), m.releaseTimeout())
}

func (m *hookMachine) lostTime() time.Duration    { return lostTime(m.releaseTimeout()) }
func (m *hookMachine) deliverTime() time.Duration { return deliverTime(m.releaseTimeout()) }

// keepsUnreleased reports whether a shard remains here because its release failed under a safe
// drain. The node then does not acknowledge the proposal, and the leader makes another one. An
// excluded node keeps nothing.
func (m *hookMachine) keepsUnreleased(s shardmap.Shard, h *heldShard) bool {
	if d := m.seen.state.drops[m.self]; d.InForce || m.appRefuses || !m.drainTerms().Safe {
		return false
	}
	if _, known := m.safeDrain.keptShards[s]; !known {
		result, why := h.releaseFailure()
		setKey(&m.safeDrain.keptShards, s, why)
		m.reportNow = true
		m.reportReleaseEnd(s, h, result, why, true)
	}
	return true
}

// resetSafeDrain forgets the shards that an earlier drain left here.
func (m *hookMachine) resetSafeDrain() {
	if t := m.drainTerms(); !t.Safe || t.Since != m.safeDrain.drainIndex {
		m.safeDrain = safeDrainState{drainIndex: t.Since}
	}
}

// safeDrainReport returns the values for a heartbeat: up to MaxUnacquired shards, or all.
func (a *Agent) safeDrainReport() (list []shardmap.Shard, all bool) {
	if a.hooks == nil || len(a.hooks.safeDrain.keptShards) == 0 {
		return nil, false
	}
	if len(a.hooks.safeDrain.keptShards) > MaxUnacquired {
		return nil, true
	}
	return slices.Sorted(maps.Keys(a.hooks.safeDrain.keptShards)), false
}

// KeptShards returns the number of shards that a safe drain leaves at this node, and why the
// first of them was not released.
func (a *Agent) KeptShards() (n int, why string) {
	if a.hooks == nil || len(a.hooks.safeDrain.keptShards) == 0 {
		return 0, ""
	}
	all := a.hooks.safeDrain.keptShards
	return len(all), all[slices.Min(slices.Collect(maps.Keys(all)))]
}

// findKeptShards returns the shards that remain at their owners because of safe drains. An
// owner that may be gone, or whose app is unhealthy, keeps nothing.
func (l *Leader) findKeptShards(now time.Duration) (kept map[shardmap.Shard]bool) {
	base, p := l.state.Committed(), l.state.Policy()
	for id, t := range p.Terms {
		n := l.members[id]
		if d, _ := l.state.Drop(id); !t.Safe || n == nil || !n.hasHeartbeat() || d.InForce || n.removed || n.hasCrashed() || n.isSilent(now, l.o.Pace) || l.isRestarting(n) ||
			l.exclusionCause(now, n) != 0 || n.heartbeat.Unhealthy || n.heartbeat.Leaving || n.heartbeat.Goodbye {
			continue
		}
		for s := range base.Shards(id) {
			if n.heartbeat.KeepsAll || slices.Contains(n.heartbeat.Kept, s) {
				setKey(&kept, s, true)
			}
		}
	}
	return kept
}
