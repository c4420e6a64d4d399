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
	// allOwnersHeldBack means that the only nodes that may own shards are held back.
	allOwnersHeldBack bool
}

// updateAppsHealth updates clusterAppHealth once in each step.
func (l *Leader) updateAppsHealth(now time.Duration) {
	var apps, unhealthy, failing, refused int
	for _, member := range l.state.Proposed().Members() {
		l.member(member.ID)
	}
	health := &l.appsHealth
	anyHeldBack := false
	for _, node := range l.members {
		anyHeldBack = anyHeldBack || l.isHeldBack(now, node)
		if !l.countsForHealth(now, node) {
			continue
		}
		apps++
		switch {
		case !node.hasHeartbeat():
			failing++
			refused++
		case node.heartbeat.Unhealthy || node.heartbeat.App.Failing:
			failing++
			if node.heartbeat.Unhealthy {
				unhealthy++
			}
			if node.heartbeat.App.Refused {
				refused++
			}
		}
	}
	health.mostMayFail, health.mostRefuseConns = 2*failing > apps, 2*refused > apps
	if health.mostUnhealthy = 2*unhealthy > apps; health.mostUnhealthy {
		health.panicMode, health.lastMostUnhealthy = true, now
	} else if now-health.lastMostUnhealthy > panicRecovery {
		health.panicMode = false
	}
	if health.allOwnersHeldBack = false; anyHeldBack {
		health.allOwnersHeldBack = true
		for id, node := range l.members {
			if l.eligibleIgnoringFlaps(now, node) && !l.isHeldBack(now, node) && !l.isRestarting(node) && !l.state.Policy().DrainsGradually(id) {
				health.allOwnersHeldBack = false
			}
		}
	}
}

// countsForHealth reports whether an app counts in clusterAppHealth: its node could own shards if
// the app is healthy. An app that has not started yet has never owned any.
func (l *Leader) countsForHealth(now time.Duration, node *member) bool {
	member := l.state.Proposed().IsMember(node.id)
	switch {
	case node.removed, node.hasCrashed(), node.heartbeat.Gateway, node.heartbeat.Leaving, node.heartbeat.Goodbye, l.state.Policy().Drained[node.id], l.isRestarting(node):
		return false
	case !node.hasHeartbeat():
		return member && now-l.electedAt < l.maxTiming.DeadAfter
	}
	return !node.isSilent(now, l.options.Pace) && (member || !node.heartbeat.App.Starting)
}

// excludedForHealth reports whether a node may not be in the next map because its app is
// unhealthy. If most apps are unhealthy, a member stays, because its shards would move from
// one unhealthy app to the next. If most apps may become unhealthy, the leader waits. An app
// that refuses connections is excluded immediately, unless most apps do.
func (l *Leader) excludedForHealth(node *member) bool {
	if !node.heartbeat.Unhealthy {
		return false
	}
	switch health := l.appsHealth; {
	case !l.state.Proposed().IsMember(node.id):
		return true
	case node.heartbeat.App.Refused:
		return !health.mostUnhealthy && !health.mostRefuseConns
	default:
		return !health.panicMode && !health.mostMayFail
	}
}

// isHeldBack reports whether a node outside the map must wait, because its app became
// unhealthy repeatedly and recovered only recently.
func (l *Leader) isHeldBack(now time.Duration, node *member) bool {
	return l.holdRemaining(now, node) > 0
}

// holdTime returns how long the app must be healthy before the node gets shards again.
func (l *Leader) holdTime(now time.Duration, node *member) time.Duration {
	if node.heartbeat.Unhealthy && !node.heartbeat.Gateway && !l.state.Proposed().IsMember(node.id) {
		return flapPause(node.heartbeat.App.FlapCount)
	}
	return l.holdRemaining(now, node)
}

// holdRemaining returns how long the node is still held back if its app remains healthy.
func (l *Leader) holdRemaining(now time.Duration, node *member) time.Duration {
	if !node.hasHeartbeat() || node.heartbeat.Unhealthy || node.heartbeat.Gateway || l.state.Proposed().IsMember(node.id) {
		return 0
	}
	return max(node.healthySince+flapPause(node.heartbeat.App.FlapCount)-now, 0)
}
