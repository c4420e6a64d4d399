package ack_test

import (
	"slices"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

// Checks how the health of all apps affects the map: if most apps are unhealthy, no app loses
// shards for that reason. An app that becomes unhealthy repeatedly gets its shards back later.

const (
	// appsCalm is how long at most half of the apps must have been unhealthy before one loses
	// shards.
	appsCalm = 5 * time.Second
	// flapFirst is the pause after the second fall; it doubles.
	flapFirst = 2 * time.Second
)

// becomeUnhealthy makes the app of a host unhealthy.
func (h *host) becomeUnhealthy() {
	h.unhealthy, h.failing = true, true
	h.falls = min(h.falls+1, 6)
}

// becomeHealthy makes it healthy.
func (h *host) becomeHealthy() { h.unhealthy, h.failing, h.refused = false, false, false }

// health returns the app health that the node of the host reports.
func (h *host) health() ack.AppHealth {
	return ack.AppHealth{Failing: h.failing, Refused: h.failing && h.refused, FlapCount: h.falls}
}

// faultUnhealthyMost makes several apps unhealthy in quick succession, and lets them recover in the
// same way.
func faultUnhealthyMost(w *world) bool {
	hit, longer := false, time.Duration(0)
	lasts := w.faultDuration()
	if w.pick(3) == 0 { // one recovers long after the others
		longer = appsCalm + w.span(time.Second, 3*time.Second)
	}
	end := w.now + lasts + longer
	for _, h := range w.hosts {
		if !running(h) || w.pick(4) == 0 {
			continue
		}
		hit = true
		refused := w.pick(4) == 0
		w.after(w.span(0, 60*time.Millisecond), nil, func() {
			if !w.healing {
				h.failing, h.refused = true, refused
			}
		})
		d := w.span(300*time.Millisecond, 500*time.Millisecond)
		w.undo(d, func() {
			w.logf("the app of %s is unhealthy together with other apps", h.id)
			h.becomeUnhealthy()
		})
		w.undo(d+lasts+longer+w.span(0, 700*time.Millisecond), h.becomeHealthy)
		longer = 0
	}
	if hit && end > w.now+lasts {
		w.run(end, nil)
	}
	return hit
}

// faultFlap makes an app unhealthy several times.
func faultFlap(w *world) bool {
	h := w.anyone()
	if h == nil {
		return false
	}
	w.logf("the app of %s flaps", h.id)
	w.cover.flaps++
	at := time.Duration(0)
	for range 2 + w.pick(4) {
		w.undo(at, h.becomeUnhealthy)
		at += w.span(100*time.Millisecond, 900*time.Millisecond)
		w.undo(at, h.becomeHealthy)
		at += w.span(100*time.Millisecond, 3*time.Second)
	}
	w.run(w.now+w.span(0, at), nil)
	return true
}

// faultFlapLoss stops the other nodes after a flapping app has recovered.
func faultFlapLoss(w *world) bool {
	hit := faultFlap(w)
	for _, h := range w.hosts {
		if running(h) && h.falls < 2 && w.pick(2) == 0 {
			h.becomeUnhealthy()
			w.undo(w.faultDuration(), h.becomeHealthy)
		}
	}
	return hit
}

// ableNodes returns the nodes that may own shards and are not held back.
func (l *leaderLoop) ableNodes() map[shardmap.NodeID]bool {
	able := map[shardmap.NodeID]bool{}
	for _, v := range l.turn.View() {
		if v.Eligible && v.HoldTime == 0 {
			able[v.Node] = true
		}
	}
	return able
}

// appsSeen is what a leader has received about apps.
type appsSeen struct {
	healthy map[shardmap.NodeID]time.Duration // since when; none: it is not
	few     time.Duration                     // since when at most half may be unhealthy; negative: more are
	able    map[shardmap.NodeID]bool          // at the last tick
	most    bool                              // at the last tick, more than half of the apps were unhealthy
	idle    time.Duration                     // since when a healthy node owns nothing while no node can; negative: none does
}

// recordAppHealth records the health of an app from a heartbeat that counted.
func (l *leaderLoop) recordAppHealth(h ack.Heartbeat) {
	if h.Unhealthy {
		delete(l.apps.healthy, h.Node)
	} else if _, known := l.apps.healthy[h.Node]; !known {
		l.apps.healthy[h.Node] = l.p.clock()
	}
}

// countApps counts the apps that could own shards, those that are unhealthy, and those that
// may be.
func (l *leaderLoop) countApps() (apps, unhealthy, perhaps int) {
	s := l.driverState()
	for _, v := range l.turn.View() {
		hb := v.Heartbeat
		member := s.Proposed().IsMember(v.Node)
		if v.SinceHeartbeat < 0 {
			if member && l.p.clock()-l.turn.StartedAt() < l.p.w.deadAfter() {
				apps++
				perhaps++
			}
			continue
		}
		if v.Silent || v.Crashed || v.Restarting || hb.Gateway || hb.Leaving || hb.Goodbye || s.Policy().DrainsAll(v.Node, hb.Instances) {
			continue
		}
		if s.Policy().MarkedFailed[v.Node] {
			continue // it owns no shards, whether its app is healthy or not
		}
		apps++
		if hb.Unhealthy {
			unhealthy++
		}
		if hb.Unhealthy || hb.App.Failing {
			perhaps++
		}
	}
	return apps, unhealthy, perhaps
}

// checkHealth checks a proposal: no node is excluded for an unhealthy app if most are
// unhealthy, and a flapping app returns late.
func (l *leaderLoop) checkHealth(e leader.Submit) {
	told, w := l.driverState(), l.p.w
	if e.Commit || told.Proposed().Epoch() == 0 {
		return
	}
	next, outcome, err := told.Apply(told.Index()+1, l.term, e.Entry)
	if err != nil || outcome != ack.OutcomeProposed {
		return
	}
	if w.services != nil {
		l.checkServiceHealth(next)
		return
	}
	apps, unhealthy, _ := l.countApps()
	others := func(but shardmap.NodeID) bool { // also at the last tick: a turn takes several steps
		return slices.ContainsFunc(l.turn.View(), func(v leader.MemberView) bool {
			return v.Node != but && v.Eligible && v.HoldTime == 0 && !told.Policy().IsDraining(v.Node) && l.apps.able[v.Node]
		})
	}
	for _, v := range l.turn.View() {
		hb, id := v.Heartbeat, v.Node
		was, is := told.Proposed().IsMember(id), next.Proposed().IsMember(id)
		if v.SinceHeartbeat < 0 || v.Silent || v.Crashed {
			continue
		}
		if d, ok := next.Drop(id); ok && d.InForce && !is {
			continue // for another reason
		}
		if was && !is && hb.Unhealthy && !hb.Leaving && !hb.Goodbye && !told.Policy().DrainsAll(id, hb.Instances) && 2*unhealthy > apps && l.apps.most {
			w.fail("health: %s is left out, though %d of %d apps are unhealthy", id, unhealthy, apps)
		}
		if was || !is || v.Restarting || hb.App.FlapCount < 2 || l.onlyKeepsShards(next.Proposed(), id) || !others(id) {
			continue
		}
		pause := flapFirst << (hb.App.FlapCount - 2)
		if since, ok := l.apps.healthy[id]; ok && l.p.clock()-since < pause {
			w.fail("health: %s is back %v after its app has recovered for the %d. time", id, l.p.clock()-since, hb.App.FlapCount)
		}
	}
	if 2*unhealthy > apps {
		w.cover.panics++
	}
}

// onlyKeepsShards reports whether a node owns only shards that a safe drain leaves there.
func (l *leaderLoop) onlyKeepsShards(m *shardmap.Map, id shardmap.NodeID) bool {
	kept := l.turn.KeptShards()
	for shard := range m.Shards(id) {
		if !kept[shard] {
			return false
		}
	}
	return m.ShardCount(id) > 0
}

// sampleApps records since when at most half of the apps may have been unhealthy.
func (l *leaderLoop) sampleApps() {
	switch apps, _, perhaps := l.countApps(); {
	case 2*perhaps > apps:
		l.apps.few = -1
	case l.apps.few < 0:
		l.apps.few = l.p.clock()
	}
}

// unhealthyFew returns a member whose app must be excluded, because at most half of the apps
// may have been unhealthy for long enough.
func (l *leaderLoop) unhealthyFew() (id shardmap.NodeID) {
	if l.sampleApps(); l.p.w.services != nil || l.apps.few < 0 || l.p.clock()-l.apps.few <= appsCalm+lossWait {
		return ""
	}
	for _, v := range l.turn.View() {
		if v.SinceHeartbeat >= 0 && !v.Silent && !v.Restarting && v.Heartbeat.Unhealthy && l.driverState().Proposed().IsMember(v.Node) {
			id = v.Node
		}
	}
	return id
}

// judgeHeldBack checks that no node is held back if no other node can own shards.
func (l *leaderLoop) judgeHeldBack() {
	l.apps.able = l.ableNodes()
	apps, unhealthy, _ := l.countApps()
	l.apps.most = 2*unhealthy > apps // a heartbeat may come between a proposal and its submission
	l.mostUnhealthy = l.mostlyUnhealthyServices()
	s, now := l.driverState(), l.p.clock()
	able, held := false, shardmap.NodeID("")
	for _, v := range l.turn.View() {
		switch {
		case v.HoldTime > 0 && !v.Heartbeat.Unhealthy && !v.Silent && !v.Crashed && v.LinkWorks && !v.Heartbeat.Gateway && !v.Heartbeat.Leaving && !v.Heartbeat.Goodbye && !s.Policy().IsDraining(v.Node) && !s.Policy().MarkedFailed[v.Node]:
			held = v.Node
			able = able || v.Eligible
		case v.Eligible && !s.Policy().IsDraining(v.Node):
			able = true
		}
	}
	x := &l.apps.idle
	switch {
	case able || held == "" || !l.waits.barrier || !l.p.w.leased(held): // without a quorum there are no leases
		*x = -1
	case l.waits.base != nil: // no entry follows before the last one is applied
		*x = -1
	case *x < 0:
		*x = now
	case now-*x > time.Second:
		l.p.w.fail("health: %s is held back, and no other node can own shards", held)
	}
}

// leased reports that the process of a node has a lease.
func (w *world) leased(id shardmap.NodeID) bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool {
		return h.id == id && h.proc != nil && h.proc.machine.LeaseRemaining(h.proc.clock()) > 0
	})
}
