package ack

import (
	"maps"
	"slices"
	"time"

	"shardway/shardmap"
)

// DrainTerms are what an operator asks of a drain beside that the node owns nothing.
type DrainTerms struct {
	// Release replaces the node's release timeout, up to MaxReleaseTimeout; zero: it does not.
	Release time.Duration
	// Safe: a shard that the app does not release stays at the node.
	Safe bool
	// Since is the index of the entry that asked for it.
	Since uint64
}

// setTerms takes the terms of a drain.
func (p *Policy) setTerms(index uint64, c Change) {
	if c.Release == 0 && !c.Safe {
		delete(p.Terms, c.Node)
		return
	}
	put(&p.Terms, c.Node, DrainTerms{Release: c.Release, Safe: c.Safe, Since: index})
}

// terms writes the terms of drains in the order of their nodes.
func (w *writer) terms(all map[shardmap.NodeID]DrainTerms) {
	w.uint(uint64(len(all)))
	for _, id := range slices.Sorted(maps.Keys(all)) {
		w.text(string(id))
		w.uint(uint64(all[id].Release))
		w.bool(all[id].Safe)
		w.uint(all[id].Since)
	}
}

func (r *reader) terms() map[shardmap.NodeID]DrainTerms {
	return sorted(r, r.node, func() DrainTerms {
		t := DrainTerms{Release: time.Duration(r.uint(0, uint64(MaxReleaseTimeout))), Safe: r.bool(), Since: r.uint(1, maxUint)}
		if r.err == nil && t.Release == 0 && !t.Safe {
			r.fail("terms of nothing")
		}
		return t
	})
}

// keeping has the shards that a safe drain leaves at this node.
type keeping struct {
	since  uint64 // the drain
	shards map[shardmap.Shard]string
}

// terms returns those of the drain of this node; zero: it is not drained, or stops.
func (k *hooks) terms() DrainTerms {
	if k.saw.state == nil || k.saw.parting {
		return DrainTerms{}
	}
	return k.saw.state.Policy().Terms[k.self]
}

// release returns the release timeout in force.
func (k *hooks) release() time.Duration {
	if t := k.terms().Release; t > 0 {
		return t
	}
	return k.o.ReleaseTimeout
}

// attempt returns how long one attempt to release may take. An operator who sets the release
// timeout of a drain has a slow app, so an attempt may take half of that timeout.
func (k *hooks) attempt() time.Duration {
	return min(max(attemptMost, k.terms().Release/2), k.release())
}

func (k *hooks) lostTime() time.Duration    { return lostTime(k.release()) }
func (k *hooks) deliverTime() time.Duration { return deliverTime(k.release()) }

// keeps reports that a shard stays here because its release failed under a safe drain: the
// node does not acknowledge the proposal, and the leader makes another one. A node that is
// excluded keeps nothing.
func (k *hooks) keeps(s shardmap.Shard, h *holding) bool {
	if d := k.saw.state.drops[k.self]; d.InForce || k.refused || !k.terms().Safe {
		return false
	}
	if _, known := k.keeping.shards[s]; !known {
		result, why := h.releaseFailure()
		put(&k.keeping.shards, s, why)
		k.spoke = true
		k.releaseEnded(s, h, result, why, true)
	}
	return true
}

// lookKeeping forgets what an earlier drain has left here.
func (k *hooks) lookKeeping() {
	if t := k.terms(); !t.Safe || t.Since != k.keeping.since {
		k.keeping = keeping{since: t.Since}
	}
}

// kept returns what a heartbeat reports: up to MaxUnacquired shards, or that all stay.
func (a *Agent) kept() (list []shardmap.Shard, all bool) {
	if a.hooks == nil || len(a.hooks.keeping.shards) == 0 {
		return nil, false
	}
	if len(a.hooks.keeping.shards) > MaxUnacquired {
		return nil, true
	}
	return slices.Sorted(maps.Keys(a.hooks.keeping.shards)), false
}

// Kept returns the number of shards that a safe drain leaves at this node, and why the first
// of them was not released.
func (a *Agent) Kept() (n int, why string) {
	if a.hooks == nil || len(a.hooks.keeping.shards) == 0 {
		return 0, ""
	}
	all := a.hooks.keeping.shards
	return len(all), all[slices.Min(slices.Collect(maps.Keys(all)))]
}

// kept returns the shards that stay with their owners: safe drains do not take them. An owner
// that may be gone, or whose app is, keeps nothing.
func (l *Leader) kept(now time.Duration) (kept map[shardmap.Shard]bool) {
	base, p := l.state.Committed(), l.state.Policy()
	for id, t := range p.Terms {
		n := l.nodes[id]
		if d, _ := l.state.Drop(id); !t.Safe || n == nil || !n.heard() || d.InForce || n.removed || n.crashed() || n.silent(now, l.o.Pace) || l.absent(n) ||
			l.failing(now, n) != 0 || n.beat.Unhealthy || n.beat.Leaving || n.beat.Goodbye {
			continue
		}
		for s := range base.Shards(id) {
			if n.beat.KeepsAll || slices.Contains(n.beat.Kept, s) {
				put(&kept, s, true)
			}
		}
	}
	return kept
}
