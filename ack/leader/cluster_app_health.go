package leader

import "time"

// panicRecovery is the time after which health moves shards again, counted from when more than half
// of the apps were last unhealthy. Apps that share a failed dependency recover one after the other,
// and no shard should move between them during that time.
const panicRecovery = 5 * time.Second

// clusterAppHealth is the combined health of all apps.
type clusterAppHealth struct {
	// panicMode means that most apps are unhealthy, or were within panicRecovery, so health
	// moves no shards. mostUnhealthy means that most apps are unhealthy now.
	panicMode, mostUnhealthy bool
	// lastMostUnhealthy is when most apps were last unhealthy.
	lastMostUnhealthy time.Duration
	// mostMayFail and mostRefuseConns: most apps are unhealthy or may be soon, because their last
	// checks failed, or were refused. A new leader includes apps of nodes that have not sent a
	// heartbeat yet.
	mostMayFail, mostRefuseConns bool
	// onlyHeldBack means that the only nodes that may own shards are held back.
	onlyHeldBack bool
}

// updateAppsHealth updates clusterAppHealth once in each step.
func (l *Leader) updateAppsHealth(now time.Duration) {
	var apps, unhealthy, failing, refused int
	for _, m := range l.state.Proposed().Members() {
		l.member(m.ID)
	}
	h := &l.appsHealth
	held := false
	for _, n := range l.members {
		held = held || l.isHeldBack(now, n)
		if !l.countsApp(now, n) {
			continue
		}
		apps++
		switch {
		case !n.hasHeartbeat():
			failing++
			refused++
		case n.heartbeat.Unhealthy || n.heartbeat.App.Failing:
			failing++
			if n.heartbeat.Unhealthy {
				unhealthy++
			}
			if n.heartbeat.App.Refused {
				refused++
			}
		}
	}
	h.mostMayFail, h.mostRefuseConns = 2*failing > apps, 2*refused > apps
	if h.mostUnhealthy = 2*unhealthy > apps; h.mostUnhealthy {
		h.panicMode, h.lastMostUnhealthy = true, now
	} else if now-h.lastMostUnhealthy > panicRecovery {
		h.panicMode = false
	}
	if h.onlyHeldBack = false; held {
		h.onlyHeldBack = true
		for id, n := range l.members {
			if l.eligibleIgnoringFlaps(now, n) && !l.isHeldBack(now, n) && !l.isRestarting(n) && !l.state.Policy().DrainsGradually(id) {
				h.onlyHeldBack = false
			}
		}
	}
}

// countsApp reports whether an app counts in clusterAppHealth: its node could own shards if
// the app is healthy. An app that has not started yet has never owned any.
func (l *Leader) countsApp(now time.Duration, n *member) bool {
	member := l.state.Proposed().Has(n.id)
	switch {
	case n.removed, n.hasCrashed(), n.heartbeat.Gateway, n.heartbeat.Leaving, n.heartbeat.Goodbye, l.state.Policy().Drained[n.id], l.isRestarting(n):
		return false
	case !n.hasHeartbeat():
		return member && now-l.electedAt < l.maxTiming.DeadAfter
	}
	return !n.isSilent(now, l.options.Pace) && (member || !n.heartbeat.App.Starting)
}

// excludedForHealth reports whether a node may not be in the next map because its app is
// unhealthy. If most apps are unhealthy, a member stays, because its shards would move from
// one unhealthy app to the next. If most apps may become unhealthy, the leader waits. An app
// that refuses connections is excluded immediately, unless most apps do.
func (l *Leader) excludedForHealth(n *member) bool {
	if !n.heartbeat.Unhealthy {
		return false
	}
	switch h := l.appsHealth; {
	case !l.state.Proposed().Has(n.id):
		return true
	case n.heartbeat.App.Refused:
		return !h.mostUnhealthy && !h.mostRefuseConns
	default:
		return !h.panicMode && !h.mostMayFail
	}
}

// isHeldBack reports whether a node outside the map must wait, because its app became
// unhealthy repeatedly and recovered only recently.
func (l *Leader) isHeldBack(now time.Duration, n *member) bool { return l.holdRemaining(now, n) > 0 }

// holdTime returns how long the app must be healthy before the node gets shards again.
func (l *Leader) holdTime(now time.Duration, n *member) time.Duration {
	if n.heartbeat.Unhealthy && !n.heartbeat.Gateway && !l.state.Proposed().Has(n.id) {
		return flapPause(n.heartbeat.App.FlapCount)
	}
	return l.holdRemaining(now, n)
}

// holdRemaining returns how long the node is still held back if its app remains healthy.
func (l *Leader) holdRemaining(now time.Duration, n *member) time.Duration {
	if !n.hasHeartbeat() || n.heartbeat.Unhealthy || n.heartbeat.Gateway || l.state.Proposed().Has(n.id) {
		return 0
	}
	return max(n.healthySince+flapPause(n.heartbeat.App.FlapCount)-now, 0)
}
